// Two UD queue pairs: what they say on the wire, what they deliver, what they drop, and their states.
#include "transport/ud_queue_pair.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/reason.h"
#include "wire/byte_order.h"
#include "wire/ip_header.h"
#include "wire/mad.h"

namespace verbena::transport {
namespace {

using completion::Status;
using wire::kGrhLength;

constexpr std::uint32_t kQkey = 0x1234;
constexpr std::size_t kMemory = 64 << 10;

struct Packet {
    wire::Headers headers;
    wire::Path path;
    std::vector<std::uint8_t> payload;
};

class Side final : public wire::PacketSink, private QpListener {
   public:
    explicit Side(std::uint32_t number, bool shared_queue = false, bool block_own_multicast = false)
        : memory(kMemory),
          receives(shared_queue ? std::make_shared<ReceiveQueue>(8, 3, SharedQueueSetup{.pd = 1})
                                : std::make_shared<ReceiveQueue>(8, 3)) {
        EXPECT_EQ(regions.add(1, memory.data(), memory.size(), address(0), memory::kLocalWrite, keys), 0);
        EXPECT_EQ(regions.add(1, memory.data(), memory.size(), address(0), 0, read_only), 0);
        EXPECT_EQ(regions.add(2, memory.data(), memory.size(), address(0), memory::kLocalWrite, foreign), 0);
        QpSetup setup;
        setup.service = Service::ud;
        setup.number = number;
        setup.pd = 1;
        setup.capabilities = {4, 8, 3, 3, 64};
        setup.send_cq = &send_cq;
        setup.receive_cq = &receive_cq;
        setup.receive_queue = receives;
        setup.shared_receive_queue = shared_queue;
        setup.regions = &regions;
        setup.listener = this;
        setup.port_mtu = 1024;
        setup.block_own_multicast = block_own_multicast;
        qp = QueuePair::create(setup);
        path.source = Gid::from_ipv4(0x0a000000u + number);
        path.destination = Gid::from_ipv4(0x0a000001);
        path.traffic_class = 0x20;
        path.udp_source_port = 0;  // as of an address handle without a flow label
    }

    int modify(QpState state, std::uint32_t mask = 0, std::uint32_t psn = 0, std::uint32_t qkey = kQkey) {
        Attributes a;
        a.state = state;
        a.port = 1;
        a.qkey = qkey;
        a.sq_psn = psn;
        a.sqd_async_notify = (mask & kAttrSqdAsyncNotify) != 0;
        return qp->modify(a, mask | kAttrState, now);
    }
    Side& start() {
        EXPECT_EQ(modify(QpState::init, kAttrPkeyIndex | kAttrPort | kAttrQkey), 0) << last_reason();
        EXPECT_EQ(modify(QpState::rtr), 0) << last_reason();
        EXPECT_EQ(modify(QpState::rts, kAttrSqPsn, 0xfffffe), 0) << last_reason();
        return *this;
    }

    std::uint64_t address(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
    }
    Sge sge(std::size_t offset, std::uint32_t length) const { return {address(offset), length, keys.lkey}; }

    SendRequest request(std::uint32_t to) const {
        SendRequest r;
        r.wr_id = 7;
        r.flags = kSignaled;
        r.path = &path;
        r.path_pd = 1;
        r.remote_qp = to;
        r.remote_qkey = kQkey;
        return r;
    }
    int post(SendRequest r, std::vector<Sge> sges) {
        r.sges = sges;
        memory::Section section(sections);
        return qp->post_send(r, now);
    }
    bool transmit(unsigned budget = 16) {
        memory::Section section(sections);
        return qp->transmit(*this, now, budget, false);
    }
    int send(SendRequest r, std::vector<Sge> sges) {
        const int error = post(r, sges);
        if (!error) transmit();
        return error;
    }
    void post_receive(std::uint64_t wr_id, std::vector<Sge> sges) {
        ASSERT_EQ(receives->post({wr_id, sges}), 0);
        qp->receives_posted();
    }
    void receive(const Packet& packet) {
        memory::Section section(sections);
        qp->receive({packet.headers, packet.payload}, packet.path, now);
    }
    static std::vector<completion::Completion> poll(completion::CompletionQueue& queue) {
        std::vector<completion::Completion> out(64);
        out.resize(queue.poll(out));
        return out;
    }
    std::vector<completion::Completion> sent() { return poll(send_cq); }
    std::vector<completion::Completion> received() { return poll(receive_cq); }

