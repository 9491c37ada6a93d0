// The link between processes of one host and fabric: packets of connected services travel through rings in
// shared memory (local_ring.h) to the peers that have been met (local_peers.h), everything else goes on to
// the UDP link that it wraps. A ring needs no system call but the wake-up of a consumer that sleeps.
//
// Packets keep their form, but for the ICRC, which nobody checks, and rows of acknowledgements, which come
// out as they went in (ack_row.h): the state machines above are the same. A full ring holds the sender's
// packets up (local_spill.h). Datagram services stay with the wire, whose order and addresses they see.
//
// What this gives up: a packet's bytes may be changed by the producer while we look at them (the same user,
// who may do so anyway; headers are copied before they are checked). A peer met late makes packets overtake
// those that are still in a socket, which the transport repairs; so peers are met before a queue pair is
// used. Each receive() looks at every ring. A capture sees packets as they leave, with the ICRC that they
// would have had; while somebody looks, everything leaves as packets (hooks.h). A program that polls, sends
// something just as its peer goes to sleep, and is stopped, or becomes another by exec(), before its next
// look leaves that peer asleep until a timer of its own.
//
// Thread safety: as UdpLink.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "link/hooks.h"
#include "link/link.h"
#include "link/local_peers.h"

namespace verbena::link {

class LocalLink final : public Link {
   public:
    static constexpr unsigned kLookAgainAfter = 16;  // calls of receive() in vain: for overlooked sleepers
    // Payloads that are fetched, and answers that are written, take long, and who waits for an answer shall
    // have it. So many bytes of them are received, and answered, together, but the last is left for the time
    // in which the peer makes more.
    static constexpr std::size_t kFetchedTogether = 512 << 10;
    // So many of what is copied, from one ring, are settled and answered together: a producer whose window is
    // full goes on while the next ones are taken.
    static constexpr std::size_t kTakenTogether = 64 << 10;

    // `wire` outlives the link. nullptr with errno and a reason.
    static std::unique_ptr<LocalLink> create(Link& wire, const LocalPeers::Setup& setup);
    ~LocalLink() override;

    LocalPeers& peers() { return peers_; }

    void send(const wire::OutPacket& packet) override;
    bool copy(const wire::OutPacket& packet) override;
    static_assert(wire::kMostShort == LocalRing::kBeside - wire::kBthLength);
    [[gnu::always_inline]] bool copy_short(const wire::ShortPacket& packet) override {
        return !packets_wanted() && copy_to(peers_.owner_of(packet.destination_qp), packet);
    }
    void flush() override;
    wire::PacketCopier& row() override;
    void end_row() override;
    unsigned receive(Receiver& receiver, unsigned max) override;
    // For polls in between, the same thread at a time as receive(): true if that would surely find nothing.
    // The wire is not among what costs little: while the rings are busy it can wait for the next receive().
    bool looks_empty() const {
        if (busy_ == 0 || look_.load(std::memory_order_relaxed)) return false;
        for (unsigned i = 0, count = peers_.count(); i < count; i++)
            if (!looks_empty(peers_.at(i))) return false;
        return true;
    }
    // Where it does not look so: the one packet that waits is offered to `take`, which answers as
    // Receiver::straight(). False: it did not take it, there is more, or something else to be done.
    [[gnu::always_inline]] bool take_alone(auto&& take) {
        for (unsigned i = 0, count = peers_.count(); i < count; i++)
            if (LocalPeer& peer = peers_.at(i); !looks_empty(peer)) return take_alone(peer, take);
        return false;
    }
    void set_polled(bool polled) override;
    void still_polled() override;
    void look_everywhere() override { look_.store(true, std::memory_order_relaxed); }
    int wait_fd() const override { return wait_fd_; }
    void enter_sleep() override;
    void leave_sleep() override;
    std::size_t receive_capacity() const override { return wire_.receive_capacity(); }
    wire::PacketSink& borrow_sink() override;
    void return_sink(wire::PacketSink& sink) override;
    void stray(const Datagram& datagram, std::uint32_t qp) override { wire_.stray(datagram, qp); }
    void avoid_bursts(const Gid& destination) override { wire_.avoid_bursts(destination); }
    int join_multicast(const Gid& group, std::uint32_t interface_index) override {
        return wire_.join_multicast(group, interface_index);
    }
    int leave_multicast(const Gid& group, std::uint32_t interface_index) override {
        return wire_.leave_multicast(group, interface_index);
    }

