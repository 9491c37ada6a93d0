// The processes of this host that we share memory with: who they are, how they are met (local_meeting.h),
// when they die, and what of ours they are at work on.
//
// A peer is met once per pair of processes, whatever the number of queue pairs: before the first packet to
// one of its blocks (meet()), or when it asks us. If both ask at once, the question from the lower block
// counts, where both ask by their first; otherwise they are met twice. Whoever does not answer, a stranger or
// another host, is reached by the wire; another question leaves only after thousands of packets. Our own
// blocks are a peer as well: ourselves.
//
// Identity. The pid is the kernel's (SO_PEERCRED), a pidfd follows the process, or its own sign of life where
// there are none, and PeerMemory reads the nonce of the peer's tables back from that process. Life. A dead
// peer's last packets are read, then its place is free; no thread is inside it then (Visit). Of one that was
// asked and has not become known nothing tells but that its inbox is there, and the block may be another's by
// the time that it is asked again.
//
// Sleeping. A descriptor ends the sleep of all our sleepers, and whoever leaves takes its signal away, which
// may have been meant for another. So who enters and who leaves looks whether there is work, and signals if
// there is and somebody sleeps; together with the rings' own rule (local_ring.h) this keeps true: while
// somebody sleeps and there is work, the descriptor is signalled or about to be. Work is a packet in a ring,
// and a packet that waits for room of which its peer has told.
//
// Thread safety: all calls; look_around() and what reads `in` one thread at a time.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/lock.h"
#include "base/pidfd.h"
#include "base/put_off.h"
#include "link/life_sign.h"
#include "link/local_meeting.h"
#include "link/local_ring.h"
#include "link/local_spill.h"
#include "link/steering.h"
#include "memory/outsiders.h"

namespace verbena::link {

// What somebody above makes of a peer's exported tables.
class PeerMemory {
   public:
    virtual ~PeerMemory() = default;
    // Not sent: the queue pair sends nothing any more, nor has its process what it had sent.
    enum class Fetched : std::uint8_t { done, not_sent, refused };
    // Copies what lies there into `into`, which is as long, for a queue pair of the peer's that has sent it
    // and could still send behind that. All or nothing of use. Nobody waits for who is at that.
    virtual Fetched fetch(std::uint32_t qp_number, std::span<const iovec> from,
                          std::span<const iovec> into) const = 0;
    // Where a queue pair of the peer's wants a part of an answer, and by which right (wire::Aside::placed).
    struct Place {
        std::uint32_t qp_number;
        std::uint64_t right, address;
    };
    // Writes there, if it still wants it. `life_fd`: the peer's, or -1.
    virtual bool store(const Place& place, int life_fd, std::span<const std::uint8_t> from,
                       LocalMark& mark) const = 0;
    // In a child after fork(): the parent's right to the peer's memory must not live on in it.
    virtual void abandon() {}
};

// A place in the table of peers. Its owner changes, itself it lives as long as the table.
struct LocalPeer final : Wakening {
    enum class State : std::uint8_t { unused, asked, met, dead };
    std::atomic<State> state{State::unused};

    Lock lock;                           // held by who writes to `out` and `spill`
    std::atomic<bool> unsure{false};     // it may have gone to sleep over what was published lightly
    std::unique_ptr<LocalRing> out;      // ours to write; there while met
    LocalSpill spill;                    // what waits for room in `out`
    std::atomic<bool> spilled{false};    // something does
    std::uint64_t heard = 0;             // how far `in` was settled when something was written last
    std::unique_ptr<LocalRing> in;       // ours to read; there unless unused
    std::unique_ptr<PeerMemory> memory;  // nullptr: it does not let us
    std::atomic<std::uint32_t> visitors{0};

    pid_t pid = 0;
    int life_fd = -1;  // readable once it has ended: a pidfd, or its sign of life; -1: ourselves
    int event_fd = -1;
    std::uint32_t block = 0;   // by which we asked for it
    std::uint64_t cookie = 0;  // of the question that it was met by, or shall be
    std::uint64_t nonce = 0;
    bool waited_for = false;

