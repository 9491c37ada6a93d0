// Looks at every packet on the simulated wire: counts what was covered, checks rules that can be read off
// packets alone, and remembers what was lost, so that a retry counter that ran out can be judged.
//
// Thread safety: none; one per run.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "sim/coverage.h"
#include "sim/network.h"
#include "sim/verdict.h"
#include "wire/packet.h"

namespace verbena::sim {

class WireWatch final : public Watcher {
   public:
    WireWatch(Scheduler& scheduler, Coverage& coverage, Verdict& verdict)
        : scheduler_(scheduler), coverage_(coverage), verdict_(verdict) {}

    // From now on the two talk with each other.
    void pair(std::uint32_t a, std::uint32_t b);

    void sent(const Frame& frame) override;
    void delivered(const Frame& frame) override;
    void lost(const Frame& frame, Loss why) override;

    // Packets between the two queue pairs that were lost in [from, to].
    std::size_t losses(std::uint32_t a, std::uint32_t b, Time from, Time to) const;
    // RNR NAKs that `qp` received in [from, to].
    std::size_t rnr_naks(std::uint32_t qp, Time from, Time to) const;
    // A response that `qp` received since `from`.
    bool anything_received(std::uint32_t qp, Time from) const;

    // Prints every packet (stderr).
    static inline bool trace = false;

    // Sees every packet that leaves, if set.
    std::function<void(const wire::Packet&)> observer;

    // The turn in progress was caused by a timer.
    bool timer_turn = false;

   private:
    struct Log {
        std::uint32_t peer = 0;
        std::vector<Time> losses;
        std::vector<Time> rnr_naks;
        Time last_response = 0;
        bool acknowledged_any = false;
        std::uint32_t acknowledged = 0;            // newest PSN that a response covered
        std::vector<std::uint32_t> data_requests;  // PSNs of its READs and atomics
        bool rnr = false;
        std::uint32_t rnr_psn = 0;
        Time rnr_until = 0;
    };
    void show(const char* what, const Frame& frame) const;
    void check_request(const wire::Packet& packet);
    static bool may_go_back(const Log& log, std::uint32_t psn);
    void response(Log& log, const wire::Packet& packet);

    Scheduler& scheduler_;
    Coverage& coverage_;
    Verdict& verdict_;
    std::unordered_map<std::uint32_t, Log> logs_;
    std::uint64_t sampled_ = 0;
};

}  // namespace verbena::sim
