// Real packets over loopback: what is sent arrives byte for byte, with a good ICRC, with and without
// offloads.
#include "link/udp_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/features.h"
#include "base/ipv6_testing.h"
#include "link/hooks.h"
#include "link/socket_options.h"
#include "link/steering.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace verbena::link {
namespace {

Gid ipv6_loopback() {
    Gid gid;
    gid.bytes[15] = 1;
    return gid;
}
Gid ipv4_loopback() { return Gid::from_ipv4(0x7f000001); }

class Collector : public Receiver {
   public:
    struct Arrival {
        wire::Path path;
        std::vector<std::uint8_t> bytes;
        bool forwarded;
    };
    void datagram(const Datagram& datagram) override {
        arrivals.push_back(
            {*datagram.path, {datagram.bytes.begin(), datagram.bytes.end()}, datagram.forwarded});
    }
    std::vector<Arrival> arrivals;
};

// Waits for datagrams until `count` are there; loopback delivers at once, the bound is for a loaded machine.
void receive_some(UdpLink& link, Collector& collector, std::size_t count) {
    for (int tries = 0; tries < 1000 && collector.arrivals.size() < count; tries++) {
        if (link.receive(collector, 1000) > 0) continue;
        pollfd waiting{link.wait_fd(), POLLIN, 0};
        poll(&waiting, 1, 5);
    }
}

struct Parameters {
    bool ipv4, gso, gro;
};

class UdpLinkTest : public ::testing::TestWithParam<Parameters> {
   protected:
    void SetUp() override {
        int fd = open_group_socket(0, GetParam().gro);
        ASSERT_GE(fd, 0);
        port_ = bound_port(fd);
        UdpLink::Setup setup;
        setup.gso = GetParam().gso;
        setup.port = port_;
        link_ = UdpLink::create(setup);
        ASSERT_EQ(link_->add_queue(fd, 1), 0);
        if (!GetParam().ipv4 && !has_ipv6()) GTEST_SKIP() << kNoIpv6;
        path_.source = path_.destination = GetParam().ipv4 ? ipv4_loopback() : ipv6_loopback();
        path_.udp_source_port = 0xc123;
    }

    // One packet whose payload is cut into two pieces of memory.
    void send(wire::PacketSink& sink, std::uint32_t qpn, std::uint32_t psn,
              std::span<const std::uint8_t> payload) {
        wire::Headers headers;
        headers.bth.opcode = payload.empty() ? wire::Opcode::rc_ack : wire::Opcode::rc_send_middle;
        headers.bth.destination_qp = qpn;
        headers.bth.psn = psn;
        headers.bth.pad_count = wire::pad_for(payload.size());
        wire::OutPacket packet;
        packet.path = &path_;
        packet.header_length = static_cast<std::uint8_t>(wire::emit(headers, packet.header.data()));
        packet.pad_count = headers.bth.pad_count;
        const std::size_t half = payload.size() / 2;
        auto* data = const_cast<std::uint8_t*>(payload.data());
        const iovec pieces[2] = {{data, half}, {data + half, payload.size() - half}};
        if (!payload.empty()) packet.payload = pieces;
        sink.send(packet);
    }

    void expect_arrival(const Collector::Arrival& arrival, std::uint32_t qpn, std::uint32_t psn,
                        std::span<const std::uint8_t> payload) {
        EXPECT_EQ(arrival.path.source, path_.source);
        EXPECT_EQ(arrival.path.destination, path_.destination);
        EXPECT_EQ(arrival.path.hop_limit, path_.hop_limit);
        EXPECT_EQ(arrival.path.traffic_class, path_.traffic_class);
        EXPECT_EQ(wire::icrc_verify(arrival.path, port_, arrival.bytes), wire::IcrcCheck::good);
        wire::Packet packet;
        ASSERT_EQ(wire::parse(arrival.bytes, packet), wire::ParseError::none);
        EXPECT_EQ(packet.headers.bth.destination_qp, qpn);
        EXPECT_EQ(packet.headers.bth.psn, psn);
        ASSERT_EQ(packet.payload.size(), payload.size());
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), packet.payload.begin()));
    }

    std::uint16_t port_ = 0;
    std::unique_ptr<UdpLink> link_;
    wire::Path path_;
};

std::uint32_t qpn_of(const Collector::Arrival& arrival) { return wire::load_be24(&arrival.bytes[5]); }

