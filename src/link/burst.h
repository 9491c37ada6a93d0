// Turns packets into sendmmsg() calls. Packets that follow each other to one receive queue and have one size
// become one segmentation burst (UDP_SEGMENT; the last may be shorter), several bursts one call.
//
// Packets are put together side by side, payloads copied, so that a burst is one piece of memory: the kernel
// takes a kilobyte that lies by itself at a third of the speed of a long piece, and memory that the program
// changes meanwhile cannot part from its ICRC.
//
// The receiving kernel steers the whole of a burst by its first segment, so it carries packets to QPs of one
// block (steering.h) only; and from one source port, unless it stays on this machine, where no network
// spreads flows over paths by it. Segment i of a burst leaves with IPv4 identification i (0 for a packet sent
// singly), and its ICRC counts that.
//
// Thread safety: none; a builder is one thread's at a time (UdpLink::borrow_sink).
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/own_file.h"
#include "base/socket_address.h"
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
    bool go_on(const wire::ShortPacket& packet) override;
    void flush() override;
    std::size_t pause() override { return bytes_ + parked_length(); }
    unsigned longest_run(const wire::Path&, std::uint32_t) override { return kMaxSegments; }

    const SendCounters& counters() const { return counters_; }

    static constexpr unsigned kMaxSegments = 64;       // what every kernel with UDP_SEGMENT takes
    static constexpr std::size_t kMaxBurst = 65'000;   // bytes; the IP packet's length has 16 bits
    static constexpr std::size_t kMaxBytes = 260'000;  // then a call is made: four full bursts

   private:
    static constexpr unsigned kMaxMessages = 16;
    static constexpr unsigned kMaxPackets = 256;

    struct Message {
        wire::Path wanted;  // the first packet's
        wire::Path path;    // with the port really used
        int fd;
        std::uint32_t block;
        std::uint8_t* bytes;
        std::size_t size;
        unsigned segments;
        unsigned most;  // segments, if all have one size
        std::size_t segment_size;
        wire::IcrcSeries icrc;  // of packets of that size
        bool may_grow;
        bool on_this_machine;
        const char* note;
    };

    const FilesAge files_;

    Message* growing();
    bool goes_on(const wire::OutPacket& packet);
    void go_on(const wire::OutPacket& packet);
    void begin(const wire::OutPacket& packet);
    void add(const wire::OutPacket& packet);
    bool park(const wire::OutPacket& packet);
    bool taken_whole(const wire::Path& path) const;
    bool greet(const wire::OutPacket& packet);
    void end_burst();
    // An acknowledgement that waits, for which the burst that was begun since has room.
    std::size_t parked_length() const { return is_parked_ ? parked_.header_length + wire::kIcrcLength : 0; }
    void release_parked();
    bool has_room(std::size_t length) const;
    bool joins(const wire::OutPacket& packet, std::size_t length) const;
    bool goes_along(const Message& message, std::uint32_t destination_qp, const wire::Path& path) const;
    Message& message_for(const wire::OutPacket& packet, std::size_t length);
    void start(const wire::OutPacket& packet, std::size_t length);
    void frame(Message& message, const wire::OutPacket& packet, std::uint32_t index, std::size_t length,
               wire::Pieces& payload);
    std::uint8_t* begin_frame(const wire::OutPacket& packet);
    void seal(Message& message, std::uint8_t* frame, wire::IcrcSeries& icrc, bool damaged);

    // Fills the kernel's structures for one message.
    struct Prepared {
        SocketAddress address;
        alignas(cmsghdr) std::array<std::uint8_t, 160> control;
    };
    void prepare(const Message& message, unsigned segments, Prepared& prepared, msghdr& header);
    void send_messages(unsigned first, unsigned end);
    void send_singly(const Message& message);
    void failed(const Message& message, int error);
    void observe(const Message& message);
    template <class Take>
    static void each_packet(const Message& message, Take&& take);

    SourcePorts& sources_;
    BurstPolicy& policy_;
    WholeBursts& whole_;
    const std::uint16_t destination_port_;
    wire::RecentIcrcs icrcs_;
    SendCounters counters_;
    int last_error_ = 0;  // an errno, which was told

    std::array<Message, kMaxMessages> messages_;
    unsigned message_count_ = 0;
    unsigned packet_count_ = 0;
    std::size_t bytes_ = 0;
    std::array<std::uint8_t, kMaxBytes + wire::kMaxHeaderLength> packets_;  // a header is copied whole

    wire::OutPacket parked_;  // an acknowledgement
    wire::Path parked_path_;
    bool is_parked_ = false;
    bool parked_has_company_ = false;  // a message was begun since

    std::array<Prepared, kMaxMessages> prepared_;
    std::array<iovec, kMaxMessages> pieces_;
    std::array<mmsghdr, kMaxMessages> headers_;
};

}  // namespace verbena::link
