// The sending sockets of a process: a few per address family, bound to UDP source ports that the flows ask
// for (wire/path.h), opened when first used. Different ports let the network spread flows; when all are in
// use, a flow shares one. None is connected: the kernel numbers the IPv4 packets of a connected socket from a
// counter that nobody else knows, and the ICRC covers those numbers.
//
// Thread safety: all calls; a look-up takes no lock once its socket is open.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace verbena::link {

class SourcePorts {
   public:
    struct Source {
        int fd = -1;
        std::uint16_t port = 0;  // the one it is bound to, perhaps not the one wanted; the ICRC covers it
    };

    SourcePorts() = default;
    ~SourcePorts();
    SourcePorts(const SourcePorts&) = delete;
    SourcePorts& operator=(const SourcePorts&) = delete;

    // fd -1 if no socket can be had.
    Source find(bool ipv4, std::uint16_t wanted);
    // That the family has one, while there is somebody to tell. 0, or an errno with a reason if the process
    // lacks what it takes: descriptors, memory.
    int provide(bool ipv4, std::uint16_t wanted);

   private:
    static constexpr unsigned kPerFamily = 8;

    struct Family {
        struct Entry {
            std::uint16_t wanted, port;
            int fd;
        };
        std::array<Entry, kPerFamily> entries{};
        std::atomic<unsigned> count{0};  // entries below are complete
    };

    static const Family::Entry* look_up(const Family& family, std::uint16_t wanted);
    Source open(Family& family, bool ipv4, std::uint16_t wanted);

    Family families_[2];
    std::mutex lock_;
    int last_error_ = 0;  // an errno, which was told
};

}  // namespace verbena::link
