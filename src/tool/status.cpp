#include "tool/status.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/reason.h"
#include "host/client.h"
#include "tool/json_text.h"

namespace verbena::tool {
namespace {

unsigned mtu_bytes(unsigned code) { return code ? 128u << code : 0; }

nlohmann::json describe(const host::Device& device) {
    nlohmann::json gids = nlohmann::json::array();
    for (unsigned i = 0; i < host::kMaxGids; i++)
        if (device.gid_valid[i]) gids.push_back({{"index", i}, {"gid", to_string(device.gids[i])}});
    return {{"ifname", device.name.data()},
            {"netdev", device.netdev.data()},
            {"ifindex", device.interface_index},
            {"state", device.active ? "ACTIVE" : "DOWN"},
            {"mtu", device.mtu},
            {"active_mtu", mtu_bytes(device.active_mtu)},
            {"gids", gids}};
}

void print(const host::Device& device) {
    std::printf("%s: netdev %s, %s, MTU %u (RoCE %u)\n", device.name.data(), device.netdev.data(),
                device.active ? "active" : "down", device.mtu, mtu_bytes(device.active_mtu));
    for (unsigned i = 0; i < host::kMaxGids; i++)
        if (device.gid_valid[i]) std::printf("    GID %u: %s\n", i, to_string(device.gids[i]).c_str());
}

}  // namespace

int show_status(bool json) {
    const host::DeviceTable* table = host::devices();
    host::StatusReply status;
    if (!table || host::call(host::Command::status, host::Empty{}, status)) {
        std::fprintf(stderr, "verbena: %s\n", last_reason());
        return 1;
    }
    status.clients -= std::min(status.clients, 1u);  // this very command
    status.connections -= std::min(status.connections, status.timewait);
    nlohmann::json devices = nlohmann::json::array();
    for (unsigned slot = 0; slot < table->count && slot < host::kMaxDevices; slot++) {
        host::Device device;
        if (!host::read_device(*table, slot, device)) continue;
        if (json)
            devices.push_back(describe(device));
        else
            print(device);
    }
    if (json) {
        nlohmann::json all = {{"devices", devices},
                              {"daemon",
                               {{"pid", status.daemon_pid},
                                {"uptime", status.uptime_seconds},
                                {"fabric", status.fabric.name.data()},
                                {"udp_port", status.udp_port},
                                {"wire", status.fabric.wire_available != 0},
                                {"note", status.fabric.note.data()},
                                {"clients", status.clients},
                                {"queues", status.queues},
                                {"ids", status.ids},
                                {"listeners", status.listeners},
                                {"connections", status.connections},
                                {"timewait", status.timewait}}}};
        std::printf("%s\n", json_text(all, 2).c_str());
        return 0;
    }
    std::printf(
        "verbenad: pid %u, up %u s; programs %u, ids %u, listeners %u, connections %u, in timewait %u\n",
        status.daemon_pid, status.uptime_seconds, status.clients, status.ids, status.listeners,
        status.connections, status.timewait);
    if (status.fabric.note[0])
        std::printf("UDP port %u: %s\n", status.udp_port, status.fabric.note.data());
    else
        std::printf("UDP port %u: fabric \"%s\" reaches the network\n", status.udp_port,
                    status.fabric.name.data());
    return 0;
}

}  // namespace verbena::tool
