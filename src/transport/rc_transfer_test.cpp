// Data gets across: every operation, sizes around the packet boundaries, all path MTUs, with and without
// loss.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/rc_shared.h"
#include "transport/rc_workload.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;

struct Case {
    std::uint32_t mtu;
    std::uint32_t length;
};

class Sizes : public ::testing::TestWithParam<Case> {
   protected:
    void SetUp() override {
        h.attributes[0].path_mtu = h.attributes[1].path_mtu = GetParam().mtu;
        h.start();
        h.fill(0, 0, 65536, 1);
        h.fill(1, 0, 65536, 2);
    }
    Harness h;
};

TEST_P(Sizes, Send) {
    const auto length = GetParam().length;
    h.post_receive(1, 7, {h.side[1].sge(70000, length / 2), h.side[1].sge(70000 + length / 2, length)});
    ASSERT_EQ(h.post(0, h.request(Operation::send), {h.side[0].sge(5, length)}), 0);
    h.run();
    const auto sent = h.sends(0), received = h.receives(1);
    ASSERT_EQ(sent.size(), 1u);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(sent[0].status, Status::success);
    EXPECT_EQ(received[0].status, Status::success);
    EXPECT_EQ(received[0].wr_id, 7u);
    EXPECT_EQ(received[0].byte_length, length);
    EXPECT_TRUE(h.equal(5, 70000, length));
    EXPECT_EQ(h.side[1].memory[70000 + length], 0);
}

TEST_P(Sizes, Write) {
    const auto length = GetParam().length;
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, 1, 70001),
                     {h.side[0].sge(0, length / 3), h.side[0].sge(length / 3, length - length / 3)}),
              0);
    h.run();
    ASSERT_EQ(h.sends(0).size(), 1u);
    EXPECT_TRUE(h.equal(0, 70001, length));
    EXPECT_EQ(h.side[1].memory[70001 + length], 0);
    EXPECT_EQ(h.receives(1).size(), 0u);
}

TEST_P(Sizes, Read) {
    const auto length = GetParam().length;
    ASSERT_EQ(
        h.post(0, h.request(Operation::rdma_read, 1, 3),
               {h.side[0].sge(70000, length / 3), h.side[0].sge(70000 + length / 3, length - length / 3)}),
        0);
    h.run();
    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].status, Status::success);
    EXPECT_EQ(sent[0].byte_length, length);
    EXPECT_TRUE(h.equal(70000, 3, length));
    EXPECT_EQ(h.side[0].memory[70000 + length], 0);
}

std::vector<Case> cases() {
    std::vector<Case> out;
    for (std::uint32_t mtu : {256u, 512u, 1024u, 2048u, 4096u})
        for (std::uint32_t length : {0u, 1u, 3u, mtu - 1, mtu, mtu + 1, 3 * mtu, 3 * mtu + 5, 60000u})
            out.push_back({mtu, length});
    return out;
}
INSTANTIATE_TEST_SUITE_P(All, Sizes, ::testing::ValuesIn(cases()), [](const auto& test) {
    return "mtu" + std::to_string(test.param.mtu) + "_" + std::to_string(test.param.length);
});

TEST(Transfer, PsnWraps) {
    Harness h;
    h.start_psn[0] = 0xfffffa;
    h.start_psn[1] = 0xfffffe;
    h.start();
    h.fill(0, 0, 20000, 9);
    for (unsigned n = 0; n < 4; n++)
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, n, n * 5000), {h.side[0].sge(n * 5000, 5000)}),
                  0);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_read, 4), {h.side[0].sge(30000, 20000)}), 0);
    h.run();
    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 5u);
    for (unsigned n = 0; n < 5; n++) EXPECT_EQ(sent[n].wr_id, n);
    EXPECT_TRUE(h.equal(0, 0, 20000));
    EXPECT_TRUE(h.equal(30000, 0, 20000));
}