    void send(const wire::OutPacket& out) override {
        std::vector<std::uint8_t> bytes(out.header.begin(), out.header.begin() + out.header_length);
        for (const iovec& piece : out.payload) {
            const auto* p = static_cast<const std::uint8_t*>(piece.iov_base);
            bytes.insert(bytes.end(), p, p + piece.iov_len);
        }
        bytes.insert(bytes.end(), out.pad_count + wire::kIcrcLength, 0);
        wire::Packet packet;
        ASSERT_EQ(wire::parse(bytes, packet), wire::ParseError::none);
        packets.push_back({packet.headers, *out.path, {packet.payload.begin(), packet.payload.end()}});
        EXPECT_TRUE(sent().empty()) << "completed before the flush";
    }
    void flush() override {}
    void qp_event(QueuePair&, QpEvent event) override { events.push_back(event); }

    Time now = 5;
    memory::Sections sections{};
    std::vector<memory::RegionRecord> records = std::vector<memory::RegionRecord>(16);
    memory::RegionTable regions{records, sections};
    completion::CompletionQueue send_cq{64, nullptr}, receive_cq{64, nullptr};
    std::vector<std::uint8_t> memory;
    std::shared_ptr<ReceiveQueue> receives;
    memory::Keys keys{}, read_only{}, foreign{};
    std::unique_ptr<QueuePair> qp;
    wire::Path path;
    std::vector<Packet> packets;
    std::vector<QpEvent> events;
};

class Ud : public ::testing::Test {
   protected:
    Packet carry() {
        Packet packet = a.packets.back();
        b.receive(packet);
        return packet;
    }
    Side a{0x1000}, b{0x1001};
    void SetUp() override {
        a.start();
        b.start();
        std::iota(a.memory.begin(), a.memory.end(), std::uint8_t{1});
    }
};

TEST_F(Ud, ASendArrivesBehindTheIpHeader) {
    b.post_receive(42, {b.sge(0, 60), b.sge(1000, 500)});
    SendRequest r = a.request(0x1001);
    r.operation = Operation::send_with_immediate;
    r.flags |= kSolicited;
    r.immediate_or_key = 0x01020304;
    ASSERT_EQ(a.send(r, {a.sge(0, 10), a.sge(100, 91)}), 0) << last_reason();

    const Packet packet = carry();
    EXPECT_EQ(packet.headers.bth.opcode, wire::Opcode::ud_send_only_immediate);
    EXPECT_EQ(packet.headers.bth.psn, 0xfffffeu);
    EXPECT_EQ(packet.headers.bth.destination_qp, 0x1001u);
    EXPECT_EQ(packet.headers.bth.pad_count, 3);
    EXPECT_TRUE(packet.headers.bth.solicited);
    EXPECT_FALSE(packet.headers.bth.ack_request);
    EXPECT_EQ(packet.headers.deth, (wire::Deth{kQkey, 0x1000}));
    EXPECT_EQ(packet.path.udp_source_port, wire::udp_source_port_for_ud(0x1000));

    const auto sent = a.sent(), received = b.received();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].status, Status::success);
    EXPECT_EQ(sent[0].wr_id, 7u);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].wr_id, 42u);
    EXPECT_EQ(received[0].byte_length, 141u);
    EXPECT_EQ(received[0].flags, completion::kHasGrh | completion::kHasImmediate);
    EXPECT_EQ(received[0].immediate, 0x01020304u);
    EXPECT_EQ(received[0].source_qp, 0x1000u);
    EXPECT_EQ(received[0].service_level, 0xa);  // UDP over IPv4
    EXPECT_EQ(received[0].opcode, completion::Opcode::receive);

    // 20 zero bytes, an IPv4 header with a good checksum, the payload over both elements.
    EXPECT_TRUE(std::all_of(b.memory.begin(), b.memory.begin() + 20, [](auto byte) { return byte == 0; }));
    const std::uint8_t* ip = b.memory.data() + 20;
    EXPECT_EQ(ip[0], 0x45);
    EXPECT_EQ(ip[1], 0x20);
    EXPECT_EQ(wire::load_be16(ip + 2), 20 + 8 + 12 + 8 + 4 + 101 + 3 + 4);
    EXPECT_EQ(wire::load_be32(ip + 12), 0x0a001000u);
    EXPECT_EQ(wire::load_be32(ip + 16), 0x0a000001u);
    wire::InternetSum sum;
    sum.add(ip, 20);
    EXPECT_EQ(sum.result(), 0);
    EXPECT_EQ(std::memcmp(b.memory.data() + 40, a.memory.data(), 10), 0);
    EXPECT_EQ(std::memcmp(b.memory.data() + 50, a.memory.data() + 100, 10), 0);
    EXPECT_EQ(std::memcmp(b.memory.data() + 1000, a.memory.data() + 110, 81), 0);
}

