// The daemon's one thread: waits for descriptors and for one deadline, and calls who asked.
//
// A handler may add and remove any descriptor, its own included; what was removed is not called any more, not
// even for an event that the same wait reported.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "base/descriptor.h"
#include "base/time.h"

namespace verbena::daemon {

class Loop {
   public:
    using Handler = std::function<void(std::uint32_t events)>;  // EPOLLIN, EPOLLOUT, EPOLLHUP, ...

    Loop();

    // 0 or an errno.
    int add(int fd, std::uint32_t events, Handler handler);
    void change(int fd, std::uint32_t events);
    void remove(int fd);  // before it is closed

    // Waits until something is ready or `deadline` has come, and serves what is ready. Returns the number of
    // handlers called.
    unsigned run_once(Time deadline);

   private:
    struct Entry {
        int fd;
        Handler handler;
    };
    Descriptor epoll_;
    std::uint64_t next_token_ = 1;
    std::unordered_map<int, std::uint64_t> tokens_;  // by descriptor
    std::unordered_map<std::uint64_t, std::shared_ptr<Entry>> entries_;
};

}  // namespace verbena::daemon