TEST(Transfer, Immediate) {
    Harness h;
    h.start();
    h.post_receive(1, 7, {});
    h.post_receive(1, 8, {h.side[1].sge(0, 100)});
    SendRequest w = h.request(Operation::rdma_write_with_immediate, 1, 5000);
    w.immediate_or_key = 0xddccbbaa;
    ASSERT_EQ(h.post(0, w, {h.side[0].sge(0, 3000)}), 0);
    SendRequest s = h.request(Operation::send_with_immediate, 2);
    s.immediate_or_key = 0x12345678;
    ASSERT_EQ(h.post(0, s, {h.side[0].sge(0, 10)}), 0);
    h.run();
    const auto received = h.receives(1);
    ASSERT_EQ(received.size(), 2u);
    EXPECT_EQ(received[0].opcode, completion::Opcode::receive_rdma_with_immediate);
    EXPECT_EQ(received[0].immediate, 0xddccbbaau);
    EXPECT_EQ(received[0].byte_length, 3000u);
    EXPECT_EQ(received[0].flags, completion::kHasImmediate);
    EXPECT_EQ(received[1].opcode, completion::Opcode::receive);
    EXPECT_EQ(received[1].immediate, 0x12345678u);
    EXPECT_EQ(received[1].byte_length, 10u);
}

TEST(Transfer, Atomics) {
    Harness h;
    h.start();
    std::uint64_t value = 41;
    std::memcpy(h.side[1].memory.data() + 64, &value, 8);
    SendRequest add = h.request(Operation::fetch_add, 1, 64);
    add.compare_add = 1;
    SendRequest miss = h.request(Operation::compare_swap, 2, 64);
    miss.compare_add = 41;
    miss.swap = 7;
    SendRequest hit = h.request(Operation::compare_swap, 3, 64);
    hit.compare_add = 42;
    hit.swap = 8;
    ASSERT_EQ(h.post(0, add, {h.side[0].sge(0, 8)}), 0);
    ASSERT_EQ(h.post(0, miss, {h.side[0].sge(8, 8)}), 0);
    ASSERT_EQ(h.post(0, hit, {h.side[0].sge(16, 8)}), 0);
    h.run();
    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_EQ(sent[0].opcode, completion::Opcode::fetch_add);
    EXPECT_EQ(sent[2].opcode, completion::Opcode::compare_swap);
    EXPECT_EQ(sent[2].byte_length, 8u);
    std::uint64_t results[3];
    std::memcpy(results, h.side[0].memory.data(), 24);
    EXPECT_EQ(results[0], 41u);
    EXPECT_EQ(results[1], 42u);
    EXPECT_EQ(results[2], 42u);
    std::memcpy(&value, h.side[1].memory.data() + 64, 8);
    EXPECT_EQ(value, 8u);
}

// 2^31 bytes: one mebibyte, mapped 2048 times in a row.
TEST(Transfer, TwoGibibytesInOneMessage) {
    constexpr std::size_t kPiece = 1 << 20;
    const int fd = memfd_create("piece", 0);
    ASSERT_EQ(ftruncate(fd, kPiece), 0);
    void* area = mmap(nullptr, kMaxMessage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(area, MAP_FAILED);
    auto* base = static_cast<std::uint8_t*>(area);
    for (std::size_t at = 0; at < kMaxMessage; at += kPiece)
        ASSERT_EQ(mmap(base + at, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), base + at);
    Harness h;
    h.keep_log = false;
    h.attributes[0].path_mtu = h.attributes[1].path_mtu = 4096;
    h.start();
    memory::Keys keys{};
    ASSERT_EQ(
        h.side[1].regions.add(1, base, kMaxMessage, 0x1000, memory::kLocalWrite | memory::kRemoteWrite, keys),
        0);
    memory::Keys local{};
    ASSERT_EQ(h.side[0].regions.add(1, base, kMaxMessage, 0x1000, 0, local), 0);
    SendRequest r = h.request(Operation::rdma_write);
    r.remote_address = 0x1000;
    r.rkey = keys.rkey;
    base[5] = 77;
    ASSERT_EQ(h.post(0, r, {{0x1000, 0x80000000, local.lkey}}), 0);
    h.run();
    ASSERT_EQ(h.sends(0).size(), 1u);
    EXPECT_EQ(h.side[0].qp->counters().bytes_sent, kMaxMessage);
    EXPECT_EQ(h.side[1].qp->counters().bytes_received, kMaxMessage);
    EXPECT_EQ(base[kMaxMessage - kPiece + 5], 77);
    munmap(area, kMaxMessage);
    close(fd);
}

// A random mix of operations over a wire that loses, repeats and reorders: everything arrives once, in order.
class Lossy : public ::testing::TestWithParam<unsigned> {};

TEST_P(Lossy, EverythingArrivesOnce) { EXPECT_EQ(Workload(GetParam()).run(), ""); }

INSTANTIATE_TEST_SUITE_P(Seeds, Lossy, ::testing::Range(0u, 300u));

}  // namespace
}  // namespace verbena::transport::testing
