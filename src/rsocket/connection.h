// The verbs objects of one stream: queue pair, completion queue with its channel, and the three pieces of
// memory (what is being sent, what was received, the list that the peer writes its grants into). It knows how
// messages are posted, not when.
//
// Thread safety: post_* from several threads (verbs order them); all else under the stream's lock.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <span>

#include "rsocket/completions.h"
#include "rsocket/registered_memory.h"
#include "rsocket/settings.h"
#include "rsocket/windows.h"

namespace verbena::rsocket {

// What a work request was, in the upper byte of wr_id; its amount below.
enum class Work : std::uint8_t { receive, data, control, grant, map, direct };
constexpr std::uint64_t work_id(Work work, std::uint32_t amount) {
    return static_cast<std::uint64_t>(work) << 56 | amount;
}
constexpr Work work_of(std::uint64_t wr_id) { return static_cast<Work>(wr_id >> 56); }
constexpr std::uint32_t amount_of(std::uint64_t wr_id) { return static_cast<std::uint32_t>(wr_id); }

class Connection {
   public:
    Connection() = default;
    ~Connection() { destroy(); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // Everything, with all receives posted, for an id that has a device. The id's queue pair is destroyed by
    // destroy(), not the id. An errno. `settings` becomes what was granted.
    [[nodiscard]] int create(rdma_cm_id* id, Settings& settings);
    void destroy();
    bool exists() const { return completions_.exists(); }

    Hello hello() const;
    void meet(const Hello& peer);

    ibv_context* context() const { return id_->verbs; }
    Completions& completions() { return completions_; }

    [[nodiscard]] int post_receives(unsigned count);
    // Data that lies in the send ring, or anywhere if it is inline.
    [[nodiscard]] int post_data(const void* data, const Target& to, bool inlined);
    // The same into a mapped buffer of the peer's, which is not told.
    [[nodiscard]] int post_direct(const void* data, const Target& to, bool inlined);
    [[nodiscard]] int post_control(Control control);
    [[nodiscard]] int post_grant(const ReceiveWindow::Grant& grant);
    [[nodiscard]] int post_map(unsigned index, const MappedTarget& entry);

    const RegisteredMemory& send_ring() const { return send_ring_; }
    const RegisteredMemory& receive_buffer() const { return receive_buffer_; }
    std::span<Target, kTargets> targets() const {
        return std::span<Target, kTargets>(static_cast<Target*>(static_cast<void*>(lists_.data())), kTargets);
    }
    std::span<const MappedTarget> map() const {
        return {static_cast<const MappedTarget*>(
                    static_cast<const void*>(lists_.data() + kTargets * sizeof(Target))),
                map_entries_};
    }
    unsigned peer_map_entries() const { return peer_.map_entries; }
    std::uint32_t inline_limit() const { return inline_limit_; }

   private:
    int post(std::uint64_t wr_id, ibv_wr_opcode opcode, const void* data, const Target& to, std::uint32_t imm,
             bool inlined);
    // Small things are posted inline if the queue pair can, else from a slot behind the send ring.
    int post_small(std::uint64_t wr_id, const void* data, const Target& to, std::uint32_t imm);

    rdma_cm_id* id_ = nullptr;
    Completions completions_;
    RegisteredMemory send_ring_, receive_buffer_, lists_, small_;
    unsigned small_next_ = 0;
    unsigned map_entries_ = 0;
    std::uint32_t inline_limit_ = 0;
    std::uint16_t credits_ = 0;  // of the peer's, at first

    Hello peer_;
    unsigned grant_slot_ = 1;
};

}  // namespace verbena::rsocket
