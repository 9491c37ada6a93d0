// Requests: validation in the order of IBA 9.7.4.1, and execution.
#include "transport/rc_responder.h"

#include <algorithm>
#include <atomic>

#include "transport/copy.h"
#include "transport/mutation.h"
#include "wire/psn.h"

namespace verbena::transport {
namespace {

std::int32_t distance(std::uint32_t psn, std::uint32_t expected) {
    if (mutated(Mutation::psn_compare_wrong_at_wrap))
        return static_cast<std::int32_t>(psn) - static_cast<std::int32_t>(expected);
    return wire::psn_diff(psn, expected);
}

bool consumes_receive(const wire::OpcodeInfo& info) {
    return info.operation == wire::Operation::send || info.has_immdt;
}

}  // namespace

RcResponder::RcResponder(RcShared shared, std::unique_ptr<Rest> rest) noexcept
    : MessageReceiver(shared, std::move(rest)) {}

void RcResponder::make_room(const Attributes& wanted) {
    rest().resources.reserve(wanted.max_destination_rd_atomic);
}

void RcResponder::start(std::uint32_t psn) {
    expected_psn_ = psn;
    configure();
}

void RcResponder::configure() {
    const std::size_t had = rest().resources.size();
    std::size_t wanted = shared_.attributes().max_destination_rd_atomic;
    if (active_ > 0) wanted = std::max(wanted, had);
    if (wanted == had) return;
    // The newest stay, oldest first, for what is owed and for duplicates.
    std::rotate(rest().resources.begin(), rest().resources.begin() + rest().newest, rest().resources.end());
    if (wanted < had)
        rest().resources.erase(rest().resources.begin(),
                               rest().resources.end() - static_cast<std::ptrdiff_t>(wanted));
    rest().resources.resize(wanted);
    rest().newest = wanted > had ? static_cast<std::uint32_t>(had) : 0;
}

void RcResponder::receive(const wire::Packet& packet, Time now) {
    place_late();
    const wire::OpcodeInfo& info = wire::info(packet.headers.bth.opcode);
    if (!shared_.reliable()) return receive_unreliable(packet, info, now);
    const std::int32_t ahead = distance(packet.headers.bth.psn, expected_psn_);
    if (ahead > 0 && !mutated(Mutation::gap_accepted)) return came_ahead(packet);
    const bool gap = refusing_;
    if (gap) rest().newest_seen = packet.headers.bth.psn;
    if (ahead < 0) return duplicate(packet, info, now);
    expected(packet, info, now);
    if (gap) close_gap(now);
}

void RcResponder::expected(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    if (pending_ == Pending::error_nak) return;
    if (!in_sequence(info)) return fail(VendorError::opcode_out_of_sequence, now);
    const bool has_payload =
        info.operation == wire::Operation::send || info.operation == wire::Operation::write;
    if (packet.elsewhere && !has_payload && info.operation != wire::Operation::read_request)
        return;  // nobody sends that
    if (!right_length(packet, info)) return fail(VendorError::packet_wrong_length, now);
    if (shared_.basics().service == Service::xrc_receive && info.starts_message())
        if (auto error = choose_queue(packet); error != VendorError::none) return fail(error, now);
    switch (info.operation) {
        case wire::Operation::send:
            return send(packet, info, now);
        case wire::Operation::write:
            return write(packet, info, now);
        case wire::Operation::read_request: {
            if (auto error = read(packet); error != VendorError::none) return fail(error, now);
            break;
        }
        case wire::Operation::compare_swap:
        case wire::Operation::fetch_add: {
            if (auto error = atomic(packet, info); error != VendorError::none) return fail(error, now);
            break;
        }
        case wire::Operation::atomic_write: {
            if (auto error = atomic_write(packet); error != VendorError::none) return fail(error, now);
            break;
        }
        case wire::Operation::flush: {
            if (auto error = flush(packet); error != VendorError::none) return fail(error, now);
            break;
        }
        default:
            return fail(VendorError::opcode_unsupported, now);
    }
}

// False: the packet is dropped, for lack of a receive or because it is refused.
bool RcResponder::have_receive(const wire::Packet& packet, Time now) {
    if (take_receive()) return true;
    receive_is_missing(packet, now);
    return false;
}

void RcResponder::send(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    if (info.starts_message()) {
        if (!have_receive(packet, now)) return;
        begin_send();
    }
    const std::optional<VendorError> placed = place_send(packet);
    if (!placed) {
        if (info.starts_message()) message_ = Message::none;
        return went_astray(packet);
    }
    if (*placed != VendorError::none) return fail(*placed, now);
    if (!info.ends_message()) return accepted(packet, false, now);

    // No grace period is needed before the completion: a type 2 window is used by this queue pair only, whose
    // lock is held; of a region's rkey, a READ response that is leaving already may be on its way.
    if (info.has_ieth &&
        shared_.basics().regions->invalidate(packet.headers.invalidate_rkey, pd_, shared_.basics().number) !=
            memory::WindowError::none)
        return fail(VendorError::invalidate_failed, now);
    message_ = Message::none;
    accepted(packet, true, now);
    complete_receive(packet, info, completion::Opcode::receive, static_cast<std::uint32_t>(rest_->offset),
                     now);
    if (packet.elsewhere) show_receives(expected_psn_);
}

void RcResponder::write(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    if (auto error = begin_write(packet, info); error != VendorError::none) return fail(error, now);
    // Before the data: a packet that is refused for lack of a receive has not been executed.
    if (info.has_immdt && !have_receive(packet, now)) {
        if (info.only) message_ = Message::none;
        return;
    }
    const std::optional<VendorError> placed = place_write(packet);
    if (!placed) {
        if (info.starts_message()) message_ = Message::none;
        return went_astray(packet);
    }
    if (*placed != VendorError::none) return fail(*placed, now);
    if (!info.ends_message()) return accepted(packet, false, now);

    message_ = Message::none;
    accepted(packet, true, now);
    shared_.count_completed(Counted::remote_write, true, rest_->reth.length);
    if (info.has_immdt)
        complete_receive(packet, info, completion::Opcode::receive_rdma_with_immediate, rest_->reth.length,
                         now);
}

VendorError RcResponder::read(const wire::Packet& packet) {
    const wire::Reth& reth = packet.headers.reth;
    if (!(shared_.connection().access & memory::kRemoteRead)) return VendorError::qp_no_remote_read;
    if (reth.length > kMaxMessage) return VendorError::message_too_long;
    const std::uint8_t* from = nullptr;
    if (reth.length != 0) {
        const auto found = look_up(reth.rkey, reth.virtual_address, reth.length, memory::kRemoteRead);
        if (!found) return refused(found.error, reth);
        from = found.address;
    }
    const std::uint32_t packets = packets_of(reth.length, shared_.mtu());
    Resource* resource = new_resource(packet.headers.bth.psn, packets);
    if (resource == nullptr) return VendorError::too_many_reads;
    resource->virtual_address = reth.virtual_address;
    resource->rkey = reth.rkey;
    resource->length = reth.length;
    resource->is_read = true;
    resource->placed = packet.elsewhere && packets > 1 && packet.elsewhere->length() <= reth.length &&
                       packet.elsewhere->store(shared_.connection().destination_qp, from);
    activate(*resource, 0, packets);
    return VendorError::none;
}

std::uint8_t* RcResponder::atomic_target(const wire::AtomicEth& eth, VendorError& error) {
    error = VendorError::qp_no_remote_atomic;
    if (!(shared_.connection().access & memory::kRemoteAtomic)) return nullptr;
    const auto found = look_up(eth.rkey, eth.virtual_address, 8, memory::kRemoteAtomic);
    if (!found) {
        error = refused(found.error, {eth.virtual_address, eth.rkey, 8});
        return nullptr;
    }
    // IBA 9.4.5: naturally aligned; with an iova of its own the region may lie otherwise.
    error = VendorError::atomic_unaligned;
    if (eth.virtual_address % 8 != 0 || reinterpret_cast<std::uintptr_t>(found.address) % 8 != 0)
        return nullptr;
    error = VendorError::none;
    return found.address;
}

VendorError RcResponder::atomic(const wire::Packet& packet, const wire::OpcodeInfo& info) {
    const wire::AtomicEth& eth = packet.headers.atomic_eth;
    VendorError error;
    std::uint8_t* const target = atomic_target(eth, error);
    if (target == nullptr) return error;
    Resource* resource =
        take_atomic(packet.headers.bth.psn, info.operation == wire::Operation::fetch_add, eth, target);
    if (resource == nullptr) return VendorError::too_many_reads;
    activate(*resource, 0, 1);
    return VendorError::none;
}

RcResponder::Resource* RcResponder::take_atomic(std::uint32_t psn, bool add, const wire::AtomicEth& eth,
                                                std::uint8_t* target) {
    Resource* resource = new_resource(psn, 1);
    if (resource == nullptr) return nullptr;
    resource->atomic = true;
    resource->original = execute_atomic(add, eth, target);
    return resource;
}

// Annex A19.4.4: eight bytes at an aligned address, in one piece.
VendorError RcResponder::atomic_write(const wire::Packet& packet) {
    const wire::Reth& reth = packet.headers.reth;
    if (!(shared_.connection().access & memory::kRemoteWrite)) return VendorError::qp_no_remote_write;
    if (reth.length != 8 || packet.payload.size() != 8) return VendorError::write_length_mismatch;
    const auto found = look_up(reth.rkey, reth.virtual_address, 8, memory::kRemoteWrite);
    if (!found) return refused(found.error, reth);
    if (reth.virtual_address % 8 != 0 || reinterpret_cast<std::uintptr_t>(found.address) % 8 != 0)
        return VendorError::atomic_unaligned;
    if (auto error = answer_empty(packet.headers.bth); error != VendorError::none) return error;
    place(found.address, packet.payload.data(), 8);
    shared_.counters().bytes_received += 8;
    return VendorError::none;
}

// Annex A19.4.2. What was written before is in memory, where everybody sees it, so that there is nothing to
// do but to check and to answer. Persistence is nothing that a region here can have.
VendorError RcResponder::flush(const wire::Packet& packet) {
    const wire::Reth& reth = packet.headers.reth;
    const wire::Feth& feth = packet.headers.feth;
    memory::Access need = 0;
    if (feth.placement_type & kFlushGlobal) need |= memory::kFlushGlobal;
    if (feth.placement_type & kFlushPersistent) need |= memory::kFlushPersistent;
    if (need == 0 || feth.selectivity_level > kFlushRegion) return VendorError::flush_malformed;
    if ((shared_.connection().access & need) != need) return VendorError::qp_no_flush;
    const bool whole_region = feth.selectivity_level == kFlushRegion;
    if (!whole_region && reth.length == 0) return answer_flush(packet.headers.bth);
    const auto found = whole_region
                           ? shared_.regions().remote_whole(reth.rkey, pd_, need, shared_.basics().number)
                           : look_up(reth.rkey, reth.virtual_address, reth.length, need);
    if (!found) return refused(found.error, reth);
    return answer_flush(packet.headers.bth);
}

// Linux' rxe counts no FLUSH against the initiator depth. One that is too many is as if it had been lost:
// when it is sent again, the answers before it have left.
VendorError RcResponder::answer_flush(const wire::Bth& bth) {
    const VendorError error = answer_empty(bth);
    if (error == VendorError::none || rest().resources.empty()) return error;
    rest().dropped_until = wire::psn_next(bth.psn);
    refusing_ = false;  // it is the one that an earlier NAK has asked for
    from_behind_a_gap(bth.psn);
    return VendorError::none;
}

VendorError RcResponder::answer_empty(const wire::Bth& bth) {
    Resource* resource = new_resource(bth.psn, 1);
    if (resource == nullptr) return VendorError::too_many_reads;
    activate(*resource, 0, 1);
    return VendorError::none;
}

std::uint64_t RcResponder::execute_atomic(bool add, const wire::AtomicEth& eth, std::uint8_t* target) {
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target));
    if (add) return word.fetch_add(eth.swap_add);
    std::uint64_t original = eth.compare;
    word.compare_exchange_strong(original, eth.swap_add);
    return original;
}

