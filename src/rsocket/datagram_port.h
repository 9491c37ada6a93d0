// A datagram socket's queue pair on one device: UD, with a slot of memory for every send and receive.
//
// Thread safety: none; the socket locks.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <span>
#include <vector>

#include "rsocket/completions.h"
#include "rsocket/registered_memory.h"
#include "rsocket/settings.h"

namespace verbena::rsocket {

inline constexpr std::uint32_t kSlot =
    2048;  // header and data; the other implementation's receivers have no more

class DatagramPort {
   public:
    // Takes the id, which has a device; `interface`: the index of that device's network interface.
    DatagramPort(rdma_cm_id* id, std::uint32_t interface) : id_(id), interface_(interface) {}
    ~DatagramPort();
    DatagramPort(const DatagramPort&) = delete;
    DatagramPort& operator=(const DatagramPort&) = delete;

    [[nodiscard]] int create(const Settings& settings);  // an errno

    ibv_context* context() const { return id_->verbs; }
    ibv_pd* pd() const { return id_->pd; }
    std::uint8_t port_number() const { return id_->port_num; }
    std::uint32_t interface() const { return interface_; }
    std::uint32_t qpn() const { return id_->qp->qp_num; }
    Completions& completions() { return completions_; }

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
    [[nodiscard]] int post_receive(std::uint32_t slot);

    rdma_cm_id* id_;
    std::uint32_t interface_;
    Completions completions_;
    std::uint32_t sends_ = 0;
    std::uint32_t inline_limit_ = 0;
    RegisteredMemory send_memory_, receive_memory_;
    std::vector<std::uint32_t> free_;  // send slots
};

}  // namespace verbena::rsocket
