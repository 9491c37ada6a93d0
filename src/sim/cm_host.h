// The connection manager of one simulated host: a cm::Manager whose MADs travel as real packets from QP1 to
// QP1 through the simulated network, and which delivers events to the programs of the host.
//
// Thread safety: none.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "cm/manager.h"
#include "sim/random.h"
#include "sim/sim_link.h"
#include "sim/world.h"

namespace verbena::sim {

// Who has a file, and gets its events.
class EventSink {
   public:
    virtual ~EventSink() = default;
    virtual void event(const cm::Event& event) = 0;
};

class CmHost final : public Inbox, public cm::Environment, private link::Receiver {
   public:
    CmHost(World& world, unsigned number, std::uint64_t seed);
    ~CmHost() override;
    CmHost(const CmHost&) = delete;
    CmHost& operator=(const CmHost&) = delete;

    cm::Manager& manager() { return *manager_; }
    unsigned number() const { return number_; }
    cm::Endpoint address(bool ipv6, std::uint16_t port) const;

    void open(cm::FileNumber file, EventSink& sink) { files_[file] = &sink; }
    void close(cm::FileNumber file);

    // After each call of the manager: its deadline may have moved.
    void called();
    void die();
    bool dead() const { return dead_; }

    // A QP number that is neither in use nor in quarantine; 0 if there is none just now.
    std::uint32_t take_qp();
    // `ended`: when its connection ended; kNever if it had none.
    void give_back_qp(std::uint32_t qp, Time ended);

    void arrived() override;

    // cm::Environment
    void send_mad(const wire::Path& path, std::uint32_t destination_qp,
                  std::span<const std::uint8_t, 256> mad) override;
    void deliver(cm::FileNumber file, const cm::Event& event) override;
    int find_local(const cm::Endpoint& local, cm::Route& route) override;
    int find_route(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                   Gid& source_address) override;
    int resolve_neighbor(const cm::Route& route, std::uint64_t token) override;
    std::uint64_t node_guid(std::uint32_t) override { return 0x0254'00ff'fe00'0000 + number_; }
    std::uint8_t max_rd_atomic(std::uint32_t) override { return 16; }
    std::uint32_t device_count() override { return 1; }
    std::uint32_t random() override { return random_.next32(); }
    std::pair<std::uint16_t, std::uint16_t> ephemeral_ports() override { return {40000, 40015}; }
    void quarantine_qp(std::uint32_t qp_number, Time until) override { quarantine_[qp_number] = until; }

   private:
    void datagram(const link::Datagram& datagram) override;
    void turn();
    void wake(Time at);

    World& world_;
    const unsigned number_;
    Random random_;
    const std::uint64_t qps_;  // QP numbers of the host
    SimLink link_;
    std::unique_ptr<cm::Manager> manager_;
    std::map<cm::FileNumber, EventSink*> files_;
    std::map<std::uint32_t, Time> quarantine_;
    std::map<std::uint32_t, Time> ended_;  // when a connection of the QP number ended, as the programs saw it
    std::set<std::uint32_t> in_use_;
    std::uint32_t psn_ = 0;
    Time turn_at_ = kNever;
    bool dead_ = false;
    unsigned stale_deadlines_ = 0;
};

}  // namespace verbena::sim