TEST_F(Ud, OverIpv6TheHeaderIsTheGrh) {
    Gid from{}, to{};
    from.bytes[0] = to.bytes[0] = 0x20;
    to.bytes[15] = 9;
    a.path.source = from;
    a.path.destination = to;
    b.post_receive(1, {b.sge(0, 100)});
    ASSERT_EQ(a.send(a.request(0x1001), {a.sge(0, 4)}), 0);
    carry();
    EXPECT_EQ(b.memory[0], 0x62);  // version 6, traffic class 0x20
    EXPECT_EQ(wire::load_be16(b.memory.data() + 4), 8 + 12 + 8 + 4 + 4);
    EXPECT_EQ(std::memcmp(b.memory.data() + 8, from.bytes.data(), 16), 0);
    EXPECT_EQ(std::memcmp(b.memory.data() + 24, to.bytes.data(), 16), 0);
    EXPECT_EQ(std::memcmp(b.memory.data() + 40, a.memory.data(), 4), 0);
}

TEST_F(Ud, PsnsCountAndWrap) {
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(a.send(a.request(0x1001), {}), 0);
        EXPECT_EQ(a.sent().size(), 1u);
    }
    ASSERT_EQ(a.packets.size(), 3u);
    EXPECT_EQ(a.packets[1].headers.bth.psn, 0xffffffu);
    EXPECT_EQ(a.packets[2].headers.bth.psn, 0u);
    EXPECT_EQ(a.packets[2].headers.bth.opcode, wire::Opcode::ud_send_only);
}

TEST_F(Ud, AnEmptyMessageNeedsRoomForTheHeaderOnly) {
    b.post_receive(1, {b.sge(0, kGrhLength)});
    ASSERT_EQ(a.send(a.request(0x1001), {}), 0);
    carry();
    const auto received = b.received();
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].byte_length, kGrhLength);
}

TEST_F(Ud, TheHighBitOfTheQkeyAsksForTheOwnOne) {
    SendRequest r = a.request(0x1001);
    r.remote_qkey = 0x80000001;
    ASSERT_EQ(a.send(r, {}), 0);
    EXPECT_EQ(a.packets[0].headers.deth.qkey, kQkey);
}

TEST_F(Ud, InlineDataAndTheAddressAreCopiedAtThePost) {
    SendRequest r = a.request(0x1001);
    r.flags |= kInline;
    auto temporary = std::make_unique<wire::Path>(a.path);
    r.path = temporary.get();
    std::vector<std::uint8_t> data(64, 0x5a);
    ASSERT_EQ(a.post(r, {{reinterpret_cast<std::uintptr_t>(data.data()), 64, 0}}), 0) << last_reason();
    temporary.reset();
    std::ranges::fill(data, 0);
    a.transmit();
    EXPECT_EQ(a.packets[0].payload, std::vector<std::uint8_t>(64, 0x5a));
    EXPECT_EQ(a.packets[0].path.destination, a.path.destination);
    EXPECT_EQ(a.post(r, {{reinterpret_cast<std::uintptr_t>(data.data()), 65, 0}}), EINVAL);
}

TEST_F(Ud, UnsignaledRequestsCompleteSilently) {
    SendRequest r = a.request(0x1001);
    r.flags = 0;
    for (int i = 0; i < 20; i++) ASSERT_EQ(a.send(r, {}), 0) << last_reason();
    EXPECT_EQ(a.packets.size(), 20u);
    EXPECT_TRUE(a.sent().empty());
}

