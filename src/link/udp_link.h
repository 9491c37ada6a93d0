// The link over UDP sockets: RoCE v2 on the wire. Receives from the process's queues (sockets of the group on
// port 4791 that the daemon has made and handed over), sends from sockets of its own.
//
// Thread safety: receive() one thread at a time; add_queue() under the caller's lock; the multicast calls not
// while receive() runs; every other call from any thread. send() and flush() on the link itself are for
// single-threaded owners (the daemon); threads that may be several borrow a sink.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "link/burst.h"
#include "link/burst_policy.h"
#include "link/group_sockets.h"
#include "link/link.h"
#include "link/source_ports.h"
#include "link/stray_inbox.h"
#include "link/udp_receive.h"

namespace verbena::link {

struct UdpCounters {
    std::uint64_t packets_sent, bursts_sent, bursts_refused, packets_lost;
    std::uint64_t strays_forwarded, strays_lost, strays_refused, truncated;
};

class UdpLink final : public Link {
   public:
    struct Setup {
        bool gso = true;
        std::uint16_t port = wire::kUdpPort;      // of all destinations
        std::string fabric;                       // names the inboxes for strays; empty: none
        Trust strays = Trust::own_user_and_root;  // with whom they are exchanged
    };
    // nullptr with errno and a reason.
    static std::unique_ptr<UdpLink> create(const Setup& setup);
    ~UdpLink() override;

    // A further receive socket, with all options set and bound; it belongs to the link from now on. `block`
    // names its inbox. 0, or errno with a reason; the socket is then still the caller's.
    int add_queue(int fd, std::uint32_t block);

    // Gives all receive sockets back to the kernel, for good; what is in receive() meanwhile finds nothing.
    // Any thread.
    void close_queues();

    // In a child after fork(): the inboxes' names must not live on in it. Takes no lock.
    void abandon();

    UdpCounters counters() const;

    // What packets by that path are sent from, before there are any (source_ports.h).
    int provide_for(const wire::Path& path) { return sources_.provide(path.is_ipv4(), path.udp_source_port); }

    void send(const wire::OutPacket& packet) override;
    void flush() override;
    unsigned receive(Receiver& receiver, unsigned max) override;
    int wait_fd() const override { return wait_fd_; }
    std::size_t receive_capacity() const override;
    wire::PacketSink& borrow_sink() override;
    void return_sink(wire::PacketSink& sink) override;
    void stray(const Datagram& datagram, std::uint32_t destination_qp) override;
    void avoid_bursts(const Gid& destination) override;
    int join_multicast(const Gid& group, std::uint32_t interface_index) override;
    int leave_multicast(const Gid& group, std::uint32_t interface_index) override;

   private:
    static constexpr unsigned kMaxQueues = 64;
    static constexpr unsigned kInboxEvery = 16;  // calls of receive()
    static constexpr unsigned kInboxLook = 256;  // calls after a stray that look each time

    struct Queue {
        int fd;
        std::unique_ptr<StrayInbox> inbox;
    };
    struct alignas(64) Sink {
        std::atomic<bool> busy{false};
        std::atomic<BurstBuilder*> builder{nullptr};  // there in the first, else made when borrowed
    };

    UdpLink(const Setup& setup, int wait_fd);
    bool watch(int fd);
    BurstBuilder* builder_of(Sink& sink);

    const Setup setup_;
    const int wait_fd_;
    SourcePorts sources_;
    BurstPolicy policy_;
    WholeBursts whole_;
    std::unique_ptr<BurstBuilder> own_sink_;
    std::array<Sink, kSinks> sinks_;
    UdpReader reader_;
    GroupSockets groups_;
    std::array<Queue, kMaxQueues> queues_{};
    std::atomic<unsigned> queue_count_{0};
    unsigned receive_calls_ = 0;
    unsigned calls_with_strays_ = 0;
    std::unique_ptr<StraySender> stray_sender_;
    std::atomic<std::uint64_t> strays_forwarded_{0}, strays_lost_{0};
};

}  // namespace verbena::link
