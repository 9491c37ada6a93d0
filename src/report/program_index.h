// What a recording has of each program, and of each object of it, found in one pass: conversations may be
// thousands, and each asks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "report/recording.h"

namespace verbena::report {

using Places = std::vector<std::size_t>;  // in the recording's lists, in their order

struct ProgramIndex {
    Places calls, completions, transitions;
    std::unordered_map<std::string, Places> calls_of;  // that name "id 1", "qp 0x11": no other objects
    std::unordered_map<std::uint32_t, Places> completions_of, transitions_of;  // by queue pair
    std::unordered_map<long, Places> outer_calls;  // of a thread: those that are not made inside another

    template <class Map>
    static const Places& find(const Map& map, const typename Map::key_type& key) {
        static const Places none;
        const auto found = map.find(key);
        return found == map.end() ? none : found->second;
    }
};

// Of a recording whose entries are in order of time (merge_recording). One for each of its processes.
std::vector<ProgramIndex> index_programs(const Recording& recording);

// The call of the program's own inside which this one was made, or itself; nullptr: unknown.
const Call* outer_call(const Recording& recording, const ProgramIndex& index, const Call& call);

}  // namespace verbena::report
