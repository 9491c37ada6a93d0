// What the generated stubs answer: the error of a call that nobody implements, in that call's own return
// convention, with a reason that names the call (base/reason.h). The conventions are those of the manual
// pages; scripts/gen-abi lists them. Stubs take no arguments: a C caller cleans up what it passed, on every
// ABI that the libraries build for.
//
// Thread safety: any thread.
#pragma once

#include <cerrno>
#include <cstdint>

#include "base/reason.h"

namespace verbena::abi {

struct Why {
    int error;
    const char* text;
};

inline constexpr Why not_supported{EOPNOTSUPP, "this call is not supported"};
// Binaries of 2006 and 2007 pass objects of other layouts; see symbols.txt, node IBVERBS_1.0.
inline constexpr Why obsolete{ENOSYS,
                              "the program was built for the structures of libibverbs 1.0; rebuild it"};

inline int answer_errno(const char* name, const Why& why) {
    Call call(name);
    return fail(why.error, "%s", why.text);
}

inline long answer_negerrno(const char* name, const Why& why) { return -answer_errno(name, why); }

inline long answer_minus1(const char* name, const Why& why) {
    answer_errno(name, why);
    return -1;
}

inline void* answer_null(const char* name, const Why& why) {
    answer_errno(name, why);
    return nullptr;
}

inline std::uint64_t answer_zero(const char* name, const Why& why) {
    answer_errno(name, why);
    return 0;
}

inline void answer_void(const char* name, const Why& why) { answer_errno(name, why); }

inline const char* answer_text(const char* name, const Why& why) {
    answer_errno(name, why);
    return "unknown";
}

// ibv_rereg_mr answers with an enumeration of its own and leaves the cause in errno.
inline int answer_rereg(const char* name, const Why& why) {
    constexpr int kRegErrCmd = -4;  // IBV_REREG_MR_ERR_CMD
    answer_errno(name, why);
    return kRegErrCmd;
}

inline void answer_quiet() {}

}  // namespace verbena::abi
