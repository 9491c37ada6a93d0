// Memory that is not there: while a Shortage lives, its thread's allocations are refused, those that the
// libraries make among them (shortage.cpp replaces the C library's functions in this program).
//
// A sweep calls again and again, with the first allocation refused, with the second, and so on, until the
// call makes no more of them: each time it has to answer ENOMEM (EAGAIN, where a thread could not be made),
// or to do without, and to leave nothing behind.
#pragma once

#include <gtest/gtest.h>

#include <functional>

namespace verbena::shortage_test {

enum class Lasts { once, on };  // one allocation is refused, or all from that one on

class Shortage {
   public:
    // Begins behind the next `spared` allocations of this thread.
    explicit Shortage(unsigned spared = 0, Lasts lasts = Lasts::on);
    ~Shortage();
    Shortage(const Shortage&) = delete;
    Shortage& operator=(const Shortage&) = delete;

    unsigned refused() const;  // so far
};

// What a call has answered, as an errno value; 0: success.
using Call = std::function<int()>;
// As the calls of the libraries report: by NULL and errno, by -1 and errno.
template <class Thing>
int kept(Thing* made, Thing*& out) {
    out = made;
    return made ? 0 : errno;
}
inline int or_errno(int result) { return result == 0 ? 0 : errno; }

// `undo` takes back what a call has made. No descriptor more is open than before.
void sweep(const char* name, const Call& call, const Call& undo);
// A call whose success need not be taken back, by which the sweep ends.
void sweep_until(const char* name, const Call& call);

// The same for what a process does once: each time in a child of its own, which calls again afterwards.
void sweep_in_children(const char* name, const Call& call, const Call& undo);

// A call that has to succeed without any memory.
int without_memory(const Call& call);

}  // namespace verbena::shortage_test
