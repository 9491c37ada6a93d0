// One-sided operations to processes of this host, executed by the initiator with process_vm_writev and
// process_vm_readv, or a few bytes by /proc/PID/mem (memory_file.h), as a DMA engine would: they take no
// processor time of the target. Where that is to be had, too, much at a time is faster as packets:
// MemoryAccess::packets_are_faster() knows of which target that holds, and the requester chooses. Keys,
// bounds and rights are those of the target's exported tables (segment.h), mapped read-only; whatever does
// not fit is declined and leaves as packets, so that the responder judges it.
//
// Order: the requester asks only when everything before was acknowledged. Visibility: the aligned word of
// eight bytes that holds the last byte is written last and whole, as transport::place() does it. Lifetime: a
// mark is held from before the look at the tables until after the copy, so that who takes a region or a queue
// pair away waits for us (link::LocalMark). Identity: the tables' generation and the process's presence
// (presence.h) before each call; that it still is the one that we met (its pidfd, and the tables' nonce read
// back from it) at least once a millisecond. So a target that is killed or calls exec() is written to within
// one call at most, or for a millisecond if it shows no presence, where its tables said that the peer may;
// nothing else lies there then but by chance.
//
// Payloads that a peer refers to (link/local_reference.h) are fetched in the same way while its queue pair
// can send. Afterwards that is looked at again, and the process's presence, or else the nonce that was read
// in the same call: so nobody waits for who is fetching. Those that we write into receives which a peer shows
// (transport/shown_receives.h), and answers where a READ of a peer's wants them, pass the same checks, by the
// lkey.
//
// What leaves as packets, besides: immediate data and atomics; requests behind one that is not yet
// acknowledged; windows, on-demand and null regions; the first request while the target's queue pair is in
// RTR (a packet raises COMMUNICATION_ESTABLISHED); and everything if the kernel refuses (another user, not
// dumpable, Yama, seccomp).
//
// Thread safety: all calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "adapter/call_time.h"
#include "adapter/confidence.h"
#include "adapter/memory_file.h"
#include "adapter/pace.h"
#include "adapter/segment.h"
#include "link/local_peers.h"
#include "transport/direct_access.h"

namespace verbena::adapter {

// Somebody else's tables, and his memory.
class ForeignMemory final : public link::PeerMemory {
   public:
    // The file stays the caller's. nullptr without a reason if it is no segment of this version, or the
    // process does not let us.
    static std::unique_ptr<ForeignMemory> open(pid_t pid, int segment_fd, std::uint64_t segment_address);
    ~ForeignMemory() override;
    ForeignMemory(const ForeignMemory&) = delete;
    ForeignMemory& operator=(const ForeignMemory&) = delete;

    transport::Direct transfer(const transport::DirectTarget& target, std::span<const iovec> local,
                               bool write) const;
    // What a queue pair shows of its receives; and a part of a SEND's payload, into one of those.
    std::optional<transport::ShownReceives::Next> shown(std::uint32_t qp_number) const;
    transport::Direct place(const transport::PlaceTarget& target, std::span<const iovec> from,
                            link::LocalMark& mark) const;
    // Whether the tables still are that process's. `pidfd` may be -1.
    bool verify(int pidfd, Time now) const;

    // Whether the target's processor is likely to take packets as they come (DirectAccess).
    bool serves(Time now) const;
    void served_slowly(Time now) const { confidence_.disappointed(now); }
    // How fast WRITEs and READs pass, executed and as packets; how fast SENDs do, fetched and copied, among
    // others or one at a time.
    Pace& operations(bool read) const { return read ? reads_ : writes_; }
    Pace& sends(bool among_others) const { return among_others ? sends_ : rounds_; }

    void abandon() override { file_.close(); }
    // Identity: the process shows its presence afterwards, or the tables' nonce is read in the same call.
    Fetched fetch(std::uint32_t qp_number, std::span<const iovec> from,
                  std::span<const iovec> into) const override;
    bool store(const Place& place, int pidfd, std::span<const std::uint8_t> from,
               link::LocalMark& mark) const override;

