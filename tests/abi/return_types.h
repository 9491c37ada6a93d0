// What a return convention of scripts/gen-abi demands of the declared return type; see gen_return_types.py.
#pragma once

#include <type_traits>

#include "rdmacm/abi/public.h"
#include "verbs/abi/public.h"

enum class Convention { errno_, minus1_, negerrno_, null_, zero_, void_, text_, rereg_ };

template <Convention kConvention, class Result>
constexpr bool fits_type() {
    switch (kConvention) {
        case Convention::null_:
            return std::is_pointer_v<Result>;
        case Convention::text_:
            return std::is_same_v<Result, const char*>;
        case Convention::void_:
            return std::is_void_v<Result>;
        case Convention::errno_:
        case Convention::rereg_:
            return std::is_same_v<Result, int>;
        case Convention::minus1_:
        case Convention::negerrno_:
            return std::is_integral_v<Result>;
        case Convention::zero_:
            return std::is_integral_v<Result> || std::is_enum_v<Result>;
    }
    return false;
}

template <Convention kConvention, class Result, class... Arguments>
constexpr bool fits(Result (*)(Arguments...)) {
    return fits_type<kConvention, Result>();
}
template <Convention kConvention, class Result, class... Arguments>
constexpr bool fits(Result (*)(Arguments..., ...)) {
    return fits_type<kConvention, Result>();
}
