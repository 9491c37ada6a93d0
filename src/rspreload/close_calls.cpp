// The ways in which a program closes descriptors. One that nobody saw would leave a rsocket under a number
// that is another file's before long.
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>

#include "rspreload/config.h"
#include "rspreload/entries.h"
#include "rspreload/real.h"
#include "rspreload/sets.h"

using namespace verbena::rspreload;

namespace {

constexpr unsigned kUnshare = 2;  // CLOSE_RANGE_UNSHARE; the other flag closes nothing

void forget(int fd) {
    before_closing(fd);
    remove(fd);
    remove_set(fd);
}

void forget_range(unsigned first, unsigned last) {
    constexpr auto kLast = static_cast<unsigned>(kMostDescriptors - 1);
    for (unsigned fd = first; fd <= std::min(last, kLast); fd++) forget(static_cast<int>(fd));
}

// Before close_range(). `works`: the kernel has the call.
template <class Call>
void forget_if_closed(unsigned first, unsigned last, unsigned flags, Call call) {
    if (first > last || (flags & ~kUnshare) != 0) return;
    const int before = errno;
    if (call(~0u, ~0u, 0) == 0) forget_range(first, last);
    errno = before;
}

#if defined(__x86_64__)
long system_call(long number, long a, long b, long c, long d, long e, long f) {
    register long fourth asm("r10") = d;
    register long fifth asm("r8") = e;
    register long sixth asm("r9") = f;
    long result;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                 : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
long system_call(long number, long a, long b, long c, long d, long e, long f) {
    register long which asm("x8") = number;
    register long first asm("x0") = a;
    register long second asm("x1") = b;
    register long third asm("x2") = c;
    register long fourth asm("x3") = d;
    register long fifth asm("x4") = e;
    register long sixth asm("x5") = f;
    asm volatile("svc 0"
                 : "+r"(first)
                 : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                 : "memory");
    return first;
}
#endif

// What a program that ends has not closed, the kernel closes.
[[gnu::destructor]] void close_all() {
    if (!fork_support()) return;
    for (std::size_t fd = 0; fd < kMostDescriptors; fd++) before_closing(static_cast<int>(fd));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int close(int fd) {
    forget(fd);
    return real().close(fd);
}

int close_range(unsigned first, unsigned last, int flags) noexcept {
    if (!real().close_range) {
        errno = ENOSYS;
        return -1;
    }
    forget_if_closed(first, last, static_cast<unsigned>(flags), real().close_range);
    return real().close_range(first, last, flags);
}

void closefrom(int first) noexcept {
    forget_range(static_cast<unsigned>(std::max(first, 0)), ~0u);
    if (real().closefrom) real().closefrom(first);
}

int fclose(FILE* stream) {
    forget(fileno(stream));
    return real().fclose(stream);
}

// Event loops close by number (libuv). All others go on to the kernel from here, without a look at what the
// C library has: memory allocators call before that can be looked up.
#if defined(__x86_64__) || defined(__aarch64__)
long syscall(long number, ...) noexcept {
    va_list arguments;
    va_start(arguments, number);
    long values[6];
    for (long& value : values) value = va_arg(arguments, long);
    va_end(arguments);
    const auto call = [&](long which, long a, long b, long c) {
        const long result = system_call(which, a, b, c, values[3], values[4], values[5]);
        if (result >= 0 || result < -4095) return result;
        errno = static_cast<int>(-result);
        return -1L;
    };
    if (number == SYS_close) forget(static_cast<int>(values[0]));
#ifdef SYS_close_range
    if (number == SYS_close_range)
        forget_if_closed(static_cast<unsigned>(values[0]), static_cast<unsigned>(values[1]),
                         static_cast<unsigned>(values[2]), [&](unsigned first, unsigned last, int flags) {
                             return call(number, static_cast<long>(first), static_cast<long>(last), flags);
                         });
#endif
    return call(number, values[0], values[1], values[2]);
}
#endif

}  // extern "C"
#pragma GCC visibility pop