// The new READ or atomic takes the oldest place; nullptr if that one's answer is still owed, for then the
// requester has more outstanding than max_dest_rd_atomic (IBA 9.7.4.1.7).
RcResponder::Resource* RcResponder::new_resource(std::uint32_t psn, std::uint32_t packets) {
    if (rest().resources.empty()) return nullptr;
    Resource& resource = rest().resources[rest().newest];
    if (resource.active) {
        if (!resource.replay) return nullptr;
        active_--;  // the requester has the answer, or it could not ask for more
    }
    rest().newest = rest().newest + 1 == rest().resources.size() ? 0 : rest().newest + 1;
    resource = Resource{};
    resource.first_psn = psn;
    resource.packets = packets;
    resource.pd = pd_;
    expected_psn_ = wire::psn_add(expected_psn_, packets);
    msn_ = (msn_ + 1) & wire::kPsnMask;
    resource.msn = msn_;
    acknowledged_everything();  // the response implies it
    after_expected();
    return &resource;
}

void RcResponder::accepted(std::uint32_t psns, std::size_t bytes, bool ask, bool ends_message, Time now) {
    took(psns, bytes, ends_message);
    after_expected();
    if (!ask) return;
    owe(now);
    if (!ends_message || shared_.basics().service == Service::xrc_receive) ask_now_ = true;
}

