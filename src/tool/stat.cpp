#include "tool/stat.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "host/port.h"
#include "observe/counters.h"
#include "tool/json_text.h"
#include "tool/look.h"

namespace verbena::tool {
namespace {

using Json = nlohmann::ordered_json;
using observe::Counter;

void add(Json& fields, std::span<const Counter> counters, const adapter::PortTotals& totals, bool all) {
    for (const Counter& counter : counters)
        if (const std::uint64_t value = counter.value(totals); all || value != 0)
            fields[counter.name] = value;
}

Json of_ports(observe::Snapshot& snapshot, bool all) {
    Json list = Json::array();
    for (const host::Device& device : snapshot.devices) {
        Json fields = Json::object();
        add(fields, observe::port_counters(), snapshot.ports[device.index], all);
        add(fields, observe::hw_counters(), snapshot.ports[device.index], all);
        list.push_back({{"ifname", device.name.data()}, {"port", 1}, {"counters", fields}});
    }
    return list;
}

// What a program's queue pairs that are gone have counted is a line of its own, with lqpn 0.
Json of_queue_pairs(const observe::Snapshot& snapshot, const StatOptions& options) {
    Json list = Json::array();
    auto line = [&](const observe::Program& program, std::uint32_t device, std::uint32_t number,
                    const transport::QpCounters& counters) {
        adapter::PortTotals totals{};
        totals.own = counters;
        Json fields = Json::object();
        add(fields, observe::port_counters(), totals, options.all);
        add(fields, observe::hw_counters(), totals, options.all);
        if (number == 0 && fields.empty()) return;
        list.push_back({{"ifname", device_name(snapshot, device)},
                        {"port", 1},
                        {"lqpn", number},
                        {"pid", program.pid},
                        {"comm", program.tables.command},
                        {"counters", fields}});
    };
    for (const observe::Program& program : snapshot.programs) {
        if (options.pid != 0 && program.pid != options.pid) continue;
        for (const observe::QueuePair& qp : program.tables.queue_pairs)
            line(program, qp.device, qp.number, qp.counters);
        for (const auto& [device, totals] : program.tables.ended) line(program, device, 0, totals.own);
    }
    return list;
}

void print(const Json& list) {
    for (const Json& entry : list) {
        std::printf("link %s/1", entry["ifname"].get<std::string>().c_str());
        for (const char* name : {"lqpn", "pid"})
            if (entry.contains(name)) std::printf(" %s %s", name, entry[name].dump().c_str());
        if (entry.contains("comm")) std::printf(" comm %s", entry["comm"].get<std::string>().c_str());
        std::printf("\n");
        for (const auto& [name, value] : entry["counters"].items())
            std::printf("    %-32s %s\n", name.c_str(), value.dump().c_str());
    }
}

// A label's value (OpenMetrics: backslash, quote and line feed are escaped).
std::string quoted(const char* text) {
    std::string out = "\"";
    for (; *text; text++) {
        if (*text == '\\' || *text == '"') out += '\\';
        out += *text;
    }
    return out + "\"";
}

void print_family(const char* name, const char* type, const char* help) {
    std::printf("# TYPE node_infiniband_%s %s\n# HELP node_infiniband_%s %s.\n", name, type, name, help);
}

void print_gauges(const observe::Snapshot& snapshot) {
    constexpr int kActive = 4, kDown = 1, kLinkUp = 5, kDisabled = 3;
    constexpr double kBytesPerMegabit = 1e6 / 8;
    print_family("state_id", "gauge", "State of the port (1: down, 4: active)");
    for (const host::Device& device : snapshot.devices)
        std::printf("node_infiniband_state_id{device=%s,port=\"1\"} %d\n", quoted(device.name.data()).c_str(),
                    device.active ? kActive : kDown);
    print_family("physical_state_id", "gauge", "Physical state of the port (3: disabled, 5: link up)");
    for (const host::Device& device : snapshot.devices)
        std::printf("node_infiniband_physical_state_id{device=%s,port=\"1\"} %d\n",
                    quoted(device.name.data()).c_str(), device.active ? kLinkUp : kDisabled);
    print_family("rate_bytes_per_second", "gauge", "Rate of the network interface");
    for (const host::Device& device : snapshot.devices)
        std::printf("node_infiniband_rate_bytes_per_second{device=%s,port=\"1\"} %.0f\n",
                    quoted(device.name.data()).c_str(), device.speed * kBytesPerMegabit);
}

void print_counters(observe::Snapshot& snapshot, std::span<const Counter> counters) {
    for (const Counter& counter : counters) {
        if (!counter.metric) continue;
        // OpenMetrics: a counter's family has its name without the suffix that its samples have.
        const std::string metric = counter.metric;
        print_family(metric.substr(0, metric.rfind("_total")).c_str(), "counter", counter.help);
        for (const host::Device& device : snapshot.devices)
            std::printf("node_infiniband_%s{device=%s,port=\"1\"} %" PRIu64 "\n", counter.metric,
                        quoted(device.name.data()).c_str(),
                        counter.value(snapshot.ports[device.index]) * counter.unit);
    }
}

}  // namespace

int show_counters(const StatOptions& options) {
    observe::Snapshot snapshot;
    if (!look_once(observe::Depth::counters, snapshot)) return 1;
    if (options.pid != 0 && std::ranges::find(snapshot.programs, options.pid, &observe::Program::pid) ==
                                snapshot.programs.end()) {
        tell_that_there_is_no_program(std::to_string(options.pid));
        return 1;
    }
    const Json list = options.queue_pairs || options.pid != 0 ? of_queue_pairs(snapshot, options)
                                                              : of_ports(snapshot, options.all);
    if (options.json)
        std::printf("%s\n", json_text(list, 2).c_str());
    else
        print(list);
    return 0;
}

int show_metrics() {
    observe::Snapshot snapshot;
    if (!look_once(observe::Depth::counters, snapshot)) return 1;
    print_family("info", "gauge", "The device, its firmware and its network interface; always 1");
    for (const host::Device& device : snapshot.devices)
        std::printf(
            "node_infiniband_info{board_id=%s,device=%s,firmware_version=%s,hca_type=\"Verbena\"} 1\n",
            quoted(host::kBoardId).c_str(), quoted(device.name.data()).c_str(),
            quoted(VERBENA_VERSION).c_str());
    print_gauges(snapshot);
    print_counters(snapshot, observe::port_counters());
    print_counters(snapshot, observe::hw_counters());
    std::printf("# EOF\n");
    return 0;
}

}  // namespace verbena::tool
