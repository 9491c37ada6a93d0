#include "cm/sidr.h"

#include <cerrno>

namespace verbena::cm {

Sidr::Sidr(Environment& environment, SidrUser& user, Connections& numbers)
    : environment_(environment), user_(user), numbers_(numbers) {}

std::uint32_t Sidr::request(IdNumber owner, const wire::Path& path, std::uint64_t service_id,
                            const std::array<std::uint8_t, 216>& private_data, Time now) {
    std::uint32_t number = numbers_.new_comm_id();
    wire::SidrReq req;
    req.request_id = number;
    req.pkey = kDefaultPkey;
    req.service_id = service_id;
    req.private_data = private_data;

    Asked& asked = asked_[number];
    asked.owner = owner;
    asked.path = path;
    asked.message = make_mad(transaction_of(number), req);
    environment_.send_mad(asked.path, wire::kQp1, asked.message);
    timers_.set(number, now + iba_timeout(kResponseTimeout));
    return number;
}

void Sidr::cancel(std::uint32_t request) {
    if (asked_.erase(request)) timers_.cancel(request);
}

Mad Sidr::make_rep(const Served& served, wire::SidrStatus status, std::uint32_t qpn, std::uint32_t qkey,
                   std::span<const std::uint8_t> private_data) {
    wire::SidrRep rep;
    rep.request_id = served.peer_request;
    rep.status = status;
    rep.qpn = qpn;
    rep.service_id = served.service_id;
    rep.qkey = qkey;
    copy_private_data(private_data, rep.private_data);
    return make_mad(served.transaction_id, rep);
}

bool Sidr::answer(std::uint32_t request, wire::SidrStatus status, std::uint32_t qpn, std::uint32_t qkey,
                  std::span<const std::uint8_t> private_data, Time now) {
    auto found = served_.find(request);
    if (found == served_.end() || found->second.answered) return false;
    Served& served = found->second;
    served.answer = make_rep(served, status, qpn, qkey, private_data);
    served.answered = true;
    pending_--;
    environment_.send_mad(served.path, served.destination_qp, served.answer);
    if (served_.size() - pending_ > kMaxAnswers)
        forget(request);
    else
        timers_.set(request, now + kAnswerMemory);
    return true;
}

void Sidr::forget(std::uint32_t number) {
    auto found = served_.find(number);
    if (found == served_.end()) return;
    timers_.cancel(number);
    auto peer = by_peer_.find({found->second.peer, found->second.peer_request});
    if (peer != by_peer_.end() && peer->second == number) by_peer_.erase(peer);
    if (!found->second.answered) pending_--;
    served_.erase(found);
}

bool Sidr::receive(const wire::MadHeader& header, wire::CmConstBytes message, const wire::Path& sender_view,
                   std::uint32_t source_qp, Time now) {
    if (header.attribute_id == wire::CmAttribute::sidr_req) {
        wire::SidrReq req;
        wire::decode(message, req);
        on_req(req, header.transaction_id, sender_view, source_qp, now);
        return true;
    }
    if (header.attribute_id == wire::CmAttribute::sidr_rep) {
        wire::SidrRep rep;
        wire::decode(message, rep);
        on_rep(rep);
        return true;
    }
    return false;
}

void Sidr::on_req(const wire::SidrReq& req, std::uint64_t transaction_id, const wire::Path& sender_view,
                  std::uint32_t source_qp, Time now) {
    PeerKey key{sender_view.source, req.request_id};
    if (auto known = by_peer_.find(key); known != by_peer_.end()) {
        const Served& served = served_.at(known->second);
        if (!served.answered) return;  // the program has it
        if (served.transaction_id == transaction_id && served.service_id == req.service_id) {
            environment_.send_mad(served.path, served.destination_qp, served.answer);
            timers_.set(known->second, now + kAnswerMemory);
            return;
        }
        forget(known->second);  // the number came round again
    }

    Served served;
    served.peer = sender_view.source;
    served.peer_request = req.request_id;
    served.transaction_id = transaction_id;
    served.service_id = req.service_id;
    served.path = path_back(sender_view);
    served.destination_qp = source_qp;

    std::uint32_t number = numbers_.new_comm_id();
    wire::SidrStatus status = wire::SidrStatus::unsupported;
    switch (user_.service_requested(number, req, sender_view, status)) {
        case SidrUser::Verdict::accepted:
            served_.emplace(number, served);
            by_peer_[key] = number;
            pending_++;
            return;
        case SidrUser::Verdict::rejected:
            environment_.send_mad(served.path, served.destination_qp, make_rep(served, status, 0, 0, {}));
            return;
        case SidrUser::Verdict::dropped:
            return;
    }
}

void Sidr::on_rep(const wire::SidrRep& rep) {
    auto found = asked_.find(rep.request_id);
    if (found == asked_.end()) return;
    ConnectionEvent event;
    bool success = rep.status == wire::SidrStatus::success;
    event.type = success ? EventType::established : EventType::unreachable;
    event.status = static_cast<std::int32_t>(rep.status);
    event.parameters.qp_type = QpType::ud;
    event.parameters.qp_number = rep.qpn;
    event.parameters.qkey = rep.qkey;
    set_private_data(event.parameters, rep.private_data);
    IdNumber owner = found->second.owner;
    timers_.cancel(found->first);
    asked_.erase(found);
    user_.service_resolved(owner, event);
}

void Sidr::advance(Time now) {
    Timers::Key key;
    while (timers_.pop(now, key)) {
        auto number = static_cast<std::uint32_t>(key);
        auto found = asked_.find(number);
        if (found == asked_.end()) {
            forget(number);
            continue;
        }
        Asked& asked = found->second;
        if (asked.retries_left > 0) {
            asked.retries_left--;
            environment_.send_mad(asked.path, wire::kQp1, asked.message);
            timers_.set(number, now + iba_timeout(kResponseTimeout));
            continue;
        }
        IdNumber owner = asked.owner;
        asked_.erase(found);
        ConnectionEvent event;
        event.type = EventType::unreachable;
        event.status = -ETIMEDOUT;
        user_.service_resolved(owner, event);
    }
}

}  // namespace verbena::cm