   private:
    class Hints;
    ForeignMemory(pid_t pid, const SegmentHeader& header, std::size_t size, std::uint64_t address);
    bool reads_nonce() const;
    const QpRecord* find(std::uint32_t number) const;
    const QpRecord* search(std::uint32_t number, std::uint32_t from, std::uint32_t to) const;
    static bool sends(const QpRecord& qp, std::uint32_t number);
    const transport::BusyCounters& busy_of(const QpRecord& qp) const { return busy_[&qp - queue_pairs_]; }
    // Whether it is connected with that one of ours.
    bool is_of(const QpRecord& qp, const wire::Path& path, std::uint32_t qp_number) const;
    // Whether the target's queue pair takes that request of ours.
    transport::Direct accepts(const QpRecord& qp, const transport::DirectTarget& target, bool write) const;
    // What somebody wants of the target's memory, and by which key.
    struct Wanted {
        std::uint32_t key;
        bool remote;  // an rkey
        std::uint64_t address, length;
        memory::Access access;
    };
    // Where it lies in the target; 0: it may not be done this way. `number`: the queue pair's.
    std::uint64_t permit(const QpRecord& qp, std::uint32_t number, const Wanted& wanted) const;

    // What was permitted, `length` bytes of `local` from or to there, by process_vm_*.
    transport::Direct by_call(std::uint64_t there, std::span<const iovec> local, std::size_t length,
                              bool write) const;

    const pid_t pid_;
    mutable MemoryFile file_;
    const SegmentHeader& header_;
    const std::size_t size_;
    const std::uint64_t address_;  // of the header, in the target
    const std::uint64_t generation_;
    const memory::RegionRecord* regions_ = nullptr;
    const QpRecord* queue_pairs_ = nullptr;
    const transport::BusyCounters* busy_ = nullptr;  // of each
    std::uint32_t region_count_ = 0, qp_count_ = 0;
    const std::unique_ptr<Hints> hints_;
    mutable std::atomic<std::uint32_t> searched_{0};  // records, by the last search
    mutable std::atomic<Time> verified_{INT64_MIN / 2};
    mutable Confidence confidence_;
    mutable Pace writes_{Pace::Costs::more_together, transport::kHalved},
        reads_{Pace::Costs::more_together, transport::kHalved},
        sends_{Pace::Costs::alike, transport::kHalved}, rounds_{Pace::Costs::alike};
    mutable std::atomic<bool> gone_{false};
};

class MemoryAccess final : public transport::DirectAccess {
   public:
    explicit MemoryAccess(link::LocalPeers& peers) : peers_(peers) {}

    transport::Direct write(const transport::DirectTarget& target, std::span<const iovec> from) override;
    transport::Direct read(const transport::DirectTarget& target, std::span<const iovec> into) override;
    Duration call_takes() const override { return call_time_.usually(); }
    bool packets_are_faster(const wire::Path& path, std::uint32_t destination, std::uint32_t length,
                            bool read, bool among_others, Time now) override;
    bool both_copy(const wire::Path& path, std::uint32_t destination, Time now) override;
    void packets_were_slow(const wire::Path& path, std::uint32_t destination, Time now) override;
    bool fetching_is_faster(const wire::Path& path, std::uint32_t destination, std::uint32_t length,
                            bool among_others, Time now) override;
    std::optional<transport::ShownReceives::Next> shown(const wire::Path& path,
                                                        std::uint32_t destination) override;
    transport::Direct place(const transport::PlaceTarget& target, std::span<const iovec> from) override;
    void measured(const wire::Path& path, std::uint32_t destination,
                  const transport::PacketPace::Sample& sample) override;
    bool reaches(const wire::Path& path, std::uint32_t destination) override;
    bool is_behind(const wire::Path& path, std::uint32_t destination) override;
    bool stands_still(const wire::Path& path, std::uint32_t destination) override;

    std::uint64_t executed() const { return executed_.load(std::memory_order_relaxed); }

   private:
    transport::Direct transfer(const transport::DirectTarget& target, std::span<const iovec> local,
                               bool write);

    static bool is_compared(const transport::DirectTarget& target, std::span<const iovec> local, bool write);
    bool takes_turn(const link::LocalPeer& peer, Time now);

    link::LocalPeers& peers_;
    // By place(): only compared, and when.
    std::atomic<const link::LocalPeer*> written_to_{nullptr};
    std::atomic<Time> written_at_{INT64_MIN / 2};
    std::atomic<std::uint64_t> executed_{0};
    CallTime call_time_;  // of small ones
};

}  // namespace verbena::adapter
