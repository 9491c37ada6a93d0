// What the machine itself takes to wake who sleeps, after two milliseconds in which nothing happened: one way
// by an eventfd, and back by another, for which the asker polls. (Where wake-ups follow each other at once,
// as in a ping-pong, no processor has fallen asleep.)
//
//     bare_wake [COUNT]        prints ms there and back, median
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr auto kSilence = std::chrono::milliseconds(2);

using Clock = std::chrono::steady_clock;

int make_eventfd(int flags) {
    const int fd = eventfd(0, flags);
    if (fd < 0) fail("eventfd");
    return fd;
}
void wake(int fd) { tell(fd, std::uint64_t{1}); }

}  // namespace

int main(int words, char** word) {
    const unsigned count = words > 1 ? static_cast<unsigned>(std::stoul(word[1])) : 400;
    const int there = make_eventfd(0), back = make_eventfd(EFD_NONBLOCK);
    const pid_t child = start_on(1, [&] {
        for (std::uint64_t woken; read(there, &woken, sizeof woken) > 0;) wake(back);
    });
    stay_on(0);
    std::vector<double> ms;
    for (unsigned n = 0; n < count; n++) {
        std::this_thread::sleep_for(kSilence);
        const auto begin = Clock::now();
        wake(there);
        for (std::uint64_t woken; read(back, &woken, sizeof woken) < 0;) continue;
        ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    }
    std::nth_element(ms.begin(), ms.begin() + count / 2, ms.end());
    std::printf("%.4f ms\n", ms[count / 2]);
    end(child);
    return 0;
}
