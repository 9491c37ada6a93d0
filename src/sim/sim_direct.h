// What the link to peers of the same host does without packets (transport/direct_access.h), in the simulated
// world: WRITEs and READs in the memory of another simulated process, and SENDs written into receives that it
// shows, after the checks that adapter/foreign_memory.cpp makes on a process's exported tables. How often it
// declines, says "not yet" or prefers packets is the plan's; so one run mixes all ways.
//
// Nothing happens at the same time as something else here: what several processors do to each other is not
// seen.
//
// Thread safety: none; one per simulated process.
#pragma once

#include <functional>

#include "adapter/segment.h"
#include "sim/plan.h"
#include "sim/random.h"
#include "sim/sim_link.h"
#include "sim/world.h"
#include "transport/direct_access.h"

namespace verbena::sim {

class Process;

class SimDirect final : public transport::DirectAccess {
   public:
    using Direct = transport::Direct;

    SimDirect(World& world, const DirectPlan& plan, std::uint64_t seed)
        : world_(world), plan_(plan), random_(seed) {}

    Direct write(const transport::DirectTarget& target, std::span<const iovec> from) override;
    Direct read(const transport::DirectTarget& target, std::span<const iovec> into) override;
    bool packets_are_faster(const wire::Path& path, std::uint32_t destination, std::uint32_t length,
                            bool read, bool among_others, Time now) override;
    bool both_copy(const wire::Path& path, std::uint32_t destination, Time now) override;
    bool fetching_is_faster(const wire::Path& path, std::uint32_t destination, std::uint32_t length,
                            bool among_others, Time now) override;
    std::optional<transport::ShownReceives::Next> shown(const wire::Path& path,
                                                        std::uint32_t destination) override;
    Direct place(const transport::PlaceTarget& target, std::span<const iovec> from) override;
    // A part of a READ's answer, to who asked for it.
    bool store(const wire::Path& of_requester, const SimLink::Place& place, const std::uint8_t* from);
    bool reaches(const wire::Path& path, std::uint32_t destination) override;
    bool stands_still(const wire::Path& path, std::uint32_t destination) override;

    // See what is about to be done, if set.
    std::function<void(const transport::DirectTarget&, std::span<const iovec>, bool write)> executes;
    std::function<void(const transport::PlaceTarget&, std::span<const iovec>)> places;

   private:
    Process* find(const Gid& address, std::uint32_t number) const;
    Direct transfer(const transport::DirectTarget& target, std::span<const iovec> local, bool write);
    Direct refuses();

    World& world_;
    const DirectPlan plan_;
    Random random_;
};

}  // namespace verbena::sim