// The expected packet came: an unsent NAK for it is moot, unless what we dropped meanwhile is still missing.
void RcResponder::after_expected() {
    if (missing_since_ != kNever) rest().kept.reset();
    missing_since_ = look_again_at_ = kNever;
    if (pending_ == Pending::rnr_nak) pending_ = Pending::none;
    if (pending_ == Pending::sequence_nak) {
        if (wire::psn_less(expected_psn_, rest().dropped_until)) return;
        pending_ = Pending::none;
    }
    refusing_ = false;
}

void RcResponder::duplicate(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    shared_.rare().duplicates++;
    if (info.operation == wire::Operation::send || info.operation == wire::Operation::write) {
        if (mutated(Mutation::duplicate_write_executed) && info.has_reth)
            write_payload(packet.headers.reth.virtual_address, packet.headers.reth.rkey, packet.payload);
        if (mutated(Mutation::duplicate_send_delivered) && info.only && consumes_receive(info) &&
            have_receive(packet, now))
            complete_receive(packet, info, completion::Opcode::receive,
                             static_cast<std::uint32_t>(packet.payload.size()), now);
        // IBA 9.7.5.1.5: acknowledged again, at once, up to the newest.
        if (!ask_) owes_since_ = now;
        ask_ = ask_now_ = true;
        acknowledge_at_ = now;
        return;
    }
    Resource* resource = find_resource(packet.headers.bth.psn);
    if (resource == nullptr) return;  // too old; IBA 9.4.4: dropped
    if (info.operation == wire::Operation::read_request) return duplicate_read(packet, *resource);
    if (info.operation == wire::Operation::flush || info.operation == wire::Operation::atomic_write) {
        if (resource->atomic || resource->length != 0 || resource->packets != 1) return;
        if (!resource->active) resource->replay = true;
        return activate(*resource, 0, 1);
    }
    if (!resource->atomic || !info.has_atomic_eth) return;
    if (mutated(Mutation::duplicate_atomic_reexecuted)) {
        const wire::AtomicEth& eth = packet.headers.atomic_eth;
        const auto found = look_up(eth.rkey, eth.virtual_address, 8, memory::kRemoteAtomic);
        if (found)
            resource->original =
                execute_atomic(info.operation == wire::Operation::fetch_add, eth, found.address);
    }
    if (!resource->active) resource->replay = true;
    activate(*resource, 0, 1);
}

