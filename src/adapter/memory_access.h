// One-sided operations to processes of this host, executed by the initiator with process_vm_writev and
// process_vm_readv, or a few bytes by /proc/PID/mem (memory_file.h), as a DMA engine would: they take no
// processor time of the target. Where that is to be had, too, much at a time is faster as packets:
// MemoryAccess::packets_are_faster() knows of which target that holds, and the requester chooses. Keys,
// bounds and rights are those of the target's exported tables; whatever does not fit is declined and leaves
// as packets, so that the responder judges it (foreign_memory.h). The requester asks only when everything
// before was acknowledged: that keeps the order.
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
#include <optional>

#include "adapter/call_time.h"
#include "adapter/foreign_memory.h"
#include "link/local_peers.h"
#include "transport/direct_access.h"

namespace verbena::adapter {

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
