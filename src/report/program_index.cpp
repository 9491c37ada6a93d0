#include "report/program_index.h"

#include <algorithm>
#include <cctype>

namespace verbena::report {
namespace {

bool in_a_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Calls take(name) for "id 1" and the like wherever it stands for itself: not in "grid 1".
template <class Take>
void for_each_object(std::string_view text, Take take) {
    constexpr std::size_t kKind = 2;
    for (std::size_t space = text.find(' '); space != std::string_view::npos;
         space = text.find(' ', space + 1)) {
        if (space < kKind || (space > kKind && in_a_word(text[space - kKind - 1]))) continue;
        const std::string_view kind = text.substr(space - kKind, kKind);
        if (kind != "id" && kind != "qp") continue;
        std::size_t end = space + 1;
        while (end < text.size() && in_a_word(text[end])) end++;
        if (end > space + 1) take(text.substr(space - kKind, end - space + kKind));
    }
}

void add_call(ProgramIndex& index, const Call& call, std::size_t place) {
    index.calls.push_back(place);
    if (call.depth == 0) index.outer_calls[call.thread].push_back(place);
    const auto take = [&](std::string_view name) {
        Places& places = index.calls_of[std::string(name)];
        if (places.empty() || places.back() != place) places.push_back(place);
    };
    for (const Pairs* pairs : {&call.arguments, &call.out})
        for (const auto& [name, value] : *pairs) for_each_object(value, take);
    for_each_object(call.result, take);
}

}  // namespace

std::vector<ProgramIndex> index_programs(const Recording& recording) {
    std::vector<ProgramIndex> all(recording.processes.size());
    for (std::size_t i = 0; i < recording.calls.size(); i++)
        add_call(all[recording.calls[i].process], recording.calls[i], i);
    for (std::size_t i = 0; i < recording.completions.size(); i++) {
        const Completion& completion = recording.completions[i];
        all[completion.process].completions.push_back(i);
        all[completion.process].completions_of[completion.qp].push_back(i);
    }
    for (std::size_t i = 0; i < recording.transitions.size(); i++) {
        const Transition& transition = recording.transitions[i];
        all[transition.process].transitions.push_back(i);
        all[transition.process].transitions_of[transition.qp].push_back(i);
    }
    return all;
}

const Call* outer_call(const Recording& recording, const ProgramIndex& index, const Call& call) {
    if (call.depth == 0) return &call;
    const Places& outer = ProgramIndex::find(index.outer_calls, call.thread);
    const auto behind = std::upper_bound(
        outer.begin(), outer.end(), call.time,
        [&](std::uint64_t time, std::size_t place) { return time < recording.calls[place].time; });
    if (behind == outer.begin()) return nullptr;
    const Call& found = recording.calls[*std::prev(behind)];
    return call.time <= found.time + found.duration ? &found : nullptr;
}

}  // namespace verbena::report
