// For tests: links of this process, each as if it were a process of its own, over a wire that notes what
// comes its way.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "link/local_link.h"
#include "wire/byte_order.h"
#include "wire/opcode.h"

namespace verbena::link::testing {

class NotedWire final : public Link {
   public:
    NotedWire() : fd_(eventfd(0, EFD_CLOEXEC)) {}
    ~NotedWire() override { close(fd_); }
    void send(const wire::OutPacket&) override { sent++, waiting++; }
    void flush() override { waiting = 0; }
    std::size_t pause() override { return waiting; }
    unsigned receive(Receiver&, unsigned) override {
        looks++;
        return 0;
    }
    int wait_fd() const override { return fd_; }
    std::size_t receive_capacity() const override { return 1 << 20; }

    unsigned sent = 0, waiting = 0, looks = 0;

   private:
    const int fd_;
};

class Kept final : public Receiver {
   public:
    void datagram(const Datagram& datagram) override {
        EXPECT_TRUE(datagram.by_memory);
        if (datagram.elsewhere && !answer.empty()) {
            EXPECT_EQ(datagram.elsewhere->length(), answer.size());
            stored = datagram.elsewhere->store(0, reinterpret_cast<const std::uint8_t*>(answer.data()));
            return;
        }
        if (datagram.elsewhere && fetches) {
            std::string& text = texts.emplace_back(datagram.elsewhere->length(), ' ');
            const iovec into{text.data(), text.size()};
            EXPECT_TRUE(datagram.elsewhere->fetch(0, {&into, 1}));
            return;
        }
        // BTH, payload, ICRC
        texts.emplace_back(datagram.bytes.begin() + 12, datagram.bytes.end() - 4);
    }
    std::size_t straight(std::span<const wire::InPacket> packets, const wire::Path& path) override {
        offered.push_back(packets.size());
        const std::size_t taken = std::min(packets.size(), takes_together);
        for (const wire::InPacket& packet : packets.first(taken)) {
            Datagram one;
            one.bytes = packet.bytes;
            one.path = &path;
            one.by_memory = true;
            datagram(one);
        }
        return taken;
    }
    bool is_early(const Datagram& datagram) override {
        return std::string(datagram.bytes.begin() + 12, datagram.bytes.end() - 4) == early;
    }
    bool fetches = false;
    std::string answer;  // to READs that say where a part of it goes
    bool stored = false;
    std::size_t takes_together = 0;
    std::string early;
    std::vector<std::size_t> offered;
    std::vector<std::string> texts;
};

// The memory of a peer that is this process.
class OwnMemory final : public PeerMemory {
   public:
    Fetched fetch(std::uint32_t, std::span<const iovec> from, std::span<const iovec> into) const override {
        std::memcpy(into[0].iov_base, from[0].iov_base, from[0].iov_len);
        return Fetched::done;
    }
    bool store(const Place& place, int, std::span<const std::uint8_t> from, LocalMark&) const override {
        std::memcpy(reinterpret_cast<void*>(static_cast<std::uintptr_t>(place.address)), from.data(),
                    from.size());
        return true;
    }
};

inline const std::string& fabric() {
    static const std::string name = "test-" + std::to_string(getpid());
    return name;
}

inline const Gid kLoopback = Gid::from_ipv4(0x7f000001);
inline const Gid kElsewhere = Gid::from_ipv4(0x0a090807);

struct End {
    explicit End(std::uint32_t number, const std::string& name = fabric(), int (*follow)(pid_t) = open_pidfd)
        : block(number) {
        segment = memfd_create("tables", MFD_CLOEXEC);
        link = LocalLink::create(
            wire,
            {.fabric = name, .segment_fd = segment, .nonce = number, .open_memory = {}, .follow = follow});
        EXPECT_NE(link, nullptr);
        EXPECT_EQ(link->peers().add_block(block), 0);
    }
    ~End() {
        link.reset();
        close(segment);
    }

    static wire::OutPacket packet_to(std::uint32_t qp, const wire::Path& path, wire::Opcode opcode,
                                     const iovec& payload) {
        wire::OutPacket packet;
        packet.path = &path;
        packet.header = {};
        packet.header[0] = static_cast<std::uint8_t>(opcode);
        wire::store_be24(packet.header.data() + 5, qp);
        const bool asks = opcode == wire::Opcode::rc_read_request;
        packet.header_length = static_cast<std::uint8_t>(asks ? wire::header_length(opcode) : 12);
        packet.payload = {&payload, 1};
        return packet;
    }
    bool is_woken() const {
        pollfd waiting{link->wait_fd(), POLLIN, 0};
        return poll(&waiting, 1, 0) == 1;
    }
    // As a thread does that has found nothing. False: far too long.
    bool sleep() {
        constexpr int kFarTooLong = 20'000;  // ms
        link->enter_sleep();
        pollfd waiting{link->wait_fd(), POLLIN, 0};
        const bool ended = poll(&waiting, 1, kFarTooLong) != 0;
        link->leave_sleep();
        return ended;
    }
    void post(std::uint32_t qp, const std::string& text, const Gid& to = kLoopback,
              wire::Opcode opcode = wire::Opcode::rc_send_only, std::uint32_t psns = 1, bool stays = false) {
        wire::Path path;
        path.source = kLoopback;
        path.destination = to;
        posted.push_back(text);  // what stays is read later
        const iovec piece{posted.back().data(), posted.back().size()};
        wire::OutPacket packet = packet_to(qp, path, opcode, piece);
        packet.aside.psns = psns;
        packet.aside.stays = stays;
        wire::PacketSink& sink = link->borrow_sink();
        if (psns > 1) sink.largest_payload(path, qp, stays);  // who sends such packets has asked
        sink.send(packet);
        sink.flush();
        link->return_sink(sink);
    }
    // Published together.
    void post_together(std::uint32_t qp, const std::vector<std::string>& texts) {
        wire::Path path;
        path.source = path.destination = kLoopback;
        wire::PacketSink& sink = link->borrow_sink();
        for (const std::string& text : texts) {
            const iovec piece{const_cast<char*>(text.data()), text.size()};
            sink.send(packet_to(qp, path, wire::Opcode::rc_send_only, piece));
        }
        sink.flush();
        link->return_sink(sink);
    }
    unsigned receive() {
        link->look_everywhere();
        return link->receive(kept, 100);
    }
    bool take_alone(bool takes = true) {
        return link->take_alone([&](const Datagram& datagram) {
            if (takes) kept.datagram(datagram);
            return takes;
        });
    }
    LocalPeers& peers() { return link->peers(); }
    std::uint32_t qp() const { return block << kBlockBits | 5; }

    const std::uint32_t block;
    int segment;
    NotedWire wire;
    std::unique_ptr<LocalLink> link;
    Kept kept;
    std::deque<std::string> posted;
};

inline void introduce(End& left, End& right) {
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::asked);
    right.receive();
    left.receive();
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::yes);
    EXPECT_EQ(right.peers().meet(kLoopback, left.qp()), LocalPeers::Met::yes);
}

}  // namespace verbena::link::testing
