// The model of memory: what each request will have done to the peer's target once everything before it is
// done, what must be there when a request completes, and what a failed one may have left.
#include <algorithm>
#include <cstring>

#include "sim/endpoint.h"

namespace verbena::sim {
namespace {

using namespace transport;

// A WRITE with immediate without a receive is refused at its last packet; the others were executed.
bool changes_nothing(Mistake mistake) {
    return mistake != Mistake::none && mistake != Mistake::missing_receive;
}

constexpr std::size_t kPart = 1 << 20;  // bytes: what a link executes at a time (rc_requester.h)

std::uint64_t load(const std::uint8_t* from) {
    std::uint64_t word;
    std::memcpy(&word, from, sizeof word);
    return word;
}

std::uint64_t after_atomic(const Op& op, std::uint64_t original) {
    if (op.operation == Operation::fetch_add) return original + op.compare_add;
    return original == op.compare_add ? op.swap : original;
}

}  // namespace

// ---- as it is posted

void Endpoint::will_execute(std::uint32_t index) {
    const Op& op = plan_.ops[index];
    if (op.is_read() && op.mistake == Mistake::out_of_bounds) {
        // A long READ is asked for in pieces; those inside the region are answered.
        const auto inside = peer_->arena_.expected(peer_->target_ + op.remote_offset,
                                                   peer_->plan_.target_size - op.remote_offset);
        ops_[index].snapshot.assign(inside.begin(), inside.end());
    }
    if (op.shared_word || changes_nothing(op.mistake)) return;
    const auto range = [&] { return peer_->arena_.expected(peer_->target_ + op.remote_offset, op.length); };
    if (op.is_read()) {
        ops_[index].snapshot.assign(range().begin(), range().end());
    } else if (op.is_write()) {
        fill_pattern(op.key, 0, range());
    } else if (op.is_atomic()) {
        ops_[index].original = load(range().data());
        const std::uint64_t word = after_atomic(op, ops_[index].original);
        std::memcpy(range().data(), &word, sizeof word);
    } else {
        return;
    }
    if (!op.is_read()) std::fill_n(last_writer_.begin() + op.remote_offset, op.length, index);
}

// The byte that request `index` left at `at` of the target, if it wrote there.
bool Endpoint::wrote(std::uint32_t index, std::uint32_t at, std::uint8_t& value) const {
    const Op& op = plan_.ops[index];
    if (op.shared_word || changes_nothing(op.mistake) || at - op.remote_offset >= op.length) return false;
    const std::uint32_t offset = at - op.remote_offset;
    if (op.is_write()) {
        value = pattern_byte(op.key, offset);
        return true;
    }
    if (!op.is_atomic()) return false;
    value = static_cast<std::uint8_t>(after_atomic(op, ops_[index].original) >> (8 * offset));
    return true;
}

// ---- as it completes

// A SEND's bytes are in the peer's receive; seen by whichever end learns first.
void Endpoint::check_delivery(std::uint32_t index) {
    if (ops_[index].delivered) return;
    ops_[index].delivered = true;
    std::uint32_t offset = 0;
    for (const Piece& piece : peer_->receives_[ops_[index].receive].pieces) {
        const std::uint32_t here = std::min(piece.length, plan_.ops[index].length - offset);
        const auto actual = peer_->arena_.actual(piece.offset, here);
        for (std::size_t i = matching_prefix(plan_.ops[index].key, offset, actual); i < here; i++)
            if (actual[i] != pattern_byte(plan_.ops[index].key, offset + i) &&
                !laid_over(index, offset + static_cast<std::uint32_t>(i), actual[i]))
                return violation("request %u was acknowledged, but its data is not in the peer's receive",
                                 index);
        peer_->arena_.accept(piece.offset, here);
        offset += here;
    }
}

// A WRITE's bytes are in the peer's target, but where later requests may have written.
void Endpoint::check_write(std::uint32_t index) {
    const Op& op = plan_.ops[index];
    const std::uint32_t at = peer_->target_ + op.remote_offset;
    const auto actual = peer_->arena_.actual(at, op.length);
    if (std::equal(actual.begin(), actual.end(), peer_->arena_.expected(at, op.length).begin())) return;
    for (std::uint32_t i = 0; i < op.length; i++)
        if (last_writer_[op.remote_offset + i] == index && actual[i] != pattern_byte(op.key, i))
            return violation("request %u was acknowledged, but byte %u of its %u is not in the peer's memory",
                             index, i, op.length);
}

// READ: each byte as all requests before it left it, or as a later one did that no fence held back.
void Endpoint::check_read(std::uint32_t index, bool complete) {
    const OpState& state = ops_[index];
    std::uint32_t offset = 0;
    for (const Piece& piece : state.pieces) {
        const auto actual = arena_.actual(piece.offset, piece.length);
        const auto before = arena_.expected(piece.offset, piece.length);
        for (std::uint32_t i = 0; i < piece.length; i++, offset++) {
            if (offset < state.snapshot.size() && actual[i] == state.snapshot[offset]) continue;
            if (!complete && actual[i] == before[i]) continue;
            if (may_have_read(index, offset, actual[i])) continue;
            return violation(
                "READ %u: byte %u of %u is neither what was there nor what a later request wrote", index,
                offset, plan_.ops[index].length);
        }
        arena_.accept(piece.offset, piece.length);
    }
}

bool Endpoint::may_have_read(std::uint32_t index, std::uint32_t offset, std::uint8_t value) const {
    for (std::uint32_t later = index + 1; later < posted_; later++) {
        if (plan_.ops[later].flags & kFence) return false;
        std::uint8_t written;
        if (wrote(later, plan_.ops[index].remote_offset + offset, written) && written == value) return true;
    }
    return false;
}

void Endpoint::check_atomic(std::uint32_t index) {
    const Piece& piece = ops_[index].pieces[0];
    const std::uint64_t result = load(arena_.address(piece.offset));
    if (plan_.ops[index].shared_word)
        ops_[index].original = result;
    else if (result != ops_[index].original)
        violation("atomic %u returns 0x%llx, not 0x%llx", index, static_cast<unsigned long long>(result),
                  static_cast<unsigned long long>(ops_[index].original));
    arena_.accept(piece.offset, piece.length);
}

// ---- at the end

void Endpoint::settle() {
    if (successes_ != posted_) settle_target();
    settle_receives();
    settle_results();
    settle_shared();
    check_pairing();
}

// What completed here must have completed there.
void Endpoint::check_pairing() {
    if (peer_->process_.dead()) return;
    std::uint32_t consumed = 0;
    for (std::uint32_t i = 0; i < successes_; i++) {
        consumed += plan_.ops[i].consumes_receive();
        if (plan_.ops[i].operation != Operation::send_with_invalidate) continue;
        memory::Section section(peer_->process_.sections());
        if (peer_->process_.adapter().regions().remote(peer_->victims_[i].rkey, 1, peer_->iova_, 1,
                                                       memory::kRemoteRead, 0))
            violation("request %u invalidated an rkey that is still valid", i);
    }
    if (peer_->receive_successes_ < consumed)
        violation("%u of our requests were acknowledged, but the peer got %u receives", consumed,
                  peer_->receive_successes_);
}

void Endpoint::apply(std::uint32_t index, std::span<std::uint8_t> state) const {
    const Op& op = plan_.ops[index];
    if (op.shared_word || !(op.is_write() || op.is_atomic())) return;
    const auto range = state.subspan(op.remote_offset, op.length);
    if (op.is_write()) return fill_pattern(op.key, 0, range);
    const std::uint64_t word = after_atomic(op, load(range.data()));
    std::memcpy(range.data(), &word, sizeof word);
}

// Is `actual` what is left of `state` when only the first packets, or parts, of a WRITE were executed?
bool Endpoint::partly_executed(std::uint32_t index, std::span<const std::uint8_t> state,
                               std::span<const std::uint8_t> actual) const {
    const Op& op = plan_.ops[index];
    if (!op.is_write()) return false;
    const std::size_t begin = op.remote_offset, end = begin + op.length;
    if (!std::equal(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(begin), actual.begin()) ||
        !std::equal(state.begin() + static_cast<std::ptrdiff_t>(end), state.end(),
                    actual.begin() + static_cast<std::ptrdiff_t>(end)))
        return false;
    if (op.length >= kHalved) {  // its parts may have been written in any order
        std::size_t at = begin;
        while (at < end && (actual[at] == state[at] ||
                            actual[at] == pattern_byte(op.key, static_cast<std::uint32_t>(at - begin))))
            at++;
        return at == end;
    }
    std::size_t prefix = matching_prefix(op.key, 0, actual.subspan(begin, op.length));
    const auto only = [&](std::size_t length) {
        return std::equal(state.begin() + static_cast<std::ptrdiff_t>(begin + length),
                          state.begin() + static_cast<std::ptrdiff_t>(end),
                          actual.begin() + static_cast<std::ptrdiff_t>(begin + length));
    };
    for (std::size_t part = kPart - ((peer_->iova_ + begin) & 7); part <= prefix; part += kPart)
        if (only(part)) return true;
    for (prefix -= prefix % plan_.attributes.path_mtu;; prefix -= plan_.attributes.path_mtu) {
        if (only(prefix)) return true;
        if (prefix == 0) return false;
    }
}

// After a failure the peer's target is as some number of requests left it, at least those that succeeded, and
// at most the beginning of one more.
void Endpoint::settle_target() {
    std::vector<std::uint8_t> state = peer_->target_at_first_;
    const auto actual = peer_->arena_.actual(peer_->target_, peer_->plan_.target_size);
    for (std::uint32_t i = 0; i < successes_; i++) apply(i, state);
    for (std::uint32_t i = successes_;; i++) {
        if (std::equal(actual.begin(), actual.end(), state.begin()) ||
            (i < posted_ && partly_executed(i, state, actual))) {
            peer_->arena_.accept(peer_->target_, peer_->plan_.target_size);
            return;
        }
        if (i >= posted_ || plan_.ops[i].mistake != Mistake::none) break;
        apply(i, state);
    }
    violation("the peer's memory is not what a prefix of our requests leaves");
}

// Receives that did not complete may hold the beginning of their message, but few of them.
void Endpoint::settle_receives() {
    unsigned parts = 0;
    for (std::uint32_t i = 0; i < posted_; i++) {
        if (!plan_.ops[i].is_send() || ops_[i].delivered) continue;
        std::uint32_t offset = 0;
        bool touched = false;
        for (const Piece& piece : peer_->receives_[ops_[i].receive].pieces) {
            const std::uint32_t here = std::min(piece.length, plan_.ops[i].length - offset);
            const auto actual = peer_->arena_.actual(piece.offset, here);
            const auto before = peer_->arena_.expected(piece.offset, here);
            for (std::size_t at = 0; at < here; at++)
                if (const auto place = offset + static_cast<std::uint32_t>(at);
                    actual[at] != before[at] && actual[at] != pattern_byte(plan_.ops[i].key, place) &&
                    !laid_over(i, place, actual[at]))
                    return violation("the receive of failed request %u holds foreign bytes", i);
            touched |= !std::equal(actual.begin(), actual.end(), before.begin());
            peer_->arena_.accept(piece.offset, here);
            offset += here;
        }
        parts += touched;
    }
    if (parts > most_parts() && !peer_->process_.dead())
        violation("%u failed requests left bytes in receives", parts);
}

// Results of READs and atomics that did not complete: nothing, or what they may have got.
void Endpoint::settle_results() {
    for (std::uint32_t i = successes_; i < posted_; i++) {
        const Op& op = plan_.ops[i];
        if (op.is_read()) check_read(i, false);
        if (!op.is_atomic() || op.mistake != Mistake::none || op.shared_word) continue;
        const Piece& piece = ops_[i].pieces[0];
        const std::uint64_t result = load(arena_.address(piece.offset));
        if (result != ops_[i].original && result != load(arena_.expected(piece.offset, 8).data()))
            violation("failed atomic %u left 0x%llx", i, static_cast<unsigned long long>(result));
        arena_.accept(piece.offset, piece.length);
    }
}

void Endpoint::settle_shared() {
    for (std::uint32_t i = 0; i < posted_; i++) {
        const Op& op = plan_.ops[i];
        if (!op.shared_word) continue;
        SharedAtomic atomic;
        atomic.fetch_add = op.operation == Operation::fetch_add;
        atomic.compare_add = op.compare_add;
        atomic.swap = op.swap;
        atomic.known = ops_[i].succeeded;
        atomic.original = ops_[i].original;
        peer_->shared_.atomics[op.shared_word - 1].push_back(atomic);
        if (!ops_[i].succeeded) arena_.accept(ops_[i].pieces[0].offset, 8);
    }
}

std::string Endpoint::place_of(std::uint32_t at) const {
    auto inside = [&](const std::vector<Piece>& pieces) {
        return std::ranges::any_of(pieces, [&](const Piece& p) { return at - p.offset < p.length; });
    };
    if (at - target_ < plan_.target_size) return "the target";
    for (std::size_t i = 0; i < ops_.size(); i++)
        if (inside(ops_[i].pieces))
            return "the buffer of request " + std::to_string(i) + " (operation " +
                   std::to_string(static_cast<int>(plan_.ops[i].operation)) +
                   ", mistake: " + to_string(plan_.ops[i].mistake) +
                   (ops_[i].succeeded ? ", succeeded)" : ", failed)");
    for (std::size_t i = 0; i < receives_.size(); i++)
        if (inside(receives_[i].pieces)) return "receive " + std::to_string(i);
    return "the guard bytes between buffers";
}

void Endpoint::verify() {
    if (const std::uint32_t at = arena_.first_difference(); at != arena_.size())
        violation("byte %u of its memory changed, in %s", at, place_of(at).c_str());
    const RareCounters& counters = qp_->rare_counters();
    world_.coverage.timers[Coverage::ack_timeout] += counters.timeouts;
    world_.coverage.timers[Coverage::probe] += counters.probes;
    world_.coverage.timers[Coverage::rnr_wait] += counters.rnr_naks_received;
    if (process_.dead()) return;
    if (random_.one_in(4)) live_again();
    process_.adapter().destroy_qp(qp_, world_.now());
    qp_ = nullptr;
}

}  // namespace verbena::sim
