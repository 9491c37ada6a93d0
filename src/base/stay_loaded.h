// A library whose threads run must not leave the process: dlclose(3) would take their code away. Until it
// starts one it may.
//
// Thread safety: all calls.
#pragma once

#include <dlfcn.h>

namespace verbena {

// The library that `function` is in stays until the process ends.
inline void stay_loaded(void (*function)()) {
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(function), &info) != 0 && info.dli_fname)
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace verbena
