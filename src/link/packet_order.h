// What a program did before it sent a packet happened before what its receiver does, since the kernel carried
// it, or a ring that each of them has mapped at an address of its own. ThreadSanitizer does not see that
// order between two queue pairs of one process and is told of it; elsewhere these are nothing.
#pragma once

#ifdef VERBENA_THREAD_SANITIZER
extern "C" {
void __tsan_release(void* address);
void __tsan_acquire(void* address);
}
#endif

namespace verbena::link {

#ifdef VERBENA_THREAD_SANITIZER
inline char packets_on_their_way;
inline void packets_leave() { __tsan_release(&packets_on_their_way); }
inline void packets_came() { __tsan_acquire(&packets_on_their_way); }
#else
inline void packets_leave() {}
inline void packets_came() {}
#endif

}  // namespace verbena::link
