// Where packets go that reached the wrong process. A kernel or an adapter may merge packets of one flow for
// several queue pairs into one delivery (GRO), and without steering the kernel spreads packets by a hash: who
// gets a packet for a QPN of another block passes it on to that block's inbox, an abstract unix datagram
// socket, with its addresses.
//
// The name contains the fabric's id, which the daemon draws at random and tells its clients only, so that
// nobody else can take an inbox's name first. The receiver accepts packets of its own user and of root only,
// by the credentials that the kernel attaches.
//
// Thread safety: StrayInbox one thread at a time; StraySender all calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "link/link.h"

namespace verbena::link {

// The abstract name, leading zero byte included.
std::string stray_name(std::string_view fabric, std::uint32_t block);

class StrayInbox {
   public:
    // nullptr with errno and a reason.
    static std::unique_ptr<StrayInbox> open(std::string_view fabric, std::uint32_t block);
    ~StrayInbox();
    StrayInbox(const StrayInbox&) = delete;
    StrayInbox& operator=(const StrayInbox&) = delete;

    // In a child after fork(): a name is taken as long as anybody has its descriptor, and the next owner of
    // the block shall have it. Nothing is received any more.
    void abandon();

    int fd() const { return fd_; }
    unsigned receive(Receiver& receiver, unsigned max);
    std::uint64_t refused() const {
        return refused_.load(std::memory_order_relaxed);
    }  // foreign user, or malformed

   private:
    explicit StrayInbox(int fd);
    bool receive_one(Receiver& receiver);

    static constexpr std::size_t kBuffer = 16 << 10;

    int fd_;
    std::atomic<std::uint64_t> refused_{0};
    std::unique_ptr<std::uint8_t[]> buffer_;
};

class StraySender {
   public:
    explicit StraySender(std::string_view fabric);
    ~StraySender();
    StraySender(const StraySender&) = delete;
    StraySender& operator=(const StraySender&) = delete;

    // False if the packet is lost: nobody there, or the inbox is full.
    bool send(const Datagram& datagram, std::uint32_t block);

   private:
    const std::string fabric_;
    int fd_;
};

}  // namespace verbena::link
