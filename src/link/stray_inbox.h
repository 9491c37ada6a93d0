// Where packets go that reached the wrong process. A kernel or an adapter may merge packets of one flow for
// several queue pairs into one delivery (GRO), and without steering the kernel spreads packets by a hash: who
// gets a packet for a QPN of another block passes it on to that block's inbox, with its addresses.
//
// Thread safety: StrayInbox one thread at a time; StraySender all calls.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/lock.h"
#include "link/link.h"
#include "link/named_inbox.h"

namespace verbena::link {

class StrayInbox {
   public:
    // nullptr with errno and a reason.
    static std::unique_ptr<StrayInbox> open(std::string_view fabric, std::uint32_t block, Trust trust);
    StrayInbox(const StrayInbox&) = delete;
    StrayInbox& operator=(const StrayInbox&) = delete;

    void abandon() { inbox_->abandon(); }

    int wait_fd() const { return inbox_->wait_fd(); }
    unsigned receive(Receiver& receiver, unsigned max);
    // Of other users, or malformed.
    std::uint64_t refused() const { return malformed_.load(std::memory_order_relaxed) + inbox_->refused(); }

   private:
    explicit StrayInbox(std::unique_ptr<NamedInbox> inbox);
    bool receive_one(Receiver& receiver);

    static constexpr std::size_t kBuffer = 16 << 10;

    const std::unique_ptr<NamedInbox> inbox_;
    std::atomic<std::uint64_t> malformed_{0};
    std::unique_ptr<std::uint8_t[]> buffer_;
};

class StraySender {
   public:
    StraySender(std::string_view fabric, Trust trust) : fabric_(fabric), trust_(trust) {}
    ~StraySender();
    StraySender(const StraySender&) = delete;
    StraySender& operator=(const StraySender&) = delete;

    // False if the packet is lost: nobody there, or the inbox is full.
    bool send(const Datagram& datagram, std::uint32_t block);

    // In a child after fork(), which is nobody's sender. Takes no lock.
    void abandon();

   private:
    static constexpr unsigned kConnections = 16;  // of blocks with as many different remainders

    struct Connection {
        int fd = -1;
        std::uint32_t block = 0;
    };
    void close_connection(Connection& connection);

    const std::string fabric_;
    const Trust trust_;
    Lock lock_;
    std::array<Connection, kConnections> connections_{};
};

}  // namespace verbena::link
