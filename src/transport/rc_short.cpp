// What comes the shortest way (rc_short.h): SENDs without an immediate, each in one packet, for receives of
// the queue pair's own. What is the same for all of those that came together is asked once.
#include "transport/rc_short.h"

#include "transport/copy.h"

namespace verbena::transport {

namespace {
// Bytes of payload, no path MTU is smaller: while they are copied nobody polls the completion queue.
constexpr std::uint32_t kMostShort = 256;
}  // namespace

std::size_t RcQueuePair::receive_short(std::span<const wire::InPacket> packets, Time now) {
    std::size_t taken = 0;
    for (std::size_t more = 1; more > 0 && taken < packets.size(); taken += more)
        more = take_short(packets.subspan(taken), now);
    return taken;
}

// Those up to the next one that acknowledges something.
std::size_t RcQueuePair::take_short(std::span<const wire::InPacket> packets, Time now) {
    RcResponder::Shorts shorts;
    const std::size_t count = responder_.find_short(packets, shorts);
    if (count == 0) return 0;
    const wire::Aside& aside = packets[0].aside;
    // Before the message completes, as if the acknowledgement had come in front of it.
    if (aside.acknowledges &&
        !(state_ == QpState::rts && requester_.acknowledge_straight(aside.acknowledged, now)))
        return 0;
    return responder_.receive_short(std::span(shorts).first(count), now);
}

// How many, from the first on, are short and have a receive. Only the first may acknowledge something.
std::size_t RcResponder::find_short(std::span<const wire::InPacket> packets, Shorts& shorts) const {
    constexpr std::uint32_t kVaries = (std::uint32_t{wire::kBthSolicited} | 3u << wire::kBthPadShift) << 16;
    constexpr std::uint32_t kUsual = std::uint32_t{static_cast<std::uint8_t>(wire::Opcode::rc_send_only)}
                                         << 24 |
                                     std::uint32_t{wire::kBthMigrationRequest} << 16 | kDefaultPkey;
    constexpr std::size_t kLeast = wire::kBthLength + wire::kIcrcLength;
    if (receive_taken_ || !own_receives_ || shared_.basics().is_counted) [[unlikely]]
        return 0;
    const std::size_t most = std::min({packets.size(), shorts.size(), std::size_t{own_receives_->count()}});
    const std::uint32_t first_receive = own_receives_->taken();
    std::uint32_t psn = expected_psn_;
    for (std::size_t n = 0; n < most; n++, psn = wire::psn_add(psn, 1)) {
        const wire::InPacket& packet = packets[n];
        const std::size_t size = packet.bytes.size();
        if (size < kLeast || packet.aside.psns != 1 || (n > 0 && packet.aside.acknowledges)) [[unlikely]]
            return n;
        const wire::BthWords bth(packet.bytes.data());
        const std::size_t padded = size - kLeast, pad = bth.pad_count();
        if ((bth.first() & ~kVaries) != kUsual || bth.psn() != psn || padded % 4 != 0 || padded < pad)
            [[unlikely]]
            return n;
        const auto length = static_cast<std::uint32_t>(padded - pad);
        const ReceiveQueue::Oldest receive = own_receives_->at(first_receive + static_cast<std::uint32_t>(n));
        std::uint8_t* const to = length > kMostShort ? nullptr : place_in(receive, length);
        if (!to) [[unlikely]]
            return n;
        shorts[n] = {receive.wr_id, to, packet.bytes.data() + wire::kBthLength, length, bth.ack_request()};
    }
    return most;
}

// They are placed and complete, as many as the completion queue takes without telling anybody.
std::size_t RcResponder::receive_short(std::span<const Short> shorts, Time now) {
    std::uint64_t bytes = 0;
    bool ask = false;
    const std::size_t count =
        shared_.basics().receive_cq->push_some(shorts.size(), [&](completion::Completion& c, std::size_t n) {
            const Short& each = shorts[n];
            place(each.to, each.from, each.length);
            describe(c, each.wr_id, each.length, now);
            bytes += each.length;
            ask |= each.ask;
        });
    if (count == 0) return 0;
    own_receives_->drop_oldest(static_cast<std::uint32_t>(count));
    expected_psn_ = wire::psn_add(expected_psn_, static_cast<std::uint32_t>(count));
    msn_ = wire::psn_add(msn_, static_cast<std::uint32_t>(count));
    unacknowledged_ += static_cast<std::uint32_t>(count);
    shared_.counters().bytes_received += bytes;
    shared_.counters().messages_received += count;
    if (ask) owe(now);
    return count;
}

}  // namespace verbena::transport
