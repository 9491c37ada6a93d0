// The connection manager's world: QP1, the devices, the routing table, the event channels.
#pragma once

#include <array>
#include <utility>

#include "cm/manager.h"
#include "daemon/devices.h"
#include "daemon/files.h"
#include "daemon/neighbors.h"
#include "daemon/qp1.h"
#include "daemon/queues.h"
#include "daemon/routes.h"
#include "daemon/totals.h"

namespace verbena::daemon {

// What the device can do at most, both directions; the same number as the verbs library announces.
inline constexpr std::uint8_t kMaxRdAtomic = 128;

// 0 if there are random numbers, or an errno with a reason. Before the first.
int open_random();
// A random number of the kernel's.
std::uint32_t random32();

class Environment final : public cm::Environment {
   public:
    struct Parts {
        faults::CmFaults& way_out;
        Devices& devices;
        Routes& routes;
        Neighbors& neighbors;
        Files& files;
        Queues& queues;
        Totals& totals;
    };
    explicit Environment(const Parts& parts) : parts_(parts) {}

    void send_mad(const wire::Path& path, std::uint32_t destination_qp,
                  std::span<const std::uint8_t, 256> mad) override;
    void deliver(cm::FileNumber file, const cm::Event& event) override;
    int find_local(const cm::Endpoint& local, cm::Route& route) override;
    int find_route(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                   Gid& source_address) override;
    int resolve_neighbor(const cm::Route& route, std::uint64_t token) override;
    std::uint64_t node_guid(std::uint32_t device) override;
    std::uint8_t max_rd_atomic(std::uint32_t) override { return kMaxRdAtomic; }
    std::uint32_t device_count() override { return parts_.devices.count(); }
    std::uint32_t random() override { return random32(); }
    std::pair<std::uint16_t, std::uint16_t> ephemeral_ports() override;
    void quarantine_qp(std::uint32_t qp_number, Time until) override;

   private:
    Parts parts_;
    std::pair<std::uint16_t, std::uint16_t> ports_;
    Time ports_read_at_ = INT64_MIN / 2;
};

}  // namespace verbena::daemon