TEST_F(Ud, TheBudgetOfATransmitIsKept) {
    for (int i = 0; i < 4; i++) ASSERT_EQ(a.post(a.request(0x1001), {}), 0);
    EXPECT_EQ(a.post(a.request(0x1001), {}), ENOMEM);
    EXPECT_FALSE(a.transmit(3));
    EXPECT_EQ(a.sent().size(), 3u);
    EXPECT_TRUE(a.transmit(3));
    EXPECT_EQ(a.sent().size(), 1u);
}

TEST_F(Ud, TheRateLimitSpreadsPackets) {
    Attributes limit;
    limit.rate_limit = 8000;  // a byte in a microsecond
    limit.max_burst = 1000;
    ASSERT_EQ(a.qp->modify(limit, kAttrRateLimit, a.now), 0);
    for (int i = 0; i < 4; i++) ASSERT_EQ(a.post(a.request(b.qp->number()), {a.sge(0, 1000)}), 0);
    EXPECT_TRUE(a.transmit()) << "there is nothing to do before the deadline";
    EXPECT_EQ(a.packets.size(), 1u);
    EXPECT_EQ(a.sent().size(), 1u);
    for (std::size_t packets = 2; packets <= 4; packets++) {
        const Time due = a.qp->next_deadline();
        EXPECT_NEAR(static_cast<double>(due - a.now), 1000 * kMicrosecond, 600 * kMicrosecond);
        a.qp->advance(due - 1);
        a.now = due - 1;
        EXPECT_TRUE(a.transmit());
        EXPECT_EQ(a.packets.size(), packets - 1);
        a.now = due;
        a.qp->advance(due);
        EXPECT_TRUE(a.transmit());
        EXPECT_EQ(a.packets.size(), packets);
        EXPECT_EQ(a.sent().size(), 1u);
    }
}

TEST_F(Ud, PostsThatAreRefused) {
    const auto refused = [&](const std::function<void(SendRequest&)>& change, std::vector<Sge> sges = {}) {
        SendRequest r = a.request(0x1001);
        change(r);
        return a.send(r, sges);
    };
    EXPECT_EQ(refused([](SendRequest& r) { r.path = nullptr; }), EINVAL);
    EXPECT_EQ(refused([](SendRequest& r) { r.path_pd = 2; }), EINVAL);
    EXPECT_EQ(refused([](SendRequest& r) { r.remote_qp = 0x1000000; }), EINVAL);
    for (const Operation o : {Operation::rdma_write, Operation::rdma_read, Operation::compare_swap,
                              Operation::send_with_invalidate, static_cast<Operation>(200)})
        EXPECT_EQ(refused([o](SendRequest& r) { r.operation = o; }), EINVAL);
    EXPECT_EQ(refused([](SendRequest&) {}, std::vector<Sge>(4, a.sge(0, 1))), EINVAL);
    EXPECT_TRUE(a.packets.empty());
    EXPECT_EQ(a.qp->state(), QpState::rts);
}

TEST_F(Ud, ABadSendTakesTheSendQueueIntoItsErrorState) {
    SendRequest r = a.request(0x1001);
    ASSERT_EQ(a.post(r, {}), 0);
    r.wr_id = 8;
    ASSERT_EQ(a.post(r, {{a.address(0), 1, a.foreign.lkey}}), 0);
    r.wr_id = 9;
    r.flags = 0;  // an error completes in any case
    ASSERT_EQ(a.post(r, {}), 0);
    a.transmit();
    auto sent = a.sent();
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_EQ(sent[0].status, Status::success);
    EXPECT_EQ(sent[1].status, Status::local_protection_error);
    EXPECT_EQ(sent[1].vendor_error, static_cast<std::uint32_t>(VendorError::send_lkey_other_pd));
    EXPECT_EQ(sent[2].status, Status::work_request_flushed);
    EXPECT_EQ(a.packets.size(), 1u);
    EXPECT_EQ(a.qp->state(), QpState::sqe);

    // Posts flush, receiving goes on.
    ASSERT_EQ(a.send(r, {}), 0);
    EXPECT_EQ(a.sent().size(), 1u);
    a.post_receive(1, {a.sge(0, 40)});
    SendRequest back = b.request(0x1000);
    ASSERT_EQ(b.send(back, {}), 0);
    a.receive(b.packets.back());
    EXPECT_EQ(a.received().size(), 1u);

    ASSERT_EQ(a.modify(QpState::rts), 0) << last_reason();
    ASSERT_EQ(a.send(a.request(0x1001), {}), 0);
    EXPECT_EQ(a.packets.size(), 2u);
}

