// Requests that wait and are one packet each, with nothing else about them: most of what finds the window
// closed. They leave one behind the other without the questions that other kinds have to be asked.
#include "transport/rc_whole.h"

#include <utility>

#include "transport/rc_requester.h"

namespace verbena::transport {

// One that leaves for the first time. A WRITE only where packets are its only way, and after others, which
// have found that out.
bool RcRequester::is_whole(const SendEntry& entry) const {
    if (!may_be_whole(entry) || entry.started || entry.length > shared_.mtu() || entry.sge_count > 1 ||
        entry.local_error != VendorError::none)
        return false;
    return !entry.is_write() ||
           (entry.length > 0 && directly_ != Directly::hopefully && !by_packets_ && outstanding());
}

// From the cursor on, whose request may leave; how many did.
unsigned RcRequester::send_whole(wire::PacketSink& sink, Time now, unsigned budget, wire::Aside& riding) {
    if (shared_.basics().service != Service::rc || current_packet_ != 0 || next_psn_ != max_psn_ || paced_)
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
                shared_.regions().local(sge.lkey, shared_.basics().pd, sge.address, sge.length, 0);
            if (!found) break;  // for whoever says why
            payload.iov_base = found.address;
        }
        wire::OutPacket out;
        out.aside = std::exchange(riding, {});
        make_whole(shared_, entry, next_psn_, payload, out);
        count_sent(out, entry.length, shared_.counters());
        sink.send(out);
        flow_.sent(cost);
        sample_sometimes(next_psn_, next_psn_, now);
        left_whole(entry, 1);
    }
    if (sent > 0) end_pace();
    return sent;
}

}  // namespace verbena::transport
