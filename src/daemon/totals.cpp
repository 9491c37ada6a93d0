#include "daemon/totals.h"

#include "wire/mad.h"
#include "wire/opcode.h"

namespace verbena::daemon {
namespace {

constexpr std::uint64_t kMadPacket =
    wire::kBthLength + wire::kDethLength + wire::kMadLength + wire::kIcrcLength;

}  // namespace

void Totals::program_ended(int tables) {
    ended_++;
    observe::Tables read;
    if (observe::read_tables(tables, observe::Depth::counters, read)) read.add_to(ports_);
}

void Totals::mad_sent(std::uint32_t device) {
    transport::QpCounters& counters = ports_[device].own;
    counters.packets_sent++;
    counters.bytes_sent += wire::kMadLength;
    counters.wire_bytes_sent += kMadPacket;
}

void Totals::mad_received(std::uint32_t device) {
    transport::QpCounters& counters = ports_[device].own;
    counters.packets_received++;
    counters.bytes_received += wire::kMadLength;
    counters.wire_bytes_received += kMadPacket;
}

void Totals::port_is(std::uint32_t device, bool active) {
    bool& before = active_[device];
    if (before && !active) ports_[device].link_downed++;
    before = active;
}

}  // namespace verbena::daemon
