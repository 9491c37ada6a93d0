// How packets leave and arrive: the sockets of a process (udp), shared memory (local), the simulator's network, and
// wrappers around them (faults, capture).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "wire/packet_sink.h"
#include "wire/path.h"

namespace verbena::link {

// One UDP payload from the wire: BTH to ICRC. The ICRC has not been checked yet.
struct Datagram {
    std::span<const std::uint8_t> bytes;  // valid during the call only
    const wire::Path* path = nullptr;     // as the sender saw it: source is the sender
    std::uint16_t destination_port = wire::kUdpPort;
};

class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void datagram(const Datagram& datagram) = 0;
};

class Link : public wire::PacketSink {
   public:
    // Hands waiting datagrams to `receiver`, at most about `max` of them, without blocking. Returns how many.
    // One thread at a time.
    virtual unsigned receive(Receiver& receiver, unsigned max) = 0;

    // A file descriptor that is readable while datagrams wait (an epoll set), or -1.
    virtual int wait_fd() const = 0;

    // Bytes that the receive side can hold before it loses packets; what the path MTU we offer is capped by.
    virtual std::size_t receive_capacity() const = 0;
};

}  // namespace verbena::link