TEST_F(Ud, AMessageLongerThanThePortsMtuIsALengthError) {
    ASSERT_EQ(a.send(a.request(0x1001), {a.sge(0, 1024)}), 0);
    ASSERT_EQ(a.sent().at(0).status, Status::success);
    ASSERT_EQ(a.send(a.request(0x1001), {a.sge(0, 1025)}), 0);
    const auto sent = a.sent();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].status, Status::local_length_error);
    EXPECT_EQ(sent[0].vendor_error, 0x0105u);
    EXPECT_EQ(a.qp->state(), QpState::sqe);
    EXPECT_EQ(a.packets.size(), 1u);
}

TEST_F(Ud, PacketsThatAreDropped) {
    b.post_receive(1, {b.sge(0, 100)});
    ASSERT_EQ(a.send(a.request(0x1001), {}), 0);
    const Packet good = a.packets.back();
    const auto dropped = [&](const std::function<void(Packet&)>& change) {
        Packet packet = good;
        change(packet);
        const auto before = b.qp->counters().dropped;
        b.receive(packet);
        return b.qp->counters().dropped == before + 1 && b.receive_cq.waiting() == 0;
    };
    EXPECT_TRUE(dropped([](Packet& p) { p.headers.deth.qkey++; }));
    EXPECT_TRUE(dropped([](Packet& p) { p.headers.bth.pkey = 0x1234; }));
    EXPECT_TRUE(dropped([](Packet& p) { p.headers.bth.opcode = wire::Opcode::rc_send_only; }));
    EXPECT_TRUE(dropped([](Packet& p) { p.headers.bth.destination_qp = wire::kMulticastQp; }));
    EXPECT_TRUE(dropped([](Packet& p) { p.path.destination = Gid::from_ipv4(0xef010101); }));
    b.receive(good);
    EXPECT_EQ(b.received().size(), 1u);
    EXPECT_TRUE(dropped([](Packet&) {})) << "no receive is posted";
    EXPECT_EQ(b.qp->state(), QpState::rts);
}

TEST_F(Ud, AGroupsPacketIsDelivered) {
    b.post_receive(1, {b.sge(0, 100)});
    a.path.destination = Gid::from_ipv4(0xef010101);
    ASSERT_EQ(a.send(a.request(wire::kMulticastQp), {}), 0);
    carry();
    EXPECT_EQ(b.received().size(), 1u);
}

TEST(UdGroups, OwnPacketsMayBeBlocked) {
    for (const bool blocks : {false, true}) {
        Side a(0x1000, false, blocks);
        a.start();
        a.post_receive(1, {a.sge(0, 40)});
        a.path.destination = Gid::from_ipv4(0xef010101);
        ASSERT_EQ(a.send(a.request(wire::kMulticastQp), {}), 0);
        a.receive(a.packets.back());
        EXPECT_EQ(a.received().size(), blocks ? 0u : 1u);
    }
}

TEST_F(Ud, ATooSmallReceiveIsALengthErrorAndTheEnd) {
    b.post_receive(1, {b.sge(0, 49)});
    b.post_receive(2, {b.sge(0, 50)});
    ASSERT_EQ(a.send(a.request(0x1001), {a.sge(0, 10)}), 0);
    carry();
    const auto received = b.received();
    ASSERT_EQ(received.size(), 2u);
    EXPECT_EQ(received[0].status, Status::local_length_error);
    EXPECT_EQ(received[0].vendor_error, static_cast<std::uint32_t>(VendorError::receive_too_small));
    EXPECT_EQ(received[1].status, Status::work_request_flushed);
    EXPECT_EQ(b.qp->state(), QpState::error);
}

