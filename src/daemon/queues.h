// The receive queues: the sockets of one SO_REUSEPORT group, a block of 4096 queue pair numbers each, made in
// index order when a program asks for one. We keep a duplicate of every socket, so a program's death moves
// nothing; its block waits until the time-wait of everything that it may have connected is over, then goes to
// the next program.
//
// Queue 0 is the daemon's own (QP1, unknown numbers), and the last block is never given out (0xFFFFFF lies in
// it).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/descriptor.h"
#include "base/time.h"

namespace verbena::daemon {

class Queues {
   public:
    // `steering` off: the kernel spreads packets over the queues by a hash, and programs pass them on to each
    // other.
    struct Setup {
        std::uint16_t port = 0;  // 0: any free one
        bool gro = true;         // for the programs' queues
        bool steering = true;
    };
    // Opens queue 0. 0 or an errno with a reason (EADDRINUSE).
    int open(const Setup& setup);

    std::uint16_t port() const { return port_; }
    bool takes_ipv6() const;
    int descriptor(std::uint32_t queue) const { return queues_[queue].socket.get(); }
    std::size_t receive_buffer() const;
    std::size_t in_use() const;

    // A queue for a program: its number. 0 or an errno with a reason (ENOSPC).
    int take(pid_t owner, Time now, std::uint32_t& queue);
    // Its program is gone or gives it back.
    void give_back(std::uint32_t queue, Time now);
    // A number of a closed connection; keeps its block from being given out again before.
    void quarantine(std::uint32_t qp_number, Time until);

   private:
    struct Queue {
        Descriptor socket;
        bool taken = false;
        pid_t owner = 0;
        Time free_at = 0;
    };
    int grow();

    Setup setup_;
    std::uint16_t port_ = 0;
    std::vector<Queue> queues_;
};

}  // namespace verbena::daemon
