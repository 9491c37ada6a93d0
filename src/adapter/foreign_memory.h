// Another process of this host: its exported tables (segment.h), mapped read-only, and what of its memory
// they let a peer at, by process_vm_writev and process_vm_readv, or a few bytes by /proc/PID/mem
// (memory_file.h). Keys, bounds and rights are the tables'; what does not fit is declined.
//
// Visibility: the aligned word of eight bytes that holds the last byte is written last and whole, as
// transport::place() does it. Lifetime: a mark is held from before the look at the tables until after the
// copy, so that who takes a region or a queue pair away waits for us (link::LocalMark). Identity: the tables'
// generation and the process's presence (presence.h) before each call; that it still is the one that we met
// (what tells of its end, and the tables' nonce read back from it) at least once a millisecond. So a target
// that is killed or calls exec() is written to within one call at most, or for a millisecond if it shows no
// presence, where its tables said that the peer may; nothing else lies there then but by chance.
//
// Payloads that a peer refers to (link/local_reference.h) are fetched in the same way while its queue pair
// can send. Afterwards that is looked at again, and the process's presence, or else the nonce that was read
// in the same call: so nobody waits for who is fetching. Those that we write into receives which a peer shows
// (transport/shown_receives.h), and answers where a READ of a peer's wants them, pass the same checks, by the
// lkey.
//
// Thread safety: all calls.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "adapter/confidence.h"
#include "adapter/memory_file.h"
#include "adapter/pace.h"
#include "adapter/segment.h"
#include "link/local_peers.h"
#include "transport/direct_access.h"

namespace verbena::adapter {

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
    // Whether the tables still are that process's. `life_fd` may be -1.
    bool verify(int life_fd, Time now) const;

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
    bool store(const Place& place, int life_fd, std::span<const std::uint8_t> from,
               link::LocalMark& mark) const override;

   private:
    class Hints;
    ForeignMemory(pid_t pid, const SegmentHeader& header, std::size_t size, std::uint64_t address);
    bool reads_nonce() const;
    const QpRecord* find(std::uint32_t number) const;
    const QpRecord* search(std::uint32_t number, std::uint32_t from, std::uint32_t to) const;
    static bool sends(const QpRecord& qp, std::uint32_t number);
    const transport::BusyCounters& busy_of(const QpRecord& qp) const {
        return busy_[&qp - queue_pairs_.data()];
    }
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
    std::span<const memory::RegionRecord> regions_;
    std::span<const QpRecord> queue_pairs_;
    std::span<const transport::BusyCounters> busy_;  // of each
    const std::unique_ptr<Hints> hints_;
    mutable std::atomic<std::uint32_t> searched_{0};  // records, by the last search
    mutable std::atomic<Time> verified_{INT64_MIN / 2};
    mutable Confidence confidence_;
    mutable Pace writes_{Pace::Costs::more_together, transport::kHalved},
        reads_{Pace::Costs::more_together, transport::kHalved},
        sends_{Pace::Costs::alike, transport::kHalved}, rounds_{Pace::Costs::alike};
    mutable std::atomic<bool> gone_{false};
};

}  // namespace verbena::adapter
