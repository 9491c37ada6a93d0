// link::Link over the simulated network. Packets become the very bytes that the UDP link sends, ICRC
// included, and consecutive packets of one flow and size count up the IPv4 identification as a segmentation
// burst does.
//
// It may also play a link to peers of the same host: packets then carry asides and may be as large as it
// says, and the payload of a large one may have to be fetched, which fails now and then: of a payload that
// stays where it is (wire::Aside) always, of another SEND's sometimes.
//
// Thread safety: none; one per simulated process.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "link/link.h"
#include "sim/network.h"

namespace verbena::sim {

class SimLink final : public link::Link {
   public:
    SimLink(Network& network, Inbox& inbox, bool bursts, std::size_t largest_payload = 0,
            unsigned longest_run = 1)
        : network_(network),
          inbox_(inbox),
          bursts_(bursts),
          largest_payload_(largest_payload),
          longest_run_(longest_run) {}

    void send(const wire::OutPacket& packet) override;
    bool copy(const wire::OutPacket& packet) override {
        if (largest_payload_ == 0) return false;
        send(packet);
        flush();
        return true;
    }
    void flush() override;
    std::size_t pause() override;
    unsigned receive(link::Receiver& receiver, unsigned max) override;
    std::size_t largest_payload(const wire::Path&, std::uint32_t, bool stays) override {
        return stays && largest_payload_ > 0 ? kLargestFetched : largest_payload_;
    }
    unsigned longest_run(const wire::Path&, std::uint32_t) override {
        return largest_payload_ > 0 ? 1 : longest_run_;
    }
    int wait_fd() const override { return -1; }
    int join_multicast(const Gid& group, std::uint32_t) override {
        network_.join(inbox_, group);
        return 0;
    }
    int leave_multicast(const Gid& group, std::uint32_t) override {
        network_.leave(inbox_, group);
        return 0;
    }
    std::size_t receive_capacity() const override { return inbox_.capacity; }

    // Where the requester wants a part of an answer, and by which right (wire::Aside::placed).
    struct Place {
        std::uint32_t requester;
        std::uint64_t right;
        iovec there;
    };
    using Stores = std::function<bool(const wire::Path& of_requester, const Place&, const std::uint8_t*)>;
    Stores stores;

    std::uint64_t packets_sent() const { return packets_sent_; }
    std::uint64_t corrupted_received() const { return corrupted_received_; }

   private:
    static constexpr unsigned kMaxSegments = 64;
    static constexpr std::size_t kLargestFetched = std::size_t{1} << 20;  // link/local_reference.h

    class Fetched;
    class Stored;
    void send_frame(Frame frame);
    void deliver(link::Receiver& receiver, const Frame& frame);
    bool joins(const Frame& frame) const;

    Network& network_;
    Inbox& inbox_;
    const bool bursts_;
    const std::size_t largest_payload_;  // bytes; 0: a wire
    const unsigned longest_run_;         // packets
    unsigned fetched_ = 0, several_ = 0;
    std::vector<Frame> pending_;
    std::size_t segment_size_ = 0;
    std::uint16_t segments_ = 0;  // of the burst that the last frame belongs to
    std::uint64_t packets_sent_ = 0;
    std::uint64_t corrupted_received_ = 0;
};

}  // namespace verbena::sim
