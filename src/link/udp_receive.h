// Reads bursts from a receive socket: recvmmsg(), each message split into the packets that the kernel merged
// (UDP_GRO), with the addresses as the sender saw them. No allocation after the construction; the buffers are
// memory that is only touched as far as it fills.
//
// Thread safety: one thread at a time.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "link/link.h"
#include "link/whole_bursts.h"

namespace verbena::link {

class UdpReader {
   public:
    UdpReader(std::uint16_t destination_port, WholeBursts& whole);

    // Until the socket is empty or about `max` packets were delivered. Returns how many.
    unsigned read(int fd, Receiver& receiver, unsigned max);

    std::uint64_t truncated() const { return truncated_.load(std::memory_order_relaxed); }

   private:
    static constexpr unsigned kMessages = 8;
    static constexpr std::size_t kBuffer = 64 << 10;

    unsigned deliver(int fd, unsigned index, std::size_t size, Receiver& receiver);

    const std::uint16_t destination_port_;
    wire::RecentIcrcs icrcs_;
    WholeBursts& whole_;
    std::atomic<std::uint64_t> truncated_{0};
    // Messages asked for in the next call: one while they come singly, which spares the kernel a second look
    // at an empty queue in every ping-pong; more while calls come back full.
    unsigned batch_ = 1;
    std::unique_ptr<std::uint8_t[]> buffers_;
    struct Control {
        alignas(cmsghdr) std::array<std::uint8_t, 192> bytes;
    };
    std::array<Control, kMessages> controls_;
    std::array<sockaddr_in6, kMessages> sources_;  // or a sockaddr_in, which is shorter
    std::array<iovec, kMessages> iovecs_;
    std::array<mmsghdr, kMessages> headers_;
};

}  // namespace verbena::link
