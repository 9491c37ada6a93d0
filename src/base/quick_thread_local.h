// For the few variables of a thread that each message looks at: their place is fixed when the library is
// loaded, so that reaching them costs nothing, where others cost a call. All of a thread's variables of a
// library that has one such lie there, and the room is small (some 1.5 KiB for everything that is loaded by
// dlopen): without it the library cannot be loaded. So a few words, constant-initialised, and none that are
// large beside them, which quiet_load_test watches.
#pragma once

#define VERBENA_QUICK_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local