std::vector<std::uint8_t> pattern(std::size_t size, unsigned seed) {
    std::vector<std::uint8_t> bytes(size);
    for (std::size_t i = 0; i < size; i++) bytes[i] = static_cast<std::uint8_t>(i * 7 + seed + i / 251);
    return bytes;
}

TEST_P(UdpLinkTest, PacketsOfOneSizeArriveInOrder) {
    constexpr unsigned kCount = 40;  // more than one burst of 4 KiB packets
    auto payload = pattern(4096, 1);
    wire::PacketSink& sink = link_->borrow_sink();
    for (unsigned i = 0; i < kCount; i++) send(sink, 0x1234, i, payload);
    sink.flush();
    link_->return_sink(sink);
    Collector collector;
    receive_some(*link_, collector, kCount);
    ASSERT_EQ(collector.arrivals.size(), kCount);
    for (unsigned i = 0; i < kCount; i++) expect_arrival(collector.arrivals[i], 0x1234, i, payload);
    EXPECT_EQ(link_->counters().packets_sent, kCount);
    EXPECT_EQ(link_->counters().packets_lost, 0u);
    EXPECT_EQ(link_->counters().bursts_sent > 1, GetParam().gso);
}

TEST_P(UdpLinkTest, MixedSizesAndQueuePairsKeepTheirBoundaries) {
    wire::PacketSink& sink = link_->borrow_sink();
    struct Sent {
        std::uint32_t qpn;
        std::size_t size;
    };
    // First longer than the middle ones, a short last one, another QP, acknowledgements, odd lengths.
    const std::vector<Sent> sent = {{1, 1040}, {1, 1024}, {1, 1024}, {1, 100},  {2, 1024}, {3, 0},   {2, 0},
                                    {3, 1},    {3, 2},    {3, 3},    {3, 4096}, {1, 1024}, {1, 1024}};
    std::vector<std::vector<std::uint8_t>> payloads;
    for (std::size_t i = 0; i < sent.size(); i++)
        payloads.push_back(pattern(sent[i].size, static_cast<unsigned>(i)));
    for (unsigned i = 0; i < sent.size(); i++) send(sink, sent[i].qpn, i, payloads[i]);
    sink.flush();
    link_->return_sink(sink);
    Collector collector;
    receive_some(*link_, collector, sent.size());
    ASSERT_EQ(collector.arrivals.size(), sent.size());
    // Those to one queue pair keep their order; an acknowledgement to another may come first.
    std::ranges::stable_sort(collector.arrivals, {}, qpn_of);
    auto arrival = collector.arrivals.begin();
    for (std::uint32_t of = 1; of <= 3; of++)
        for (unsigned i = 0; i < sent.size(); i++)
            if (sent[i].qpn == of) expect_arrival(*arrival++, of, i, payloads[i]);
}

TEST_P(UdpLinkTest, MoreThanABuilderHolds) {
    constexpr unsigned kCount = 600;
    auto payload = pattern(64, 9);
    for (unsigned i = 0; i < kCount; i++) {
        send(*link_, i % 5, i, payload);
        if (i % 300 == 299) link_->flush();
    }
    Collector collector;
    receive_some(*link_, collector, kCount);
    // 208 KiB of default buffer hold 256 small packets; a system with a small rmem_max loses the rest.
    ASSERT_GE(collector.arrivals.size(), 250u);
    for (const Collector::Arrival& arrival : collector.arrivals)
        EXPECT_EQ(wire::icrc_verify(arrival.path, port_, arrival.bytes), wire::IcrcCheck::good);
}

TEST_P(UdpLinkTest, TrafficClassAndHopLimitTravel) {
    path_.traffic_class = 0x68;
    path_.hop_limit = 3;
    const auto payload = pattern(16, 0);
    send(*link_, 7, 1, payload);
    link_->flush();
    Collector collector;
    receive_some(*link_, collector, 1);
    ASSERT_EQ(collector.arrivals.size(), 1u);
    expect_arrival(collector.arrivals[0], 7, 1, payload);
}

