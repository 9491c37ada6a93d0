// No exception crosses the C ABI: what a public call makes is made here, and where there is no memory for
// all of it, the call has failed with ENOMEM.
//
//     return unless_out_of_memory([&] { return make_it(...); });
//
// make_it() holds in smart pointers what it has made so far.
#pragma once

#include <cerrno>
#include <cstddef>
#include <new>
#include <type_traits>

#include "base/reason.h"

namespace verbena {

// What `make` returns: an errno value, or a pointer of any kind.
template <class Make>
auto unless_out_of_memory(Make make) -> decltype(make()) {
    try {
        return make();
    } catch (const std::bad_alloc&) {
        const int error = fail(ENOMEM, "no memory");
        if constexpr (std::is_constructible_v<decltype(make()), std::nullptr_t>)
            return nullptr;
        else
            return error;
    }
}

// The same for what returns a number, or -1 with errno.
template <class Make>
auto minus_one_if_out_of_memory(Make make) -> decltype(make()) {
    try {
        return make();
    } catch (const std::bad_alloc&) {
        return fail_minus_one(ENOMEM, "no memory");
    }
}

}  // namespace verbena