    // To `out`, which is there, or behind what waits for room in it. False: lost. `lock` is held.
    bool append(const wire::Path& path, std::span<const iovec> pieces, const wire::Aside& aside,
                LocalRing::Form form) {
        if (!spilled.load(std::memory_order_relaxed) && out->append(path, pieces, aside, form)) return true;
        const bool kept = spill.append(*out, path, pieces, aside, form);
        spilled.store(!spill.empty());
        return kept;
    }
    // To `out` if it takes the packet at once: a wire::OutPacket, or a wire::ShortPacket, which it takes to
    // where the one before went, so that its address is of this host. `lock` is held.
    [[gnu::always_inline]] bool append(const auto& packet) {
        if (spilled.load(std::memory_order_relaxed) || !out ||
            state.load(std::memory_order_acquire) != State::met) [[unlikely]]
            return false;
        const std::uint64_t settled = in->settled();
        return out->append(packet, std::exchange(heard, settled) == settled);
    }
    void wake() noexcept override;
};

class LocalPeers final : public memory::Outsiders {
   public:
    static constexpr unsigned kMaxPeers = 64;  // four descriptors each

    struct Setup {
        std::string fabric;   // as UdpLink::Setup's
        int segment_fd = -1;  // what peers get to see of us; -1: nothing
        std::uint64_t segment_address = 0;
        std::uint64_t nonce = 0;  // the tables'
        // The tables of the process, whose descriptor stays the caller's; nullptr: no direct access.
        std::function<std::unique_ptr<PeerMemory>(pid_t, int fd, std::uint64_t address)> open_memory;
        // A descriptor of the process, or -1: it is believed what it says of itself (life_sign.h).
        int (*follow)(pid_t) = open_pidfd;
    };
    // The descriptors are the link's: what ends our sleep, and an epoll that greetings and deaths make
    // readable.
    LocalPeers(const Setup& setup, int event_fd, int wait_fd);
    ~LocalPeers() override;

    // A block of queue pair numbers that is ours: peers find us under it. 0 or errno with a reason.
    int add_block(std::uint32_t block);

    // Whether that peer, found before, is still the block's.
    bool owns(std::uint32_t block, const LocalPeer& peer) const {
        return owners_[block % kMaxBlocks].load(std::memory_order_acquire) == &peer;
    }
    // Who owns the queue pair at that address, if it is a living process that we have met.
    LocalPeer* find(const Gid& destination, std::uint32_t qp_number) {
        LocalPeer* const peer = owner_of(qp_number);
        return peer && is_ours(destination) ? peer : nullptr;
    }
    // The same, whatever the address.
    LocalPeer* owner_of(std::uint32_t qp_number) const {
        return owners_[block_of(qp_number) % kMaxBlocks].load(std::memory_order_acquire);
    }
    // The same; a question leaves now and then if nobody is known.
    LocalPeer* find_or_ask(const Gid& destination, std::uint32_t qp_number);

    // Who owns the queue pair is asked, unless that has been done and may be answered yet.
    enum class Met : std::uint8_t { yes, asked, no };
    Met meet(const Gid& destination, std::uint32_t qp_number);
    // What has become of the question.
    Met how_met(std::uint32_t qp_number);
    // It did not answer in time: `no` until it does.
    void stop_waiting_for(std::uint32_t qp_number);

    void look_around();  // greetings, deaths
    // A dead peer's place is not free yet: somebody was inside it. No descriptor tells of that.
    bool has_dead();

    // The peer is there and has not yet looked at something that we sent it.
    bool stands_still(const Gid& destination, std::uint32_t qp_number);

    unsigned count() const { return count_.load(std::memory_order_acquire); }
    LocalPeer& at(unsigned index) const { return *peers_[index]; }

    // Around a sleep on the link's descriptor. Any thread, several at once.
    void enter_sleep();
    void leave_sleep();
    static void wake(LocalPeer& peer);  // who sleeps there; of who holds its lock, or makes progress

    // Something was published lightly (local_ring.h) to a peer that did not seem to sleep. Its lock is held.
    void is_unsure(LocalPeer& peer) {
        peer.unsure.store(true, std::memory_order_release);
        unsure_.store(true, std::memory_order_release);
    }
    // Wakes those that have gone to sleep over it. Any thread, and no lock.
    void look_for_overlooked() {
        if (unsure_.load(std::memory_order_relaxed)) wake_overlooked();
    }

