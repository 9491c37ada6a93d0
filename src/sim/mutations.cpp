#include "sim/mutations.h"

#include <charconv>

namespace verbena::sim {
namespace {

Mutation numbered(std::size_t number) { return static_cast<Mutation>(number); }

}  // namespace

std::vector<Mutation> all_mutations() {
    std::vector<Mutation> all;
    for (std::size_t i = 1; numbered(i) <= kLastOfOneThread; i++) all.push_back(numbered(i));
    return all;
}

Mutation find_mutation(std::string_view name) {
    for (const Mutation mutation : all_mutations())
        if (name == to_string(mutation)) return mutation;
    unsigned number = 0;
    const auto end = name.data() + name.size();
    if (const auto parsed = std::from_chars(name.data(), end, number); parsed.ptr != end)
        return Mutation::none;
    return numbered(number) <= kLastOfOneThread ? numbered(number) : Mutation::none;
}

}  // namespace verbena::sim