TEST_P(UdpLinkTest, MemoryMayChangeBeforeTheFlush) {
    auto payload = pattern(2048, 3);
    const auto before = payload;
    send(*link_, 7, 1, payload);
    send(*link_, 7, 2, payload);
    payload.assign(payload.size(), 0);
    link_->flush();
    Collector collector;
    receive_some(*link_, collector, 2);
    ASSERT_EQ(collector.arrivals.size(), 2u);
    expect_arrival(collector.arrivals[0], 7, 1, before);
    expect_arrival(collector.arrivals[1], 7, 2, before);
}

TEST_P(UdpLinkTest, AnAcknowledgementTravelsBehindTheAnswer) {
    const auto payload = pattern(64, 1);
    for (unsigned i = 0; i < 2; i++) {
        send(*link_, 7, 100, {});  // an acknowledgement
        for (unsigned n = 0; n <= i; n++) send(*link_, 7, n, payload);
        send(*link_, 8, 200, {});  // alone
        link_->flush();
    }
    Collector collector;
    receive_some(*link_, collector, 7);
    ASSERT_EQ(collector.arrivals.size(), 7u);
    EXPECT_EQ(link_->counters().bursts_sent, GetParam().gso && features().gro ? 2u : 0u);
    if (GetParam().gso && !GetParam().gro) return;  // a receiver that sees how they travelled
    expect_arrival(collector.arrivals[0], 7, 100, {});
    expect_arrival(collector.arrivals[1], 7, 0, payload);
    expect_arrival(collector.arrivals[2], 8, 200, {});
    expect_arrival(collector.arrivals[3], 7, 100, {});
    expect_arrival(collector.arrivals[4], 7, 0, payload);
    expect_arrival(collector.arrivals[5], 7, 1, payload);
}

TEST_P(UdpLinkTest, AcknowledgementsAreNeverHeldBeyondAFlush) {
    for (unsigned i = 0; i < 5; i++) send(*link_, 7, i, {});
    send(*link_, 8, 9, {});
    link_->flush();
    Collector collector;
    receive_some(*link_, collector, 6);
    ASSERT_EQ(collector.arrivals.size(), 6u);
    EXPECT_EQ(std::erase_if(collector.arrivals, [](const auto& each) { return qpn_of(each) == 8; }), 1u);
    for (unsigned i = 0; i < 5; i++) expect_arrival(collector.arrivals[i], 7, i, {});
}

TEST_P(UdpLinkTest, AvoidedPeersGetSinglePackets) {
    link_->avoid_bursts(path_.destination);
    auto payload = pattern(512, 3);
    for (unsigned i = 0; i < 10; i++) send(*link_, 7, i, payload);
    link_->flush();
    Collector collector;
    receive_some(*link_, collector, 10);
    EXPECT_EQ(collector.arrivals.size(), 10u);
    EXPECT_EQ(link_->counters().bursts_sent, 0u);
}

TEST_P(UdpLinkTest, ThreadsSendAtTheSameTime) {
    constexpr unsigned kThreads = 4, kEach = 50;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; t++)
        threads.emplace_back([&, t] {
            auto payload = pattern(100, t);
            for (unsigned i = 0; i < kEach; i++) {
                wire::PacketSink& sink = link_->borrow_sink();
                send(sink, t, i, payload);
                sink.flush();
                link_->return_sink(sink);
            }
        });
    Collector collector;
    receive_some(*link_, collector, kThreads * kEach);
    for (std::thread& thread : threads) thread.join();
    receive_some(*link_, collector, kThreads * kEach);
    ASSERT_EQ(collector.arrivals.size(), kThreads * kEach);
    unsigned next[kThreads] = {};
    for (const Collector::Arrival& arrival : collector.arrivals) {
        wire::Packet packet;
        ASSERT_EQ(wire::parse(arrival.bytes, packet), wire::ParseError::none);
        const std::uint32_t t = packet.headers.bth.destination_qp;
        ASSERT_LT(t, kThreads);
        EXPECT_EQ(packet.headers.bth.psn, next[t]++);  // one flow keeps its order
    }
}

// An observer sees what is sent, with the identification that makes the ICRC right.
class Observer : public PacketObserver {
   public:
    void packet(const PacketEvent& event) override {
        ids.push_back(event.ip_id);
        const std::uint32_t expected =
            wire::icrc_compute(*event.path, event.destination_port, event.bytes, event.ip_id, true);
        good = good && wire::load_le32(event.bytes.data() + event.bytes.size() - 4) == expected;
    }
    std::vector<unsigned> ids;
    bool good = true;
};

