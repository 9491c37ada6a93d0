// Whom a datagram socket knows the way to. Anybody can send to a socket from any address, and a program may
// send to any number of them, so both are limited: who was not heard of the longest is forgotten, and met
// anew with the next datagram. Whom the program sends to is not displaced by those who only send to it.
//
// Thread safety: none; the socket locks.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "rsocket/wire.h"

namespace verbena::rsocket {

class DatagramPort;

struct DestroyHandle {
    void operator()(ibv_ah* handle) const { ibv_destroy_ah(handle); }
};
using AddressHandle = std::unique_ptr<ibv_ah, DestroyHandle>;

struct Peer {
    DatagramPort* port = nullptr;
    std::uint32_t largest = 0;  // bytes of a message
    AddressHandle handle;
    std::uint32_t qpn = 0;  // 0: not told yet
};

class PeerTable {
   public:
    enum class Speaker : std::uint8_t { peer, program };  // who gives cause to look
    static constexpr std::size_t kMostStrangers = 256;    // to whom the program has sent nothing
    static constexpr std::size_t kMostKnown = 4096;

    // A peer stays where it is until find() or add() is called again.
    Peer* find(const Endpoint& endpoint, Speaker speaker);
    Peer& add(const Endpoint& endpoint, Peer peer, Speaker speaker);

   private:
    struct Entry {
        Endpoint endpoint;
        Peer peer;
        bool known;
    };
    using Entries = std::list<Entry>;  // the last used one first
    struct Order {
        bool operator()(const Endpoint& a, const Endpoint& b) const;
    };

    void limit(Entries& entries, std::size_t most);

    Entries strangers_, known_;
    std::map<Endpoint, Entries::iterator, Order> places_;
};

}  // namespace verbena::rsocket
