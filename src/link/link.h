// How packets leave and arrive: the sockets of a process (udp), shared memory (local), the simulator's
// network, and wrappers around them (faults, capture).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "wire/icrc.h"
#include "wire/packet_sink.h"
#include "wire/path.h"

namespace verbena::link {

// One UDP payload from the wire. The ICRC has not been checked yet.
struct Datagram : wire::InPacket {
    const wire::Path* path = nullptr;  // as the sender saw it: source is the sender
    std::uint16_t destination_port = wire::kUdpPort;
    // Of its path and length, if somebody has begun it already, to be gone on with during the call; and the
    // identification that its sender probably gave it (burst.h).
    wire::IcrcSeries* icrc = nullptr;
    std::uint16_t likely_ip_id = 0;
    bool forwarded = false;  // another process got it first; it is not passed on again
    // From this host, not over a wire: its ICRC is neither filled in nor to be checked, and there may be
    // something beside it. A payload that lies elsewhere is not among the bytes, whatever follows the
    // headers.
    bool by_memory = false;
    bool followed = false;  // by another one of the same peer, which is there already, or so it says
    wire::Elsewhere* elsewhere = nullptr;
};

class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void datagram(const Datagram& datagram) = 0;
    // Most of what comes by memory. False: it was not taken, and is a datagram like others.
    virtual bool straight(const Datagram&) { return false; }
    // The same of several for one queue pair, of one opcode, that came one behind the other: how many of
    // them, from the first on, were taken.
    virtual std::size_t straight(std::span<const wire::InPacket>, const wire::Path&) { return 0; }
    // Of what comes by memory and was not taken: better left where it is for once, since it finds no receive
    // yet and its program has something to take, behind which it may post one.
    virtual bool is_early(const Datagram&) { return false; }
    // Some that came together: `all` has their bytes, `segment` (not 0) of each but the last, which may have
    // fewer.
    virtual void burst(const Datagram& all, std::size_t segment) {
        for (std::size_t at = 0; at == 0 || at < all.bytes.size(); at += segment)
            datagram(one_of_burst(all, at, segment));
    }

   protected:
    static Datagram one_of_burst(const Datagram& all, std::size_t at, std::size_t segment) {
        Datagram one = all;
        one.bytes = all.bytes.subspan(at, std::min(segment, all.bytes.size() - at));
        if (at > 0) one.likely_ip_id = static_cast<std::uint16_t>(at / segment);
        one.followed = at + segment < all.bytes.size();
        return one;
    }
};

class Link : public wire::PacketSink {
   public:
    static constexpr unsigned kSinks = 8;  // that may be borrowed at a time, if they are not the link itself

    // copy() of a link itself, unlike that of a sink: from any thread, also while receive() runs, and the
    // packet has left on return.

    // The same for acknowledgements that follow each other, by who makes progress: some of what it takes
    // leaves only with the next ones, or by end_row(), which comes before anything is locked or sent that
    // another thread may be at. One is lost if its peer ends meanwhile.
    virtual wire::PacketCopier& row() { return *this; }
    virtual void end_row() {}

    // Hands waiting datagrams to `receiver`, at most about `max` of them, without blocking. Returns how many.
    // One thread at a time.
    virtual unsigned receive(Receiver& receiver, unsigned max) = 0;

    // Whether the last receive() left something that it might have taken, so that what it took is answered
    // first. The same thread at a time.
    bool goes_on() const { return goes_on_; }
    // It has left a large message where it is, with whose sender we copy it: he goes on when he has the
    // answers to what came before.
    bool answers_first() const { return answers_first_; }

    // A file descriptor that is readable while datagrams wait (an epoll set), or -1.
    virtual int wait_fd() const = 0;

    // Bytes that the receive side can hold before it loses packets; what the path MTU we offer is capped by.
    virtual std::size_t receive_capacity() const = 0;

    // A sink for the calling thread alone, from borrow to return, so that two threads that send do not wait
    // for each other. Flush it before it is returned. The default is the link itself.
    virtual wire::PacketSink& borrow_sink() { return *this; }
    virtual void return_sink(wire::PacketSink&) {}

    // Around a sleep on wait_fd(), for links whose packets make no descriptor readable unless somebody
    // sleeps. What waits already ends the sleep. Any thread, several at once.
    virtual void enter_sleep() {}
    virtual void leave_sleep() {}

    // Somebody goes on calling receive(), and says so by still_polled() now and then, or this is called again
    // within a moment. Then what leaves need not make sure that a receiver that is just going to sleep sees
    // it: a later receive() does, after some in vain or after still_polled(), or the call that says that
    // nobody polls any more. One thread; not with a lock of the link's.
    virtual void set_polled(bool) {}
    // Is look_everywhere() as well. Any thread.
    virtual void still_polled() {}

    // The next receive() looks at everything that packets may come by, however busy one of them is. Any
    // thread.
    virtual void look_everywhere() {}

    // A datagram that belongs to the process that owns the QPN's block (a kernel or an adapter merged packets
    // of several queues): passed on, or lost. May be called while receive() runs.
    virtual void stray(const Datagram&, std::uint32_t /*destination_qp*/) {}

    // Segmentation bursts to this peer seem not to arrive; send it single packets from now on. Any thread.
    virtual void avoid_bursts(const Gid& /*destination*/) {}

    // Packets for the group arrive, by that interface, from now on, or do not any more. Not while receive()
    // runs. 0 or errno with a reason.
    virtual int join_multicast(const Gid& /*group*/, std::uint32_t /*interface_index*/) { return 0; }
    virtual int leave_multicast(const Gid& /*group*/, std::uint32_t /*interface_index*/) { return 0; }

   protected:
    bool goes_on_ = false, answers_first_ = false;  // the thread in receive()
};

}  // namespace verbena::link
