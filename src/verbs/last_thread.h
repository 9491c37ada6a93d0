// The end of a process whose threads end one by one. The last one to go ends the process, and the C library
// finds it by counting; it counts the library's own threads, too, which never go. So once the first thread
// has left by pthread_exit(3), a thread of ours looks whether any but ours are left, and else ends the
// process as the C library does: exit(0).
//
// Thread safety: all calls.
#pragma once

namespace verbena::verbs {

// By the process's first thread, which mostly is who loads the library; others' calls do nothing.
void notice_when_the_first_thread_leaves();

// A thread of the library runs from now on: the engine's (adapter/engine.h), which counts its own.
void own_thread_runs();

// Any other of the library's: by itself, at its begin and its end.
void own_thread_begins();
void own_thread_ends();

}  // namespace verbena::verbs
