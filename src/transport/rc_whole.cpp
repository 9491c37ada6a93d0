// Requests that wait and are one packet each, with nothing else about them: most of what gathers, or finds
// the window closed. They leave one behind the other without the questions that other kinds have to be asked.
#include "transport/rc_whole.h"

#include "transport/rc_requester.h"

namespace verbena::transport {

// One that leaves for the first time. A WRITE only where packets are its only way, and after others, which
// have found that out.
bool RcRequester::is_whole(const SendEntry& entry) const {
    constexpr std::uint32_t kUsual = kSignaled | kSolicited | kInline;
    if (entry.started || (entry.flags & ~kUsual) || entry.length > shared_.mtu() || entry.sge_count > 1 ||
        entry.local_error != VendorError::none)
        return false;
    if (entry.operation == Operation::rdma_write)
        return entry.length > 0 && !direct_hopeful_ && !by_packets_ && outstanding();
    return entry.operation == Operation::send || entry.operation == Operation::send_with_immediate;
}

// From the cursor on, whose request may leave; how many did.
unsigned RcRequester::send_whole(wire::PacketSink& sink, Time now, unsigned budget, wire::Aside& riding) {
    if (shared_.setup.service != Service::rc || current_packet_ != 0 || next_psn_ != max_psn_ ||
        pacer_.limited())
        return 0;
    unsigned sent = 0;
    for (; sent < budget && current_ < queue_.size(); sent++, current_++) {
        SendEntry& entry = queue_.at(current_);
        const std::uint32_t cost = entry.length + Flow::kPacketOverhead;
        if (!is_whole(entry) || (sent > 0 && !flow_.allows(cost))) break;
        iovec payload{queue_.inline_data(entry), entry.length};
        if (entry.length > 0 && !(entry.flags & kInline)) {
            const Sge& sge = queue_.sges(entry)[0];
            const auto found =
                shared_.regions().local(sge.lkey, shared_.setup.pd, sge.address, sge.length, 0);
            if (!found) break;  // for whoever says why
            payload.iov_base = found.address;
        }
        wire::OutPacket out;
        out.aside = std::exchange(riding, {});
        make_whole(shared_, entry, next_psn_, payload, out);
        count_sent(out, entry.length, shared_.counters);
        sink.send(out);
        flow_.sent(cost);
        left_whole(entry, now);
    }
    if (sent > 0) pace_.ends();
    return sent;
}

}  // namespace verbena::transport
