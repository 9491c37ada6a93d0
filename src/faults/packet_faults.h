// Does to packets what the board's rules say: the implementation of link::PacketFaults.
//
// Copies are made of what is held back, since payloads and paths are only lent. What a rule is about decides
// at the moment when the packet passes; the first rule that fires has it, later ones do not see it.
//
// Thread safety: all calls.
#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "faults/board.h"
#include "link/hooks.h"

namespace verbena::faults {

class PlannedPackets final : public link::PacketFaults {
   public:
    struct Setup {
        Board* board = nullptr;  // outlives this
        std::string program;     // comm
        // A link goes down or a device fails; called with a queue pair's lock held, so it must not wait.
        std::function<void(const Rule&)> port;
        std::function<void(int signal)> kill;
    };
    explicit PlannedPackets(Setup setup) : setup_(std::move(setup)) {}

    // While a link is down nothing leaves or arrives.
    void set_down(bool down) { down_.store(down, std::memory_order_relaxed); }
    bool is_down() const { return down_.load(std::memory_order_relaxed); }

    std::unique_ptr<wire::PacketSink> before(wire::PacketSink& way, std::uint32_t qp_number,
                                             Time now) override;
    Arrival arrives(std::uint32_t qp_number, const wire::Packet& packet, const wire::Path& path,
                    Time now) override;
    std::unique_ptr<Late> late(std::uint32_t qp_number, Time now) override;
    Time next_deadline(std::uint32_t qp_number) override;

   private:
    class Sink;
    struct Held {
        std::uint32_t qp = 0;
        Time due = 0;
        bool behind_next = false;
        wire::OutPacket packet;
        wire::Path path;
        std::vector<std::uint8_t> payload;
        iovec piece{};
    };
    struct HeldArrival final : Late {
        std::uint32_t qp = 0;
        Time due = 0;
        bool behind_next = false;
        std::vector<std::uint8_t> payload;
    };
    struct Passing {
        Direction direction;
        std::uint32_t qp, destination_qp, psn;
        std::uint8_t opcode;
    };

    // The number of the rule that fires, or kNone.
    static constexpr unsigned kNone = ~0u;
    unsigned decide(const Passing& passing);
    void hold(const wire::OutPacket& packet, std::uint32_t qp, Time due, bool behind_next, const char* note);
    void hold_arrival(std::uint32_t qp, const wire::Packet& packet, const wire::Path& path, Time due,
                      bool behind_next);
    // Takes what is due, or what waits for the next packet to pass.
    std::list<Held> take(std::uint32_t qp, Time now, bool behind_next);
    void refuse(const wire::OutPacket& packet, std::uint32_t qp, std::uint8_t syndrome, Time now,
                const char* note);

    const Setup setup_;
    std::atomic<bool> down_{false};
    std::atomic<bool> holds_{false};  // something is in the lists
    std::mutex lock_;
    std::list<Held> held_;
    std::list<std::unique_ptr<HeldArrival>> arrivals_;
};

}  // namespace verbena::faults
