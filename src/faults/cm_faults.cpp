#include "faults/cm_faults.h"

#include <algorithm>

#include "wire/cm_messages.h"

namespace verbena::faults {
namespace {

wire::Path turned(wire::Path path) {
    std::swap(path.source, path.destination);
    return path;
}

}  // namespace

std::array<std::uint8_t, wire::kMadLength> reject_of(MadBytes request, std::int32_t reason) {
    std::array<std::uint8_t, wire::kMadLength> mad{};
    wire::MadHeader header;
    wire::decode(wire::mad_header(request), header);
    if (!wire::is_cm(header) || header.attribute_id != wire::CmAttribute::req) return mad;
    wire::Req req;
    wire::decode(wire::cm_message(request), req);
    header.attribute_id = wire::CmAttribute::rej;
    wire::Rej rej;
    rej.remote_comm_id = req.local_comm_id;
    rej.message_rejected = wire::CmAnswered::req;
    rej.reason = static_cast<wire::RejReason>(reason);
    wire::encode(header, wire::mad_header(std::span<std::uint8_t, wire::kMadLength>(mad)));
    wire::encode(rej, wire::cm_message(std::span<std::uint8_t, wire::kMadLength>(mad)));
    return mad;
}

std::shared_ptr<Board> CmFaults::adopt(std::unique_ptr<Board> fresh) {
    if (!fresh) return nullptr;
    std::erase_if(boards_, [](const auto& board) { return board.expired(); });
    for (const auto& each : boards_)
        if (std::shared_ptr<Board> board = each.lock(); board && board->is_same_as(*fresh)) return board;
    std::shared_ptr<Board> board = std::move(fresh);
    boards_.push_back(board);
    return board;
}

std::shared_ptr<Board> CmFaults::board_of(int fd) { return adopt(Board::from(fd)); }
std::shared_ptr<Board> CmFaults::board_of(const std::string& path) { return adopt(Board::open(path)); }

CmFaults::Fired CmFaults::decide(Direction direction, MadBytes mad) {
    if (boards_.empty()) return {};
    wire::MadHeader header;
    wire::decode(wire::mad_header(mad), header);
    if (!wire::is_cm(header)) return {};
    for (const auto& each : boards_) {
        std::shared_ptr<Board> board = each.lock();
        for (unsigned index = 0; board && index < board->count(); index++) {
            const Rule& rule = board->rule(index);
            if (board->active(index) && rule.subject == Subject::cm && rule.direction == direction &&
                rule.takes_message(static_cast<std::uint16_t>(header.attribute_id)) && board->meets(index))
                return {board, index};
        }
    }
    return {};
}

void CmFaults::hold(bool leaves, Time due, const wire::Path& path, std::uint32_t qp, MadBytes mad,
                    const Fired& fired) {
    Held& held = held_.emplace_back();
    held.leaves = leaves;
    held.due = due;
    held.path = path;
    held.qp = qp;
    std::copy(mad.begin(), mad.end(), held.mad.begin());
    held.board = fired.board;
    held.note = fired.note();
}

void CmFaults::send(const wire::Path& path, std::uint32_t destination_qp, MadBytes mad, Time now) {
    const Fired fired = decide(Direction::out, mad);
    if (!fired) return setup_.send(path, destination_qp, mad, {});
    Mark mark{.note = fired.note()};
    switch (fired.rule().action) {
        case Action::delay:
            return hold(true, now + fired.rule().time, path, destination_qp, mad, fired);
        case Action::duplicate:
            setup_.send(path, destination_qp, mad, {});
            return setup_.send(path, destination_qp, mad, mark);
        case Action::corrupt:
            mark.damaged = true;
            return setup_.send(path, destination_qp, mad, mark);
        case Action::refuse:
            // As if the peer had answered. The caller is in the middle of sending: later.
            hold(false, now, turned(path), wire::kQp1, reject_of(mad, fired.rule().code), fired);
            [[fallthrough]];
        default:
            mark.lost = true;
            return setup_.send(path, destination_qp, mad, mark);
    }
}

void CmFaults::arrived(const wire::Path& path, std::uint32_t source_qp, MadBytes mad, Time now) {
    const Fired fired = decide(Direction::in, mad);
    if (!fired) return setup_.deliver(path, source_qp, mad, now);
    switch (fired.rule().action) {
        case Action::delay:
            return hold(false, now + fired.rule().time, path, source_qp, mad, fired);
        case Action::duplicate:
            setup_.deliver(path, source_qp, mad, now);
            return setup_.deliver(path, source_qp, mad, now);
        case Action::refuse:
            return setup_.send(turned(path), source_qp, reject_of(mad, fired.rule().code),
                               {.note = fired.note()});
        default:  // dropped, or damaged, which is the same to who receives it
            return;
    }
}

Time CmFaults::next_deadline() const {
    Time next = kNever;
    for (const Held& held : held_) next = std::min(next, held.due);
    return next;
}

void CmFaults::advance(Time now) {
    std::list<Held> due;
    for (auto each = held_.begin(); each != held_.end();) {
        const auto next = std::next(each);
        if (each->due <= now) due.splice(due.end(), held_, each);
        each = next;
    }
    for (const Held& held : due) {
        if (held.leaves)
            setup_.send(held.path, held.qp, held.mad, {.note = held.note});
        else
            setup_.deliver(held.path, held.qp, held.mad, now);
    }
}

}  // namespace verbena::faults
