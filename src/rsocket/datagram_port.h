// A datagram socket's queue pair at one address of this host: UD, with a slot of memory for every send and
// receive.
//
// Thread safety: none; the socket locks.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <span>
#include <vector>

#include "rsocket/address.h"
#include "rsocket/completions.h"
#include "rsocket/datagram_peer_table.h"
#include "rsocket/registered_memory.h"
#include "rsocket/settings.h"

namespace verbena::rsocket {

inline constexpr std::uint32_t kSlot =
    2048;  // header and data; the other implementation's receivers have no more

class DatagramPort {
   public:
    // An address without a port.
    explicit DatagramPort(const Endpoint& source) : source_(source) {}
    ~DatagramPort();
    DatagramPort(const DatagramPort&) = delete;
    DatagramPort& operator=(const DatagramPort&) = delete;

    [[nodiscard]] int create(const Settings& settings);  // an errno

    const Endpoint& source() const { return source_; }
    ibv_context* context() const { return id_->verbs; }
    std::uint32_t interface() const { return interface_; }  // the index of the device's network interface
    std::uint32_t qpn() const { return id_->qp->qp_num; }
    Completions& completions() { return completions_; }

    // The way to an address, which is not asked whether it exists. An errno.
    [[nodiscard]] int reach(const Address& destination, Peer& peer);

    // A free slot to write a datagram into; nullptr: all are being sent.
    std::uint8_t* send_slot();
    bool can_send() const { return !free_.empty(); }
    bool all_sent() const { return free_.size() == sends_; }
    // The slot that send_slot() gave, `size` bytes of it.
    [[nodiscard]] int post_send(std::uint8_t* slot, std::uint32_t size, ibv_ah* handle, std::uint32_t qpn);

    struct Received {
        std::uint32_t slot;
        std::uint32_t size;  // header and data
    };
    // Handles completions; the datagrams that came are appended. They hold their slots until repost().
    void poll(std::vector<Received>& received);
    std::span<const std::uint8_t> bytes(const Received& received) const;
    void repost(std::uint32_t slot);

   private:
    [[nodiscard]] int find_device();
    [[nodiscard]] int post_receive(std::uint32_t slot);

    const Endpoint source_;
    rdma_cm_id* id_ = nullptr;
    std::uint32_t interface_ = 0;
    Completions completions_;
    std::uint32_t sends_ = 0;
    std::uint32_t inline_limit_ = 0;
    RegisteredMemory send_memory_, receive_memory_;
    std::vector<std::uint32_t> free_;  // send slots
};

}  // namespace verbena::rsocket
