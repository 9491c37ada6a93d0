// For the few variables of a thread that each message looks at: their place is fixed when the library is
// loaded, so that reaching them costs nothing, where others cost a call. The room for that is small (some
// hundred bytes of all libraries that are loaded by dlopen): a few words, constant-initialised, and no more.
#pragma once

#define VERBENA_QUICK_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local
