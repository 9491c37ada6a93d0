// The names of the calls that the interposer stands in front of, for those who do not link it.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace verbena::interpose {

inline constexpr std::string_view kInterposedCalls[] = {
#define CALL(library, answer, flags, result, name, ...) #name,
#define NAMED_SLOT(table, answer, flags, name, shown, ...) shown,
#include "interpose/arity.h"
#include "interpose/calls.def"
#undef CALL
#undef NAMED_SLOT
    // Through the objects' own pointers (call.h).
    "ibv_wr_complete",
    "ibv_start_poll",
    "ibv_next_poll",
};

inline bool stands_in_front_of(std::string_view call) {
    return std::find(std::begin(kInterposedCalls), std::end(kInterposedCalls), call) !=
           std::end(kInterposedCalls);
}

}  // namespace verbena::interpose