   private:
    static constexpr unsigned kLookEvery = 4096;  // calls of receive(): greetings, deaths
    // The wire costs a system call, a ring a load: while rings are busy and it is not, it is looked at
    // whenever so many calls and packets have passed.
    static constexpr unsigned kWireEvery = 1024;
    static constexpr unsigned kBusyFor = 256;      // calls
    static constexpr std::size_t kPerPacket = 64;  // that each packet counts beside its own
    static constexpr std::size_t kOffered = 16;    // packets together, at most
    static constexpr unsigned kAsked = 4;          // whether there are any: once in so many packets

    class Sink;
    class Row;

    LocalLink(Link& wire, const LocalPeers::Setup& setup, int wait_fd, int event_fd);
    // Bytes that were fetched.
    static std::size_t receive_reference(LocalPeer& peer, Datagram datagram, Receiver& receiver);
    static unsigned receive_row(Datagram row, Receiver& receiver);
    static bool begins_large(LocalRing::Form form, const Datagram& datagram);
    unsigned receive_from(LocalPeer& peer, Receiver& receiver, unsigned max, std::size_t& fetched);
    // Of the packet of in.front(). Whoever reads packets expects room for an ICRC at the end, which nobody
    // looks at.
    static void describe(const LocalRing& in, std::span<const std::uint8_t> packet, Datagram& datagram) {
        datagram.path = &in.path();
        datagram.by_memory = true;
        datagram.bytes = {packet.data(), packet.size() + wire::kIcrcLength};
        datagram.aside = in.aside();
        datagram.followed = in.followed();
    }
    static bool looks_empty(const LocalPeer& peer) {
        return peer.state.load(std::memory_order_acquire) == LocalPeer::State::unused ||
               (!peer.spilled.load(std::memory_order_relaxed) && peer.in->looks_empty());
    }
    [[gnu::always_inline]] bool take_alone(LocalPeer& peer, auto& take) {
        LocalRing& in = *peer.in;
        std::span<const std::uint8_t> packet;
        if (peer.spilled.load(std::memory_order_relaxed) || !in.front(packet) ||
            in.form() != LocalRing::Form::packet || in.followed())
            return false;
        Datagram datagram;
        describe(in, packet, datagram);
        if (!take(std::as_const(datagram))) return false;
        in.release();
        if (in.settle()) peers_.wake(peer);
        busy_ = kBusyFor;
        in_vain_ = 0;
        since_wire_++;
        return true;
    }
    struct Together {
        unsigned done, left;  // packets: taken, and those behind them that go alone
    };
    Together receive_together(LocalRing& in, Receiver& receiver);
    unsigned receive_packets(Receiver& receiver, unsigned max);
    struct Readable {
        bool wire = false, others = false;  // greetings, deaths, our own sleep's end
    };
    Readable look_at_descriptors();
    static void take_room(LocalPeers& peers, LocalPeer& peer);
    // OutPacket or ShortPacket.
    [[gnu::always_inline]] bool copy_to(LocalPeer* peer, const auto& packet) {
        if (!peer) [[unlikely]]
            return false;
        std::lock_guard guard(peer->lock);
        if (!peer->append(packet)) [[unlikely]]
            return false;
        publish(*peer);
        return true;
    }
    // The peer's lock is held. Whether the link is polled is asked again behind the marks: who says that it
    // is not any more makes all threads pass a barrier, so that either he sees the marks or we see that.
    [[gnu::always_inline]] void publish(LocalPeer& peer) {
        if (!polled_.load(std::memory_order_relaxed)) [[unlikely]] {
            if (peer.out->publish()) peers_.wake(peer);
            return;
        }
        if (peer.out->publish_lightly()) [[unlikely]]
            return peers_.wake(peer);
        peers_.is_unsure(peer);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (!polled_.load(std::memory_order_relaxed) && peer.out->sleeps()) [[unlikely]]
            peers_.wake(peer);
    }

    Link& wire_;
    const int wait_fd_, event_fd_;
    LocalPeers peers_;
    std::array<std::unique_ptr<Sink>, kSinks> sinks_;
    std::unique_ptr<Sink> own_sink_;
    std::unique_ptr<Row> row_;  // of who makes progress

    std::atomic<bool> look_{false};
    std::atomic<unsigned> wire_busy_{0};  // calls since something left or came by the wire, downwards
    unsigned calls_ = 0, busy_ = 0, first_ = 0, in_vain_ = 0;  // the thread in receive()
    unsigned since_wire_ = 0;                                  // calls and packets
    std::array<wire::InPacket, kOffered> together_;
    alignas(64) std::atomic<bool> polled_{false};
    // For sleepers that were overlooked, whatever the next receive() finds.
    std::atomic<bool> look_again_{false};
};

}  // namespace verbena::link
