#include "tool/ps.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "adapter/clock.h"
#include "tool/json_text.h"
#include "tool/look.h"

namespace verbena::tool {
namespace {

using adapter::ObjectKind;
using observe::Program;
using observe::Snapshot;

std::size_t count(const Program& program, ObjectKind kind) {
    const auto& objects = program.tables.objects;
    return static_cast<std::size_t>(
        std::count_if(objects.begin(), objects.end(),
                      [kind](const observe::Object& object) { return object.kind == kind; }));
}

std::size_t count_ids(const Snapshot& snapshot, const Program& program) {
    return static_cast<std::size_t>(
        std::count_if(snapshot.ids.begin(), snapshot.ids.end(),
                      [&](const Snapshot::Id& id) { return id.pid == program.pid; }));
}

// Of the contexts that it has open.
nlohmann::ordered_json devices_of(const Snapshot& snapshot, const Program& program) {
    std::set<std::string> names;
    for (const observe::Object& object : program.tables.objects)
        if (object.kind == ObjectKind::context) names.insert(device_name(snapshot, object.device));
    return names;
}

std::int64_t seconds_since(std::uint64_t started) {
    return (adapter::now() - static_cast<Time>(started)) / kSecond;
}

std::string uptime_text(std::int64_t seconds) {
    char text[32];
    if (seconds < 3600)
        std::snprintf(text, sizeof text, "%lld:%02lld", static_cast<long long>(seconds / 60),
                      static_cast<long long>(seconds % 60));
    else
        std::snprintf(text, sizeof text, "%lldh%02lld", static_cast<long long>(seconds / 3600),
                      static_cast<long long>(seconds / 60 % 60));
    return text;
}

}  // namespace

int show_programs(bool json) {
    Snapshot snapshot;
    if (!look_once(observe::Depth::everything, snapshot)) return 1;
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    if (!json)
        std::printf("%8s %-10s %-15s %7s %5s %5s %5s %5s %6s %9s %9s  %s\n", "PID", "USER", "COMMAND", "TIME",
                    "QP", "CQ", "PD", "MR", "CM_ID", "SENT", "RECEIVED", "DEVICES");
    for (const Program& program : snapshot.programs) {
        const observe::Tables& tables = program.tables;
        const transport::QpCounters total = tables.total();
        const std::uint64_t sent = total.bytes_sent + total.direct_bytes_out;
        const std::uint64_t received = total.bytes_received + total.direct_bytes_in;
        const nlohmann::ordered_json devices = devices_of(snapshot, program);
        const std::int64_t seconds = seconds_since(tables.started);
        if (json) {
            all.push_back({{"pid", program.pid},
                           {"user", user_name(program.user)},
                           {"comm", tables.command},
                           {"uptime", seconds},
                           {"devices", devices},
                           {"ctx", count(program, ObjectKind::context)},
                           {"pd", count(program, ObjectKind::protection_domain)},
                           {"cq", count(program, ObjectKind::completion_queue)},
                           {"qp", tables.queue_pairs.size()},
                           {"mr", tables.regions.size()},
                           {"srq", count(program, ObjectKind::shared_queue)},
                           {"cm_id", count_ids(snapshot, program)},
                           {"sent_bytes", sent},
                           {"rcvd_bytes", received},
                           {"sent_pkts", total.packets_sent + total.direct_packets_out},
                           {"rcvd_pkts", total.packets_received + total.direct_packets_in}});
            continue;
        }
        std::string names;
        for (const auto& name : devices) names += (names.empty() ? "" : ",") + name.get<std::string>();
        std::printf("%8u %-10s %-15s %7s %5zu %5zu %5zu %5zu %6zu %8sB %8sB  %s\n", program.pid,
                    user_name(program.user).c_str(), tables.command.c_str(), uptime_text(seconds).c_str(),
                    tables.queue_pairs.size(), count(program, ObjectKind::completion_queue),
                    count(program, ObjectKind::protection_domain), tables.regions.size(),
                    count_ids(snapshot, program), short_number(static_cast<double>(sent)).c_str(),
                    short_number(static_cast<double>(received)).c_str(), names.c_str());
    }
    if (json) std::printf("%s\n", json_text(all, 2).c_str());
    return 0;
}

}  // namespace verbena::tool
