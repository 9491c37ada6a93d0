// The helper stands for the processor that an adapter has for itself. A fair scheduler gives it half of one
// that the program computes on, of which it needs some to be woken up; so it asks for three quarters, if it
// may ask at all (CAP_SYS_NICE, or RLIMIT_NICE). It wants them only while packets come and nobody polls.
#pragma once

namespace verbena::adapter {

inline constexpr int kPrecedence = 5;  // steps of nice(2) before the program's own, or as many as it may

// For the calling thread.
void take_precedence();

}  // namespace verbena::adapter
