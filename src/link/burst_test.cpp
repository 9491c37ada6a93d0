// Bursts that the kernel refuses, and peers that are spared bursts for a while.
#include "link/burst.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "base/features.h"
#include "link/steering.h"
#include "link/udp_receive.h"
#include "wire/icrc.h"

namespace verbena::link {
namespace {

class Verifier : public Receiver {
   public:
    void datagram(const Datagram& datagram) override {
        std::uint32_t ip_id = 99;
        if (wire::icrc_verify(*datagram.path, datagram.destination_port, datagram.bytes, &ip_id) ==
                wire::IcrcCheck::good &&
            ip_id == 0)
            good++;
        else
            bad++;
    }
    unsigned good = 0, bad = 0;
};

// A builder and the queue of this host that its packets come to.
struct Loop {
    Loop() {
        EXPECT_GE(queue, 0);
        path.source = path.destination = Gid::from_ipv4(0x7f000001);
    }
    ~Loop() { close(queue); }
    void receive(Receiver& receiver) {
        UdpReader reader(port, whole);
        while (reader.read(queue, receiver, 1000) > 0) {
        }
    }

    const int queue = open_group_socket(0, true);
    const std::uint16_t port = bound_port(queue);
    SourcePorts sources;
    BurstPolicy policy{true};
    WholeBursts whole;
    BurstBuilder builder{sources, policy, whole, port};
    wire::Path path;
};

TEST(BurstTest, ARefusedBurstLeavesAsSinglePackets) {
    Loop loop;
    // Without UDP checksums the kernel does not segment.
    const int on = 1;
    const int fd = loop.sources.find(true, loop.path.udp_source_port).fd;
    ASSERT_EQ(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);

    std::vector<std::uint8_t> payload(700, 5);
    wire::OutPacket packet;
    packet.path = &loop.path;
    packet.header.fill(0);
    packet.header_length = 12;
    const iovec pieces[2] = {{payload.data(), 300}, {payload.data() + 300, 400}};
    for (unsigned i = 0; i < 5; i++) {
        packet.header[11] = static_cast<std::uint8_t>(i);
        packet.payload = pieces;
        if (i == 4) packet.payload = {};  // the burst's short last packet
        loop.builder.send(packet);
    }
    loop.builder.flush();
    EXPECT_EQ(loop.builder.counters().refused, 1u);
    EXPECT_EQ(loop.builder.counters().lost, 0u);
    EXPECT_FALSE(loop.policy.allowed(loop.path.destination));

    Verifier verifier;
    loop.receive(verifier);
    EXPECT_EQ(verifier.good, 5u);
    EXPECT_EQ(verifier.bad, 0u);
}

class GoodPackets : public Receiver {
   public:
    void datagram(const Datagram& datagram) override {
        if (wire::icrc_verify(*datagram.path, datagram.destination_port, datagram.bytes) ==
            wire::IcrcCheck::good)
            packets.emplace_back(datagram.bytes.begin(), datagram.bytes.end());
    }
    std::vector<std::vector<std::uint8_t>> packets;
};

// 100 packets of 600 bytes and 40 of 3000, as runs and each by itself; a burst ends within a run.
TEST(BurstTest, ARunLeavesAsItsPackets) {
    for (const auto& [packets, size] : {std::pair{100u, std::size_t{600}}, {40u, std::size_t{3000}}}) {
        std::vector<std::uint8_t> payload(packets * size);
        for (std::size_t i = 0; i < payload.size(); i++) payload[i] = static_cast<std::uint8_t>(i * 31 >> 3);
        const iovec pieces[2] = {{payload.data(), 1000}, {payload.data() + 1000, payload.size() - 1000}};
        std::vector<std::vector<std::uint8_t>> arrived[2];
        for (const bool as_run : {false, true}) {
            Loop loop;
            wire::OutPacket packet;
            packet.path = &loop.path;
            packet.header.fill(0);
            packet.header_length = wire::kBthLength;
            wire::Bth bth;
            bth.opcode = wire::Opcode::rc_write_middle;
            bth.psn = 0xfffff0;
            bth.ack_request = true;
            wire::emit_bth(bth, packet.header.data());
            if (as_run) {
                packet.payload = pieces;
                packet.aside.psns = packets;
                loop.builder.send(packet);
            }
            for (std::uint32_t i = 0; i < packets && !as_run; i++) {
                bth.psn = (0xfffff0 + i) & 0xffffff;
                bth.ack_request = i + 1 == packets;
                wire::emit_bth(bth, packet.header.data());
                const iovec piece{payload.data() + i * size, size};
                packet.payload = {&piece, 1};
                loop.builder.send(packet);
                if (i % 8 == 7) loop.builder.flush();  // also where a burst ends
            }
            loop.builder.flush();
            EXPECT_EQ(loop.builder.counters().packets, packets);
            GoodPackets collector;
            loop.receive(collector);
            arrived[as_run] = std::move(collector.packets);
        }
        ASSERT_EQ(arrived[0].size(), packets);
        ASSERT_EQ(arrived[1].size(), packets);
        for (std::uint32_t i = 0; i < packets; i++) {  // the ICRC counts the place in the burst
            for (auto* list : {&arrived[0], &arrived[1]})
                (*list)[i].resize((*list)[i].size() - wire::kIcrcLength);
            EXPECT_EQ(arrived[0][i], arrived[1][i]) << i;
        }
    }
}

// Packets of eight bytes in turn to as many queue pairs as there are paths; the bursts that come of it.
std::uint64_t bursts_of(Loop& loop, const std::vector<wire::Path>& paths, std::uint32_t apart) {
    const std::uint64_t before = loop.builder.counters().bursts;
    for (std::uint32_t i = 0; i < 30; i++) {
        const auto qp = static_cast<std::uint32_t>(i % paths.size());
        const std::uint8_t payload[8] = {};
        const iovec piece{const_cast<std::uint8_t*>(payload), sizeof payload};
        wire::Bth bth;
        bth.opcode = wire::Opcode::rc_send_only;
        bth.destination_qp = 0x5000 + qp * apart;
        bth.psn = i;
        wire::OutPacket packet;
        packet.path = &paths[qp];
        packet.header_length = wire::kBthLength;
        packet.payload = {&piece, 1};
        wire::emit_bth(bth, packet.header.data());
        loop.builder.send(packet);
    }
    loop.builder.flush();
    GoodPackets collector;
    loop.receive(collector);
    EXPECT_EQ(collector.packets.size(), 30u) << "with good ICRCs";
    return loop.builder.counters().bursts - before;
}

TEST(BurstTest, QueuePairsOfOneReceiveQueueShareABurst) {
    Loop loop;
    std::vector<wire::Path> paths(3, loop.path);
    EXPECT_EQ(bursts_of(loop, paths, 1), 1u);
    EXPECT_EQ(bursts_of(loop, paths, kBlockSize), 0u) << "another process's, which the kernel steers by";
    for (unsigned i = 0; i < 3; i++) paths[i].udp_source_port += static_cast<std::uint16_t>(i);
    EXPECT_EQ(bursts_of(loop, paths, 1), 1u) << "on one machine flows are not spread";
    for (wire::Path& path : paths) path.destination = Gid::from_ipv4(0x7f000002);
    EXPECT_EQ(bursts_of(loop, paths, 1), 0u) << "a network may spread them";
    for (wire::Path& path : paths) path.udp_source_port = loop.path.udp_source_port;
    EXPECT_EQ(bursts_of(loop, paths, 1), 1u);
    paths.resize(2);
    paths[1].traffic_class = 0x20;
    EXPECT_EQ(bursts_of(loop, paths, 1), 0u);
}

// What is like the packet before, and nothing else.
TEST(BurstTest, AShortPacketGoesOnWithTheBurst) {
    Loop loop;
    const std::array<std::uint8_t, 16> payload{1, 2, 3, 4, 5, 6, 7, 8, 9};
    wire::ShortPacket packet{};
    packet.path = &loop.path;
    packet.destination_qp = 5;
    packet.bth[1] = wire::to_be32(5);
    packet.payload = payload.data();
    packet.length = 9;
    packet.pad_count = 3;
    EXPECT_FALSE(loop.builder.go_on(packet)) << "there is no burst";

    wire::OutPacket first;
    first.path = &loop.path;
    first.header.fill(0);
    std::memcpy(first.header.data(), packet.bth.data(), wire::kBthLength);
    first.header_length = wire::kBthLength;
    first.pad_count = 3;
    const iovec piece{const_cast<std::uint8_t*>(payload.data()), 9};
    first.payload = {&piece, 1};
    loop.builder.send(first);
    for (std::uint32_t psn = 1; psn < BurstBuilder::kMaxSegments; psn++) {
        packet.bth[2] = wire::to_be32(psn);
        EXPECT_TRUE(loop.builder.go_on(packet));
    }
    EXPECT_FALSE(loop.builder.go_on(packet)) << "the burst is full";
    loop.builder.flush();

    loop.builder.send(first);
    packet.length = 13;
    EXPECT_FALSE(loop.builder.go_on(packet)) << "longer";
    packet.length = 9;
    packet.destination_qp = 5 + kBlockSize;
    EXPECT_FALSE(loop.builder.go_on(packet)) << "of another receive queue";
    packet.destination_qp = 5;
    wire::Path elsewhere = loop.path;
    elsewhere.destination = Gid::from_ipv4(0x7f000002);
    packet.path = &elsewhere;
    EXPECT_FALSE(loop.builder.go_on(packet));
    packet.path = &loop.path;
    loop.builder.flush();
    EXPECT_FALSE(loop.builder.go_on(packet)) << "it has left";

    EXPECT_EQ(loop.builder.counters().bursts, 1u);
    GoodPackets collector;
    loop.receive(collector);
    ASSERT_EQ(collector.packets.size(), BurstBuilder::kMaxSegments + 1u);
    for (std::uint32_t psn = 0; psn < BurstBuilder::kMaxSegments; psn++) {
        const std::vector<std::uint8_t>& bytes = collector.packets[psn];
        EXPECT_EQ(wire::BthWords(bytes.data()).psn(), psn);
        EXPECT_EQ(std::memcmp(bytes.data() + wire::kBthLength, payload.data(), 12), 0)
            << "9 bytes, and the pad";
    }
}

// Of a process that has more flows than sockets, some have one port in the end.
TEST(BurstTest, FlowsOfOneSocketShareABurst) {
    Loop loop;
    loop.path.destination = Gid::from_ipv4(0x7f000002);
    std::vector<wire::Path> paths(9, loop.path);
    for (unsigned i = 0; i < 9; i++) paths[i].udp_source_port += static_cast<std::uint16_t>(i);
    bursts_of(loop, paths, 1);
    const wire::Path &last = paths[8], &shares = paths[last.udp_source_port % 8];
    ASSERT_EQ(loop.sources.find(true, last.udp_source_port).port,
              loop.sources.find(true, shares.udp_source_port).port);
    EXPECT_EQ(bursts_of(loop, {last, shares}, 1), 1u);
}

// A datagram's path is its request's, whose place the next one takes.
TEST(BurstTest, APathMayChangeBeforeTheFlush) {
    Loop loop;
    std::vector<wire::Path> path(1, loop.path);
    wire::OutPacket packet;
    packet.path = path.data();
    packet.header.fill(0);
    packet.header_length = wire::kBthLength;
    for (const std::uint32_t destination : {0x7f000001, 0x7f000002, 0x7f000001}) {
        path[0].destination = Gid::from_ipv4(destination);
        loop.builder.send(packet);
    }
    path.clear();
    path.shrink_to_fit();
    loop.builder.flush();
    struct : Receiver {
        void datagram(const Datagram& datagram) override { to.push_back(datagram.path->destination.ipv4()); }
        std::vector<std::uint32_t> to;
    } receiver;
    loop.receive(receiver);
    EXPECT_EQ(receiver.to, (std::vector<std::uint32_t>{0x7f000001, 0x7f000002, 0x7f000001}));
}

// Behind a request to its queue pair, but a response to another one in between.
TEST(BurstTest, AnAcknowledgementComesBeforeTheRequestItRodeBehind) {
    if (!features().gro) GTEST_SKIP() << "no burst comes in one piece";
    Loop loop;
    const auto send = [&](wire::Opcode opcode, std::uint32_t qp, std::uint8_t header_length, iovec payload) {
        wire::Bth bth;
        bth.opcode = opcode;
        bth.destination_qp = qp;
        wire::OutPacket packet;
        packet.path = &loop.path;
        packet.header.fill(0);
        wire::emit_bth(bth, packet.header.data());
        packet.header_length = header_length;
        packet.payload = {&payload, payload.iov_len > 0 ? std::size_t{1} : 0};
        loop.builder.send(packet);
    };
    std::uint8_t bytes[8] = {};
    send(wire::Opcode::rc_ack, 1, 16, {});
    send(wire::Opcode::rc_send_only, 1, 12, {bytes, 8});
    send(wire::Opcode::rc_read_response_only, 2, 16, {bytes, 4});
    loop.builder.flush();
    EXPECT_EQ(loop.builder.counters().bursts, 1u);
    GoodPackets collector;
    loop.receive(collector);
    ASSERT_EQ(collector.packets.size(), 3u);
    EXPECT_EQ(static_cast<wire::Opcode>(collector.packets[0][0]), wire::Opcode::rc_ack);
}

TEST(BurstTest, PacketsWithoutARouteAreLostAndCounted) {
    SourcePorts sources;
    BurstPolicy policy(true);
    WholeBursts whole;
    BurstBuilder builder(sources, policy, whole, 4791);
    wire::Path path;
    path.source = Gid::from_ipv4(0xc6336401);  // 198.51.100.1: nobody's, so not ours to send from
    path.destination = Gid::from_ipv4(0x7f000001);
    wire::OutPacket packet;
    packet.path = &path;
    packet.header.fill(0);
    packet.header_length = 12;
    for (unsigned i = 0; i < 3; i++) builder.send(packet);
    builder.flush();
    EXPECT_EQ(builder.counters().lost, 3u);
    builder.send(packet);
    builder.flush();
    EXPECT_EQ(builder.counters().lost, 4u);
}

TEST(UdpReaderTest, TakesWhatIsNoPacket) {
    const int queue = open_group_socket(0, true);
    ASSERT_GE(queue, 0);
    const std::uint16_t port = bound_port(queue);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int sender = socket(AF_INET, SOCK_DGRAM, 0);
    for (const std::size_t size : {0u, 1u, 16u, 0u})
        ASSERT_EQ(sendto(sender, "0123456789abcdef", size, 0, reinterpret_cast<sockaddr*>(&to), sizeof to),
                  static_cast<ssize_t>(size));
    struct Sizes : Receiver {
        void datagram(const Datagram& datagram) override { seen.push_back(datagram.bytes.size()); }
        std::vector<std::size_t> seen;
    } receiver;
    WholeBursts whole;
    UdpReader reader(port, whole);
    unsigned delivered = 0;
    while (const unsigned more = reader.read(queue, receiver, 100)) delivered += more;
    EXPECT_EQ(receiver.seen, (std::vector<std::size_t>{0, 1, 16, 0}));
    EXPECT_EQ(delivered, 4u);
    close(sender);
    close(queue);
}

// How often a peer is refused bursts until it gets another chance.
unsigned sentence(BurstPolicy& policy, const Gid& peer) {
    unsigned refused = 0;
    while (!policy.allowed(peer)) refused++;
    return refused;
}

TEST(BurstPolicyTest, AnAvoidedPeerGetsAnotherChanceLaterEachTime) {
    BurstPolicy policy(true);
    const Gid peer = Gid::from_ipv4(0x0a000001), other = Gid::from_ipv4(0x0a000002);
    EXPECT_TRUE(policy.allowed(peer));
    policy.avoid(peer);
    EXPECT_TRUE(policy.allowed(other));
    const unsigned first = sentence(policy, peer);
    EXPECT_GT(first, 1000u);
    EXPECT_TRUE(policy.allowed(peer));
    policy.avoid(peer);
    EXPECT_EQ(sentence(policy, peer), 2 * first);
    policy.disable();
    EXPECT_FALSE(policy.allowed(peer));
}

}  // namespace
}  // namespace verbena::link
