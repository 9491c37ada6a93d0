// rdma statistic: the counters of ports, and of queue pairs.
#include <cstdio>

#include "observe/counters.h"
#include "tool/look.h"
#include "tool/rdma_words.h"

namespace verbena::tool {
namespace {

using observe::Snapshot;

Json link_of(const host::Device& device) {
    return {{"ifindex", device.index}, {"ifname", device.name.data()}, {"port", 1}};
}

void add_counters(Json& fields, const adapter::PortTotals& totals) {
    for (const observe::Counter& counter : observe::hw_counters())
        fields[counter.name] = counter.value(totals);
}

Json of_ports(Snapshot& snapshot, const std::vector<const host::Device*>& devices) {
    Json all = Json::array();
    for (const host::Device* device : devices) {
        Json fields = link_of(*device);
        add_counters(fields, snapshot.ports[device->index]);
        all.push_back(std::move(fields));
    }
    return all;
}

// As if each queue pair were bound to a counter of its own, which has its number.
Json of_queue_pairs(const Snapshot& snapshot, const std::vector<const host::Device*>& devices) {
    Json all = Json::array();
    for (const host::Device* device : devices)
        for (const observe::Program& program : snapshot.programs)
            for (const observe::QueuePair& qp : program.tables.queue_pairs) {
                if (qp.device != device->index) continue;
                Json fields = link_of(*device);
                fields["cntn"] = qp.number;
                add_program(fields, program);
                adapter::PortTotals totals{};
                totals.own = qp.counters;
                add_counters(fields, totals);
                fields["lqpn"] = Json::array({qp.number});
                all.push_back(std::move(fields));
            }
    return all;
}

}  // namespace

int show_statistics(std::span<const char* const> words, const RdmaOptions& options) {
    const bool queue_pairs = !words.empty() && means(words[0], "qp");
    if (queue_pairs) words = words.subspan(1);
    if (!words.empty()) {
        if (!is_show(words[0])) return kNotOurs;
        words = words.subspan(1);
    }
    std::string wanted;
    if (!words.empty() && means(words[0], "link")) {
        if (words.size() > 1) wanted = words[1];
        words = words.subspan(words.size() > 1 ? 2 : 1);
    }
    Snapshot snapshot;
    if (!look_once(observe::Depth::counters, snapshot)) return 1;
    std::vector<const host::Device*> devices;
    if (!choose_devices(snapshot, wanted, devices)) return 1;
    Json all = queue_pairs ? of_queue_pairs(snapshot, devices) : of_ports(snapshot, devices);
    if (!filter(all, words)) {
        std::fprintf(stderr, "rdma: the name '%s' has no value\n", words.back());
        return 1;
    }
    print_objects(all, Title::link, options, true);
    return 0;
}

}  // namespace verbena::tool
