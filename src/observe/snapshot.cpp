#include "observe/snapshot.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/reason.h"

namespace verbena::observe {
namespace {

constexpr unsigned kAttemptsAtPrograms = 4;  // while programs end

int read_programs(host::Connection& connection, Depth depth, Snapshot& out, std::uint64_t& ended) {
    for (std::uint32_t after = 0;;) {
        host::ProcessReply reply;
        int tables = -1;
        if (int error = host::ask(connection, host::Command::next_process, host::AfterRequest{after}, reply,
                                  -1, &tables))
            return error;
        ended = reply.ended;
        if (reply.session == 0) return 0;
        after = reply.session;
        Program program{reply.session, reply.pid, reply.user, {}};
        if (tables >= 0 && read_tables(tables, depth, program.tables)) {
            if (program.pid == 0) program.pid = program.tables.pid;
            out.programs.push_back(std::move(program));
        }
        if (tables >= 0) close(tables);
    }
}

int read_ids(host::Connection& connection, Snapshot& out) {
    for (std::uint32_t after = 0;;) {
        host::IdsReply reply;
        if (int error = host::ask(connection, host::Command::next_ids, host::AfterRequest{after}, reply))
            return error;
        if (reply.count == 0 || reply.count > reply.entries.size()) return 0;
        for (std::uint32_t i = 0; i < reply.count; i++) {
            const host::IdsReply::Entry& entry = reply.entries[i];
            out.ids.push_back({entry.id, entry.pid});
            after = entry.id.id;
        }
    }
}

int read_ports(host::Connection& connection, Snapshot& out, std::uint64_t& ended) {
    out.ports.clear();
    for (const Program& program : out.programs) program.tables.add_to(out.ports);
    for (const host::Device& device : out.devices) {
        host::PortReply reply;
        if (int error =
                host::ask(connection, host::Command::port_totals, host::PortRequest{device.index}, reply))
            return error;
        out.ports[device.index] += reply.totals;
        ended = reply.ended;
    }
    return 0;
}

}  // namespace

const host::Device* Snapshot::device(std::uint32_t index) const {
    const auto found = std::find_if(devices.begin(), devices.end(),
                                    [&](const host::Device& each) { return each.index == index; });
    return found == devices.end() ? nullptr : &*found;
}

int take_snapshot(host::Connection& connection, Depth depth, Snapshot& out) {
    std::uint64_t before = 0, after = 1;
    for (unsigned attempt = 0; attempt < kAttemptsAtPrograms && before != after; attempt++) {
        out = {};
        for (unsigned slot = 0; slot < host::kMaxDevices; slot++) {
            host::Device device;
            if (host::read_device(*connection.table, slot, device)) out.devices.push_back(device);
        }
        if (int error = read_programs(connection, depth, out, before)) return error;
        after = before;
        if (int error = read_ports(connection, out, after)) return error;
    }
    return depth == Depth::everything ? read_ids(connection, out) : 0;
}

}  // namespace verbena::observe