    void wait_for_them(const memory::Work& work, Duration most) override;

    // In a child after fork(): the parent's names must not live on in it.
    void abandon();

    // Keeps a peer's place from being given to another; for work on its memory.
    class Visit {
       public:
        explicit Visit(LocalPeer* peer);
        Visit(LocalPeers& peers, const Gid& destination, std::uint32_t qp_number)
            : Visit(peers.find(destination, qp_number)) {}
        ~Visit();
        Visit(const Visit&) = delete;
        Visit& operator=(const Visit&) = delete;
        LocalPeer* peer() const { return peer_; }

       private:
        LocalPeer* peer_;
    };

   private:
    static constexpr unsigned kMaxInboxes = 64;
    static constexpr unsigned kMostGreetings = 16;  // of an inbox, at one look
    static constexpr unsigned kMaxAddresses = 64;
    static constexpr std::uint16_t kRetryCrowded = 64;  // packets until the next question
    static constexpr std::uint16_t kRetry = 4096;
    static constexpr std::uint16_t kRetryRefused = 60'000;

    struct Inbox {
        std::unique_ptr<NamedInbox> inbox;
        std::uint32_t block = 0;
    };
    struct Known {
        Gid address;
        bool ours;
    };

    const Known* find_known(const Gid& address, unsigned count) const {
        for (unsigned i = 0; i < count; i++)
            if (known_[i].address == address) return &known_[i];
        return nullptr;
    }
    bool is_ours(const Gid& address) {
        const Known* known = find_known(address, known_count_.load(std::memory_order_acquire));
        return known ? known->ours : learn_whether_ours(address);
    }
    bool learn_whether_ours(const Gid& address);
    void wake_overlooked();
    bool watch(int fd);

    // With lock_.
    void ask(std::uint32_t block);
    LocalPeer* new_peer(std::uint32_t block);
    void meet_ourselves(std::uint32_t block);
    bool complete(LocalPeer& peer, Greeting& greeting);
    void take(Greeting& greeting);
    void take_question(Greeting& greeting);
    void take_answer(Greeting& greeting);
    void take_refusal(const Greeting& greeting);
    LocalPeer* answered_by(const Greeting& greeting);
    void set_owner(std::uint32_t block, LocalPeer& peer);
    int send(Greeting::Kind kind, std::uint32_t from, std::uint32_t to, std::uint64_t cookie,
             LocalPeer* peer);
    bool is_dead(const LocalPeer& peer) const;
    bool has_inbox(const LocalPeer& peer) const;
    bool is_gone(const LocalPeer& peer) const;
    void declare_dead(LocalPeer& peer);
    void free_if_done(LocalPeer& peer);
    bool has_work();
    void open_memory(LocalPeer& peer, int segment_fd, std::uint64_t segment_address);
    LocalPeer* asked_for(std::uint32_t block);
    Met standing_of(std::uint32_t block);
    template <class Like>
    LocalPeer* find_if(Like like) {
        for (unsigned i = 0; i < count(); i++)
            if (like(*peers_[i])) return peers_[i].get();
        return nullptr;
    }

    const Setup setup_;
    const int event_fd_, wait_fd_;
    std::array<std::atomic<LocalPeer*>, kMaxBlocks> owners_{};       // of blocks
    std::array<std::atomic<std::uint16_t>, kMaxBlocks> patience_{};  // packets
    std::array<std::unique_ptr<LocalPeer>, kMaxPeers> peers_;
    std::atomic<unsigned> count_{0};
    std::array<Known, kMaxAddresses> known_{};
    std::atomic<unsigned> known_count_{0};

    std::mutex lock_;  // of changes
    std::array<Inbox, kMaxInboxes> inboxes_{};
    std::atomic<unsigned> inbox_count_{0};
    LifeSign life_sign_;
    std::uint64_t next_cookie_;  // unlike those of who had the block before
    unsigned looked_at_ = 0;     // the last place that was asked whether its process is gone
    unsigned sleepers_ = 0;

    alignas(64) std::atomic<bool> unsure_{false};  // of some peer: written with each packet
};

}  // namespace verbena::link
