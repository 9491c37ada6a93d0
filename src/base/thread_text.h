// Where a thread keeps what it was told last, until it asks again. Not among the thread's own variables, for
// which there is little room (quick_thread_local.h).
//
// Thread safety: each thread has its own.
#pragma once

#include <cstddef>

namespace verbena {

inline constexpr std::size_t kThreadText = 512;  // bytes, the last one 0

enum class ThreadText : unsigned { reason, completion, work_completion, event };
inline constexpr unsigned kThreadTexts = 4;

// Empty at first. If there is no memory, threads share one. Leaves errno alone.
char* thread_text(ThreadText which);
// The same, but "" if the thread never asked for one.
const char* thread_text_so_far(ThreadText which);

}  // namespace verbena
