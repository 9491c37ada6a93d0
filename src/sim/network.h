// The simulated wire: datagrams between the GIDs of hosts, with everything that may happen to them on the
// way, drawn from a seed. Each process of a host has an inbox of limited size, as its socket has; datagrams
// are steered to it by their destination QPN, as the daemon's socket group does.
//
// Corruption flips bits of the UDP payload. Over IPv4 a receiver cannot tell every corruption, because it
// does not see the identification that the ICRC covers (wire/icrc.h); such datagrams are counted and lost
// instead of delivered. Over IPv6 every corrupted datagram is delivered and must be refused.
//
// Thread safety: none; one per run.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sim/random.h"
#include "sim/scheduler.h"
#include "wire/packet.h"
#include "wire/path.h"

namespace verbena::sim {

struct Frame {
    wire::Path path;  // as the sender sees it
    std::uint16_t ip_id = 0;
    bool corrupted = false;
    std::uint32_t destination_qp = 0;  // as sent; a corrupted frame may say otherwise
    std::vector<std::uint8_t> bytes;   // the UDP payload
    wire::Aside aside{};               // on the local link's model (sim_link.h)
    iovec place{};                     // ... where the answer may be written to; no length: nowhere
};

// One direction between two hosts. Chances are per million datagrams.
struct Faults {
    Duration delay = 20 * kMicrosecond;
    Duration jitter = 0;  // uniformly added; datagrams overtake each other only by `reorder`
    std::uint32_t drop = 0;
    std::uint32_t duplicate = 0;
    std::uint32_t reorder = 0;
    std::uint32_t corrupt = 0;
    Duration reorder_delay = 0;          // at most, of a reordered datagram or a duplicate
    std::uint64_t bytes_per_second = 0;  // 0: unlimited
    Duration queue_limit = 0;            // bandwidth: longer waiting datagrams are dropped
};

enum class Loss : std::uint8_t {
    dropped,
    corrupted,
    undetectable,
    queue_full,
    overflow,
    partition,
    nobody,
    late
};
const char* to_string(Loss loss);

// Who looks at everything.
class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void sent(const Frame& frame) = 0;
    virtual void delivered(const Frame& frame) = 0;  // the receiver takes it out of its inbox
    virtual void lost(const Frame& frame, Loss why) = 0;
};

// A process's socket. The owner is told when something arrived in an empty inbox.
class Inbox {
   public:
    virtual ~Inbox() = default;
    virtual void arrived() = 0;

    std::deque<Frame> frames;
    std::size_t used = 0;            // bytes as a kernel counts them
    std::size_t capacity = 212'992;  // net.core.rmem_default
    static std::size_t cost(std::size_t length) { return length <= 1400 ? 2304 : 8448; }
};

class Network {
   public:
    Network(Scheduler& scheduler, std::uint64_t seed, Watcher& watcher);

    // Hosts are numbered from 0; each has an IPv4 and an IPv6 GID.
    unsigned add_host();
    unsigned hosts() const { return hosts_; }
    Gid gid(unsigned host, bool ipv6) const;
    static unsigned host_of(const Gid& gid) { return gid.bytes[15] - 1u; }

    void attach(unsigned host, std::uint32_t first_qp, std::uint32_t qp_count, Inbox& inbox);
    void detach(Inbox& inbox);
    // Multicast: what is sent to the group reaches this inbox as well, or does so no longer.
    void join(Inbox& inbox, const Gid& group) { members_.emplace_back(group, &inbox); }
    void leave(Inbox& inbox, const Gid& group) { std::erase(members_, std::pair{group, &inbox}); }

    Faults& faults(unsigned from, unsigned to) { return ways_[{from, to}].faults; }
    // Nothing passes between the two from `begin` to `end`, in either direction.
    void partition(unsigned a, unsigned b, Time begin, Time end);
    bool partitioned(unsigned a, unsigned b, Time begin, Time end) const;

    // Scripted runs: what becomes of the next datagram, in place of chance.
    struct Fate {
        unsigned copies = 1;  // at once
        Duration late = 0;    // one more copy after that time; 0: none
    };
    std::function<Fate(const Frame&)> script;

    void send(Frame frame);
    // Who takes what is sent to that queue pair; nullptr: nobody.
    Inbox* find(unsigned host, std::uint32_t qp) const;
    // The inbox's owner takes the oldest.
    bool take(Inbox& inbox, Frame& frame);

    struct Counts {
        std::uint64_t sent = 0, corrupted = 0, undetectable = 0;
    };
    const Counts& counts() const { return counts_; }

   private:
    struct Way {
        Faults faults;
        Time last_arrival = 0;
        Time busy_until = 0;
        std::vector<std::pair<Time, Time>> partitions;
    };
    struct Slot {
        unsigned host;
        std::uint32_t first_qp, qp_count;
        Inbox* inbox;
    };
    bool is_member(const Inbox& inbox, const Gid& group) const;
    void travel(unsigned from, unsigned to, Frame frame);
    bool corrupt(Frame& frame);
    void arrive(unsigned to, Frame frame);
    void put(Inbox& inbox, Frame frame);
    void carry(unsigned to, Way& way, Frame frame, Duration extra);

    Scheduler& scheduler_;
    Random random_;
    Watcher& watcher_;
    unsigned hosts_ = 0;
    std::map<std::pair<unsigned, unsigned>, Way> ways_;
    std::vector<Slot> slots_;
    std::vector<std::pair<Gid, Inbox*>> members_;
    Counts counts_;
};

}  // namespace verbena::sim