TEST_P(UdpLinkTest, TheObserverSeesEachPacketAsItLeaves) {
    Observer observer;
    set_packet_observer(&observer);
    auto payload = pattern(1000, 3);
    for (unsigned i = 0; i < 5; i++) send(*link_, 7, i, payload);
    link_->flush();
    set_packet_observer(nullptr);
    const auto numbered = std::vector<unsigned>{0, 1, 2, 3, 4};
    EXPECT_EQ(observer.ids, GetParam().gso ? numbered : std::vector<unsigned>(5, 0));
    EXPECT_TRUE(observer.good);
}

INSTANTIATE_TEST_SUITE_P(Offloads, UdpLinkTest,
                         ::testing::Values(Parameters{true, true, true}, Parameters{true, true, false},
                                           Parameters{true, false, true}, Parameters{true, false, false},
                                           Parameters{false, true, true}, Parameters{false, false, false}),
                         [](const auto& each) {
                             return std::string(each.param.ipv4 ? "ipv4" : "ipv6") +
                                    (each.param.gso ? "_gso" : "") + (each.param.gro ? "_gro" : "");
                         });

TEST(SourcePortsTest, FlowsGetTheirPortsUntilTheTableIsFull) {
    SourcePorts ports;
    const SourcePorts::Source first = ports.find(true, 0xc111);
    ASSERT_GE(first.fd, 0);
    EXPECT_EQ(first.port, 0xc111);
    EXPECT_EQ(ports.find(true, 0xc111).fd, first.fd);
    EXPECT_NE(ports.find(false, 0xc111).fd, first.fd);
    for (std::uint16_t i = 0; i < 100; i++) {
        const SourcePorts::Source source = ports.find(true, static_cast<std::uint16_t>(0xd000 + i));
        EXPECT_GE(source.fd, 0);
        EXPECT_GE(source.port, wire::kFirstUdpSourcePort);
    }
}

TEST(SourcePortsTest, AnotherPortIfTheWantedOneIsTaken) {
    int taken = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(0xc777);
    ASSERT_EQ(bind(taken, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    SourcePorts ports;
    const SourcePorts::Source source = ports.find(true, 0xc777);
    EXPECT_GE(source.fd, 0);
    EXPECT_NE(source.port, 0xc777);
    close(taken);
}

TEST(SourcePortsTest, WhoHasNoDescriptorsIsToldBefore) {
    SourcePorts ports;
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_EQ(ports.provide(true, 0xc222), EMFILE);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(ports.provide(true, 0xc222), 0);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_EQ(ports.provide(true, 0xc333), 0);
    EXPECT_EQ(ports.find(true, 0xc333).port, 0xc222);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(StrayTest, PacketsArePassedToTheirOwnersInbox) {
    const std::string fabric = "test-" + std::to_string(getpid());
    int first_fd = open_group_socket(0, true);
    ASSERT_GE(first_fd, 0);
    UdpLink::Setup setup;
    setup.port = bound_port(first_fd);
    setup.fabric = fabric;
    auto first = UdpLink::create(setup);
    ASSERT_EQ(first->add_queue(first_fd, 1), 0);
    int second_fd = open_group_socket(0, true);
    ASSERT_GE(second_fd, 0);
    auto second = UdpLink::create(setup);
    ASSERT_EQ(second->add_queue(second_fd, 2), 0);

    wire::Path path;
    path.source = ipv6_loopback();
    path.destination = ipv4_loopback();
    path.interface_index = 77;
    path.udp_source_port = 0xc999;
    path.traffic_class = 5;
    path.hop_limit = 6;
    auto bytes = pattern(4096 + 64, 1);
    Datagram datagram;
    datagram.bytes = bytes;
    datagram.path = &path;
    first->stray(datagram, 2 << kBlockBits | 5);
    first->stray(datagram, 3 << kBlockBits);  // nobody there

    Collector collector;
    receive_some(*second, collector, 1);
    ASSERT_EQ(collector.arrivals.size(), 1u);
    EXPECT_EQ(collector.arrivals[0].bytes, bytes);
    EXPECT_EQ(collector.arrivals[0].path, path);
    EXPECT_TRUE(collector.arrivals[0].forwarded);
    EXPECT_EQ(first->counters().strays_forwarded, 1u);
    EXPECT_EQ(first->counters().strays_lost, 1u);
}

}  // namespace
}  // namespace verbena::link
