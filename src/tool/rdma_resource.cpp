// rdma resource: the objects that programs have.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>

#include "base/reason.h"
#include "tool/look.h"
#include "tool/rdma_words.h"
#include "transport/attributes.h"

namespace verbena::tool {
namespace {

using adapter::ObjectKind;
using observe::Program;
using observe::Snapshot;

// One of a list: whose it is and on which device, to be filled.
Json start(const host::Device& device, bool link) {
    Json fields = {{"ifindex", device.index}, {"ifname", device.name.data()}};
    if (link) fields["port"] = 1;
    return fields;
}

const char* type_name(std::uint32_t service) {
    switch (static_cast<transport::Service>(service)) {
        case transport::Service::rc:
            return "RC";
        case transport::Service::uc:
            return "UC";
        case transport::Service::ud:
            return "UD";
        case transport::Service::xrc_send:
            return "XRC_INI";
        case transport::Service::xrc_receive:
            return "XRC_TGT";
        default:
            return "UNKNOWN";
    }
}

const char* state_name(std::uint32_t state) {
    constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state < std::size(kNames) ? kNames[state] : "UNKNOWN";
}

const char* state_name(cm::IdState state) {
    constexpr const char* kNames[] = {"IDLE",        "ADDR_BOUND",     "ADDR_QUERY",     "ADDR_RESOLVED",
                                      "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT",        "CONNECT",
                                      "DISCONNECT",  "LISTEN",         "DEVICE_REMOVAL", "DESTROYING"};
    const auto index = static_cast<std::size_t>(state);
    return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

const char* port_space_name(cm::PortSpace space) {
    switch (space) {
        case cm::PortSpace::ipoib:
            return "IPoIB";
        case cm::PortSpace::tcp:
            return "TCP";
        case cm::PortSpace::udp:
            return "UDP";
        case cm::PortSpace::ib:
            return "IB";
    }
    return "---";
}

std::string address_text(const cm::Endpoint& endpoint) {
    if (endpoint.family == 0) return {};
    const bool any4 = endpoint.family == AF_INET && endpoint.address.is_zero();
    return (any4 ? "0.0.0.0" : to_string(endpoint.address)) + ":" + std::to_string(endpoint.port);
}

// Of a program's protection domain; kNoDevice if it is not known.
std::uint32_t device_of_pd(const observe::Tables& tables, std::uint32_t pd) {
    for (const observe::Object& object : tables.objects)
        if (object.kind == ObjectKind::protection_domain && object.number == pd) return object.device;
    return adapter::kNoDevice;
}

void list_queue_pairs(const Program& program, const host::Device& device, Json& out) {
    for (const observe::QueuePair& qp : program.tables.queue_pairs) {
        if (qp.device != device.index) continue;
        Json fields = start(device, true);
        fields["lqpn"] = qp.number;
        fields["pdn"] = qp.pd;
        if (qp.service != static_cast<std::uint32_t>(transport::Service::ud)) fields["rqpn"] = qp.peer_qp;
        fields["type"] = type_name(qp.service);
        fields["state"] = state_name(qp.state);
        if (qp.service != static_cast<std::uint32_t>(transport::Service::ud)) fields["rq-psn"] = qp.rq_psn;
        fields["sq-psn"] = qp.sq_psn;
        if (qp.service != static_cast<std::uint32_t>(transport::Service::ud))
            fields["path-mig-state"] = "MIGRATED";
        add_program(fields, program);
        out.push_back(std::move(fields));
    }
}

std::size_t users_of_cq(const observe::Tables& tables, std::uint32_t cq) {
    std::size_t users = 0;
    for (const observe::QueuePair& qp : tables.queue_pairs)
        users += (qp.send_cq == cq) + (qp.receive_cq == cq);
    for (const observe::Object& object : tables.objects)
        users += object.kind == ObjectKind::shared_queue && object.cq == cq;
    return users;
}

std::size_t users_of_pd(const observe::Tables& tables, std::uint32_t pd) {
    std::size_t users = 0;
    for (const observe::QueuePair& qp : tables.queue_pairs) users += qp.pd == pd;
    for (const observe::Region& region : tables.regions) users += region.pd == pd;
    for (const observe::Object& object : tables.objects)
        users += object.kind == ObjectKind::shared_queue && object.pd == pd;
    return users;
}

void list_objects(const Program& program, const host::Device& device, ObjectKind kind, Json& out) {
    for (const observe::Object& object : program.tables.objects) {
        if (object.kind != kind || object.device != device.index) continue;
        Json fields = start(device, false);
        if (kind == ObjectKind::completion_queue) {
            fields["cqn"] = object.number;
            fields["cqe"] = object.size;
            fields["users"] = users_of_cq(program.tables, object.number);
            fields["ctxn"] = object.context;
        } else if (kind == ObjectKind::protection_domain) {
            fields["pdn"] = object.number;
            fields["users"] = users_of_pd(program.tables, object.number);
            fields["ctxn"] = object.context;
        } else if (kind == ObjectKind::shared_queue) {
            fields["srqn"] = object.number;
            fields["type"] = object.cq ? "XRC" : "BASIC";
            fields["pdn"] = object.pd;
            if (object.cq) fields["cqn"] = object.cq;
        } else {
            fields["ctxn"] = object.number;
        }
        add_program(fields, program);
        out.push_back(std::move(fields));
    }
}

void list_regions(const Program& program, const host::Device& device, bool details, Json& out) {
    for (const observe::Region& region : program.tables.regions) {
        if (device_of_pd(program.tables, region.pd) != device.index) continue;
        Json fields = start(device, false);
        fields["mrn"] = region.number;
        if (details) {
            std::array<char, 16> key;
            std::snprintf(key.data(), key.size(), "0x%x", region.rkey);
            fields["rkey"] = key.data();
            std::snprintf(key.data(), key.size(), "0x%x", region.lkey);
            fields["lkey"] = key.data();
        }
        fields["mrlen"] = region.length;
        fields["pdn"] = region.pd;
        add_program(fields, program);
        out.push_back(std::move(fields));
    }
}

void list_ids(const Snapshot& snapshot, const host::Device& device, Json& out) {
    for (const observe::Snapshot::Id& each : snapshot.ids) {
        const cm::IdSummary& id = each.id;
        const std::uint32_t pid = each.pid;
        // Who listens at every address listens on every device.
        const bool everywhere = id.device == cm::kNoDevice && id.state == cm::IdState::listen;
        if (id.device != device.index && !everywhere) continue;
        Json fields = start(device, true);
        fields["cm-idn"] = id.id;
        if (id.local_qpn) fields["lqpn"] = id.local_qpn;
        fields["qp-type"] = type_name(static_cast<std::uint32_t>(id.qp_type));
        fields["state"] = state_name(id.state);
        fields["ps"] = port_space_name(id.port_space);
        const auto found = std::find_if(snapshot.programs.begin(), snapshot.programs.end(),
                                        [pid](const Program& program) { return program.pid == pid; });
        fields["pid"] = pid;
        if (found != snapshot.programs.end()) fields["comm"] = found->tables.command;
        fields["src-addr"] = address_text(id.local);
        if (const std::string to = address_text(id.remote); !to.empty()) fields["dst-addr"] = to;
        out.push_back(std::move(fields));
    }
}

enum class Kind { qp, cq, mr, pd, cm_id, ctx, srq, none };

constexpr struct {
    Kind kind;
    const char* name;
} kKinds[] = {{Kind::pd, "pd"}, {Kind::cq, "cq"},   {Kind::qp, "qp"},  {Kind::cm_id, "cm_id"},
              {Kind::mr, "mr"}, {Kind::ctx, "ctx"}, {Kind::srq, "srq"}};

Json list(const Snapshot& snapshot, const host::Device& device, Kind kind, bool details) {
    Json out = Json::array();
    if (kind == Kind::cm_id) {
        list_ids(snapshot, device, out);
        return out;
    }
    for (const Program& program : snapshot.programs) {
        if (kind == Kind::qp)
            list_queue_pairs(program, device, out);
        else if (kind == Kind::mr)
            list_regions(program, device, details, out);
        else
            list_objects(program, device,
                         kind == Kind::cq    ? ObjectKind::completion_queue
                         : kind == Kind::pd  ? ObjectKind::protection_domain
                         : kind == Kind::srq ? ObjectKind::shared_queue
                                             : ObjectKind::context,
                         out);
    }
    return out;
}

// How many of each, one line per device.
int show_summary(const Snapshot& snapshot, const char* device, const RdmaOptions& options) {
    std::vector<const host::Device*> devices;
    if (!choose_devices(snapshot, device, devices)) return 1;
    Json all = Json::array();
    for (const host::Device* each : devices) {
        Json fields = start(*each, false);
        for (const auto& [kind, name] : kKinds) fields[name] = list(snapshot, *each, kind, false).size();
        all.push_back(std::move(fields));
    }
    print_objects(all, Title::summary, options);
    return 0;
}

}  // namespace

bool choose_devices(const Snapshot& snapshot, std::string wanted, std::vector<const host::Device*>& out) {
    if (wanted.ends_with("/1") || wanted.ends_with("/-")) wanted.resize(wanted.size() - 2);
    for (const host::Device& device : snapshot.devices)
        if (wanted.empty() || wanted == device.name.data()) out.push_back(&device);
    if (wanted.empty() || !out.empty()) return true;
    std::fprintf(stderr, "Wrong device name %s\n", wanted.c_str());
    return false;
}

void add_program(Json& fields, const Program& program) {
    fields["pid"] = program.pid;
    fields["comm"] = program.tables.command;
}

int show_resources(std::span<const char* const> words, const RdmaOptions& options) {
    if (!words.empty()) {
        if (!is_show(words[0])) return kNotOurs;
        words = words.subspan(1);
    }
    Kind kind = Kind::none;
    for (const auto& [each, name] : kKinds)
        if (!words.empty() && std::strcmp(words[0], name) == 0) kind = each;
    if (kind == Kind::none && words.size() > 1) return kNotOurs;
    Snapshot snapshot;
    if (!look_once(observe::Depth::everything, snapshot)) return 1;
    if (kind == Kind::none) return show_summary(snapshot, words.empty() ? "" : words[0], options);

    words = words.subspan(1);
    std::string wanted;
    if (!words.empty() && (means(words[0], "link") || means(words[0], "dev"))) {
        if (words.size() > 1) wanted = words[1];
        words = words.subspan(std::min<std::size_t>(words.size(), 2));
    }
    std::vector<const host::Device*> devices;
    if (!choose_devices(snapshot, wanted, devices)) return 1;
    Json all = Json::array();
    for (const host::Device* device : devices)
        for (Json& fields : list(snapshot, *device, kind, options.details)) all.push_back(std::move(fields));
    if (!filter(all, words)) {
        std::fprintf(stderr, "rdma: the name '%s' has no value\n", words.back());
        return 1;
    }
    const bool link = kind == Kind::qp || kind == Kind::cm_id;
    print_objects(all, link ? Title::link : Title::device, options);
    return 0;
}

}  // namespace verbena::tool
