// Clocks of two hosts differ by more than a packet takes. From packets that both saw, the smallest difference
// one way is the offset plus the shortest way, the other way minus it; half of the sum's difference is the
// offset.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "report/recording.h"

namespace verbena::report {
namespace {

using Index = std::size_t;
using link::Direction;

// Two captures that do not say from which hosts they are have one clock if they differ by less; nanoseconds.
constexpr std::int64_t kSameClock = 1'000'000;
constexpr std::int64_t kNoDifference = 2'000;  // between hosts; less is the way's own

struct Matched {
    Index left, arrived;
};

// What the writer of a capture says of a packet that a plan of faults let vanish.
bool was_dropped(const std::string& comment) { return comment.rfind("Verbena fault: drop", 0) == 0; }

// A packet by what it is, which a hash of 64 bits tells as well as the bytes.
std::size_t key_of(const link::CapturedPacket& packet) {
    auto add = [](std::size_t sum, const auto& bytes) {
        const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return sum * 31 + std::hash<std::string_view>()(view);
    };
    return add(add(add(0, packet.bytes), packet.path.source.bytes), packet.path.destination.bytes);
}

// A packet that left more often than it arrived is one that was sent again: the last ones arrived. `gone` are
// the copies to drop.
std::vector<Matched> match(const std::vector<RecordedPacket>& packets, std::vector<bool>& gone) {
    std::unordered_map<std::size_t, std::map<unsigned, std::vector<Index>>> seen;
    for (Index i = 0; i < packets.size(); i++)
        if (!was_dropped(packets[i].captured.comment))
            seen[key_of(packets[i].captured)][packets[i].file].push_back(i);
    std::vector<Matched> matched;
    for (auto& [key, files] : seen) {
        if (files.size() < 2) continue;
        // The sender's file is the one where it is outbound; where nobody says, the first.
        auto from = std::find_if(files.begin(), files.end(), [&](const auto& file) {
            return packets[file.second[0]].captured.direction == Direction::outbound;
        });
        if (from == files.end()) from = files.begin();
        for (auto& [file, indexes] : files) {
            if (file == from->first) continue;
            const std::size_t count = std::min(indexes.size(), from->second.size());
            for (std::size_t n = 0; n < count; n++) {
                const Index left = from->second[from->second.size() - count + n];
                gone[indexes[n]] = true;
                matched.push_back({left, indexes[n]});
            }
        }
    }
    return matched;
}

std::string host_of(const Recording& recording, unsigned file) {
    for (const Process& process : recording.processes)
        if (process.file == file && !process.host.empty()) return process.host;
    return {};
}

bool other_host(const Recording& recording, unsigned a, unsigned b) {
    const std::string one = host_of(recording, a), other = host_of(recording, b);
    return a != b && (one != other || one.empty());
}

// How much later file `b` says that it is than file `a`, nanoseconds.
std::optional<std::int64_t> offset(const Recording& recording, const std::vector<Matched>& matched,
                                   unsigned a, unsigned b) {
    std::optional<std::int64_t> there, back;
    for (const Matched& pair : matched) {
        const RecordedPacket &left = recording.packets[pair.left], &arrived = recording.packets[pair.arrived];
        const auto took = static_cast<std::int64_t>(arrived.captured.nanoseconds - left.captured.nanoseconds);
        if (left.file == a && arrived.file == b) there = std::min(there.value_or(took), took);
        if (left.file == b && arrived.file == a) back = std::min(back.value_or(took), took);
    }
    if (!there || !back) return std::nullopt;
    return (*there - *back) / 2;
}

void shift(Recording& recording, unsigned file, std::int64_t by) {
    auto move = [&](std::uint64_t& time) { time -= static_cast<std::uint64_t>(by); };
    auto of_file = [&](const Entry& entry) { return recording.processes[entry.process].file == file; };
    auto entries = [&](auto& list) {
        for (auto& entry : list)
            if (of_file(entry)) move(entry.time);
    };
    entries(recording.calls);
    entries(recording.completions);
    entries(recording.cm_events);
    entries(recording.async_events);
    entries(recording.transitions);
    for (auto& packet : recording.packets)
        if (packet.file == file) move(packet.captured.nanoseconds);
}

void correct_clocks(Recording& recording, const std::vector<Matched>& matched) {
    for (unsigned file = 1; file < recording.files.size(); file++) {
        if (!other_host(recording, 0, file)) continue;
        const auto ahead = offset(recording, matched, 0, file);
        if (!ahead || std::abs(*ahead) < (host_of(recording, file).empty() ? kSameClock : kNoDifference))
            continue;
        shift(recording, file, *ahead);
        char text[160];
        std::snprintf(text, sizeof text, ": clock %+.3f ms, corrected by the packets that both hosts saw",
                      static_cast<double>(*ahead) / 1e6);
        recording.remarks.push_back(recording.files[file] + text);
    }
}

// A packet to a host whose file has what arrived there, but not this one.
void mark_lost(Recording& recording, const std::vector<Matched>& matched) {
    struct Arrivals {
        unsigned file = 0;
        std::uint64_t last = 0;  // when the last one left: whoever recorded may have ended then
    };
    std::map<std::string, Arrivals> arrivals;  // by destination
    std::vector<bool> arrived(recording.packets.size(), false);
    auto address = [](const Gid& gid) { return std::string(gid.bytes.begin(), gid.bytes.end()); };
    for (const Matched& pair : matched) {
        const RecordedPacket &left = recording.packets[pair.left], &there = recording.packets[pair.arrived];
        arrived[pair.left] = true;
        if (left.captured.direction == Direction::outbound &&
            there.captured.direction == Direction::inbound) {
            Arrivals& known = arrivals[address(left.captured.path.destination)];
            known = {there.file, std::max(known.last, left.captured.nanoseconds)};
        }
    }
    for (Index i = 0; i < recording.packets.size(); i++) {
        RecordedPacket& packet = recording.packets[i];
        const auto known = arrivals.find(address(packet.captured.path.destination));
        if (known != arrivals.end() && known->second.file != packet.file && !arrived[i] &&
            packet.captured.nanoseconds < known->second.last &&
            packet.captured.direction == Direction::outbound)
            packet.lost = true;
    }
}

// A thread may wait for ever while others end the program. A program in which nobody did anything after a
// call that did not return hung in it.
void find_hung(Recording& recording) {
    std::vector<std::uint64_t> last(recording.processes.size(), 0);
    auto note = [&](const Entry& entry) { last[entry.process] = std::max(last[entry.process], entry.time); };
    for (const Call& call : recording.calls)
        if (call.finished) note(call);
    for (const Completion& completion : recording.completions) note(completion);
    for (const CmEvent& event : recording.cm_events) note(event);
    for (Call& call : recording.calls) call.hung = !call.finished && call.time >= last[call.process];
}

}  // namespace

void merge_recording(Recording& recording) {
    find_hung(recording);
    auto by_time = [](const auto& a, const auto& b) { return a.time < b.time; };
    if (recording.files.size() > 1) {
        std::vector<bool> gone(recording.packets.size(), false);
        const auto matched = match(recording.packets, gone);
        correct_clocks(recording, matched);
        mark_lost(recording, matched);
        std::vector<RecordedPacket> kept;
        for (Index i = 0; i < gone.size(); i++)
            if (!gone[i]) kept.push_back(std::move(recording.packets[i]));
        recording.packets = std::move(kept);
    }
    for (RecordedPacket& packet : recording.packets)
        if (was_dropped(packet.captured.comment)) packet.lost = true;
    std::stable_sort(recording.packets.begin(), recording.packets.end(), [](const auto& a, const auto& b) {
        return a.captured.nanoseconds < b.captured.nanoseconds;
    });
    std::stable_sort(recording.calls.begin(), recording.calls.end(), by_time);
    std::stable_sort(recording.completions.begin(), recording.completions.end(), by_time);
    std::stable_sort(recording.cm_events.begin(), recording.cm_events.end(), by_time);
    std::stable_sort(recording.async_events.begin(), recording.async_events.end(), by_time);
    std::stable_sort(recording.transitions.begin(), recording.transitions.end(), by_time);
}

}  // namespace verbena::report