// IBA 9.4.4: a repeated READ asks for the same bytes or a part of them.
void RcResponder::duplicate_read(const wire::Packet& packet, Resource& resource) {
    const wire::Reth& reth = packet.headers.reth;
    const std::uint32_t begin = (packet.headers.bth.psn - resource.first_psn) & wire::kPsnMask;
    const std::uint64_t offset = std::uint64_t{begin} * shared_.mtu();
    if (resource.atomic || reth.rkey != resource.rkey ||
        reth.virtual_address != resource.virtual_address + offset || reth.length > resource.length - offset)
        return;
    if (!resource.active) resource.replay = true;
    resource.placed = false;
    activate(resource, begin, begin + packets_of(reth.length, shared_.mtu()));
}

RcResponder::Resource* RcResponder::find_resource(std::uint32_t psn) {
    // Newest first: an old one may have had the same PSNs, 2^24 packets ago.
    for (std::size_t i = 0, at = rest().newest; i < rest().resources.size(); i++) {
        at = at == 0 ? rest().resources.size() - 1 : at - 1;
        if (((psn - rest().resources[at].first_psn) & wire::kPsnMask) < rest().resources[at].packets)
            return &rest().resources[at];
    }
    return nullptr;
}

void RcResponder::close(bool keep_answers, Time now) {
    flush_receive(now);
    failed_ = false;
    missing_since_ = look_again_at_ = kNever;
    rest().kept.reset();
    rest().ahead.clear();
    if (keep_answers) return;
    if (active_ > 0) acknowledged_everything();
    pending_ = Pending::none;
    for (Resource& resource : rest().resources) resource.active = false;
    active_ = 0;
}

}  // namespace verbena::transport
