// Turns packets into sendmmsg() calls. Packets that follow each other to one queue pair and have one size
// become one segmentation burst (UDP_SEGMENT; the last may be shorter), several bursts one call; headers and
// payload are gathered by iovec, the payload is not copied.
//
// A burst carries packets of one QP only, because the receiving kernel steers the whole of it by its first
// segment. Segment i of a burst leaves with IPv4 identification i (0 for a packet sent singly), and its ICRC
// counts that. What this gives up: the ICRC is computed when the packet is taken, the kernel copies the
// payload at flush(); memory that changes in between makes the receiver drop the packet (OutPacket::snapshot
// is the way out).
//
// Thread safety: none; a builder is one thread's at a time (UdpLink::borrow_sink).
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "link/burst_policy.h"
#include "link/source_ports.h"
#include "link/whole_bursts.h"
#include "wire/icrc.h"
#include "wire/packet_sink.h"
#include "wire/run.h"

namespace verbena::link {

// Read by others at any time.
struct SendCounters {
    std::atomic<std::uint64_t> packets{0};
    std::atomic<std::uint64_t> bursts{0};   // of two packets or more
    std::atomic<std::uint64_t> refused{0};  // bursts that the kernel did not take, sent singly
    std::atomic<std::uint64_t> lost{0};     // packets that the kernel did not take
};

class BurstBuilder final : public wire::PacketSink {
   public:
    BurstBuilder(SourcePorts& sources, BurstPolicy& policy, WholeBursts& whole,
                 std::uint16_t destination_port);

    void send(const wire::OutPacket& packet) override;
    void flush() override;
    unsigned longest_run(const wire::Path&, std::uint32_t) override { return kMaxSegments; }

    const SendCounters& counters() const { return counters_; }

    static constexpr unsigned kMaxSegments = 64;       // what every kernel with UDP_SEGMENT takes
    static constexpr std::size_t kMaxBurst = 65'000;   // bytes; the IP packet's length has 16 bits
    static constexpr std::size_t kMaxBytes = 260'000;  // then a call is made: four full bursts

   private:
    static constexpr unsigned kMaxMessages = 16;
    static constexpr unsigned kMaxPackets = 256;
    static constexpr unsigned kMaxPieces = 1024;                       // UIO_MAXIOV
    static constexpr std::size_t kFrame = wire::kMaxHeaderLength + 8;  // header, pad and ICRC of one packet
    static constexpr std::size_t kSnapshots = 64 << 10;

    struct Message {
        wire::Path path;  // with the port really used
        std::uint16_t wanted_port;
        int fd;
        std::uint32_t destination_qp;
        unsigned first_piece, pieces;
        unsigned segments;
        std::size_t segment_size, bytes;
        wire::IcrcStart icrc;  // of packets of that size
        bool may_grow;
        const char* note;
    };

    void add(const wire::OutPacket& packet);
    bool park(const wire::OutPacket& packet);
    bool taken_whole(const wire::Path& path) const;
    bool greet(const wire::OutPacket& packet);
    void release_parked();
    bool has_room(const wire::OutPacket& packet, std::size_t length) const;
    bool joins(const wire::OutPacket& packet, std::size_t length) const;
    Message& message_for(const wire::OutPacket& packet, std::size_t length);
    void start(const wire::OutPacket& packet, std::size_t length);
    void frame(Message& message, const wire::OutPacket& packet, std::uint32_t index, std::size_t length,
               wire::Pieces& payload);
    void append(Message& message, const void* data, std::size_t size);

    // Fills the kernel's structures for one message.
    struct Prepared {
        sockaddr_in6 address;
        alignas(cmsghdr) std::array<std::uint8_t, 160> control;
    };
    void prepare(const Message& message, unsigned segments, Prepared& prepared, msghdr& header);
    void send_messages(unsigned first, unsigned end);
    void send_singly(const Message& message);
    void failed(const Message& message, int error);
    void observe(const Message& message);
    // The next `size` bytes of a message, as pieces of their own; the cursor moves on.
    struct Cursor {
        unsigned piece;
        std::size_t offset;
    };
    unsigned cut(const Message& message, Cursor& cursor, std::size_t size,
                 std::array<iovec, kMaxPieces>& out) const;

    SourcePorts& sources_;
    BurstPolicy& policy_;
    WholeBursts& whole_;
    const std::uint16_t destination_port_;
    SendCounters counters_;

    std::array<Message, kMaxMessages> messages_;
    unsigned message_count_ = 0;
    std::array<iovec, kMaxPieces> pieces_;
    unsigned piece_count_ = 0;
    std::array<std::uint8_t, kMaxPackets * kFrame> frames_;
    std::size_t frames_used_ = 0;
    unsigned packet_count_ = 0;
    std::size_t bytes_ = 0;
    std::array<std::uint8_t, kSnapshots> snapshots_;
    std::size_t snapshots_used_ = 0;

    wire::OutPacket parked_;  // an acknowledgement
    bool is_parked_ = false;
    bool parked_has_company_ = false;  // a message was begun since

    std::array<Prepared, kMaxMessages> prepared_;
    std::array<mmsghdr, kMaxMessages> headers_;
    std::array<iovec, kMaxPieces> cut_;
};

}  // namespace verbena::link