TEST_F(Ud, AReceiveWithoutWriteAccessIsAProtectionError) {
    b.post_receive(1, {{b.address(0), 100, b.read_only.lkey}});
    ASSERT_EQ(a.send(a.request(0x1001), {a.sge(0, 10)}), 0);
    carry();
    const auto received = b.received();
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].status, Status::local_protection_error);
    EXPECT_EQ(received[0].vendor_error, static_cast<std::uint32_t>(VendorError::receive_sge_no_access));
    EXPECT_EQ(b.qp->state(), QpState::error);
}

TEST_F(Ud, DrainingHoldsRequestsBack) {
    ASSERT_EQ(a.modify(QpState::sqd, kAttrSqdAsyncNotify), 0) << last_reason();
    EXPECT_EQ(a.events, std::vector<QpEvent>{QpEvent::send_queue_drained});
    ASSERT_EQ(a.send(a.request(0x1001), {}), 0);
    EXPECT_TRUE(a.packets.empty());
    ASSERT_EQ(a.modify(QpState::rts), 0);
    a.transmit();
    EXPECT_EQ(a.packets.size(), 1u);
    ASSERT_EQ(a.modify(QpState::sqd), 0);
    EXPECT_EQ(a.events.size(), 1u) << "it was not asked for this time";
    ASSERT_EQ(a.modify(QpState::rts), 0);
}

TEST_F(Ud, TheErrorStateFlushesBothQueues) {
    a.post_receive(1, {a.sge(0, 40)});
    ASSERT_EQ(a.post(a.request(0x1001), {}), 0);
    ASSERT_EQ(a.modify(QpState::error), 0);
    EXPECT_EQ(a.sent().at(0).status, Status::work_request_flushed);
    EXPECT_EQ(a.received().at(0).status, Status::work_request_flushed);
    ASSERT_EQ(a.send(a.request(0x1001), {}), 0);
    EXPECT_EQ(a.sent().at(0).status, Status::work_request_flushed);
    a.post_receive(2, {});
    EXPECT_EQ(a.received().at(0).status, Status::work_request_flushed);
    EXPECT_TRUE(a.packets.empty());
}

TEST(UdStates, Transitions) {
    Side a(0x1000);
    EXPECT_EQ(a.post(a.request(0x1001), {}), EINVAL);
    EXPECT_EQ(a.modify(QpState::init, kAttrPkeyIndex | kAttrPort), EINVAL) << "no Q_Key";
    EXPECT_EQ(a.modify(QpState::init, kAttrPkeyIndex | kAttrPort | kAttrQkey | kAttrAccessFlags), EINVAL);
    EXPECT_EQ(a.modify(QpState::init, kAttrPkeyIndex | kAttrPort | kAttrQkey), 0);
    EXPECT_EQ(a.modify(QpState::rtr, kAttrAv), EINVAL);
    EXPECT_EQ(a.modify(QpState::rtr), 0);
    EXPECT_EQ(a.post(a.request(0x1001), {}), EINVAL);
    EXPECT_EQ(a.modify(QpState::rts), EINVAL) << "no sq_psn";
    EXPECT_EQ(a.modify(QpState::rts, kAttrSqPsn), 0);
    EXPECT_EQ(a.modify(QpState::sqe), EINVAL);
    EXPECT_EQ(a.modify(QpState::rts, kAttrQkey, 0, 77), 0);
    Attributes now;
    a.qp->query(now);
    EXPECT_EQ(now.qkey, 77u);
    EXPECT_EQ(now.path_mtu, 1024u);
    EXPECT_EQ(a.modify(QpState::reset), 0);
    a.qp->query(now);
    EXPECT_EQ(now.qkey, 0u);
}

TEST(UdStates, ASharedReceiveQueueIsLeftAlone) {
    Side a(0x1000, true);
    a.start();
    a.post_receive(1, {a.sge(0, 40)});
    ASSERT_EQ(a.modify(QpState::error), 0);
    EXPECT_TRUE(a.received().empty());
    EXPECT_EQ(a.events, std::vector<QpEvent>{QpEvent::last_wqe_reached});
}

}  // namespace
}  // namespace verbena::transport
