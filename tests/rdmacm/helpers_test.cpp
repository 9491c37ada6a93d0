// Every inline helper of rdma_verbs.h, on connected and on datagram ids, with receive queues of their own and
// with a shared one. Both sides live in one thread: whoever waits for a completion works for both.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

constexpr std::uint32_t kDepth = 4;
constexpr std::size_t kHalf = 3000, kBytes = 2 * kHalf;
constexpr std::size_t kGrh = 40;

enum class Receives { own, shared };

using Buffer = std::array<std::uint8_t, kGrh + kBytes>;

void fill(Buffer& buffer, std::uint8_t first) {
    for (std::size_t i = 0; i < buffer.size(); i++)
        buffer[i] = static_cast<std::uint8_t>(first + i * 7 + i / 256);
}

void* token(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

ibv_sge element(void* address, std::size_t length, const ibv_mr* region) {
    return {reinterpret_cast<std::uintptr_t>(address), static_cast<std::uint32_t>(length), region->lkey};
}

void create(rdma_cm_id* id, Receives receives) {
    if (receives == Receives::shared) {
        ibv_srq_init_attr shared{};
        shared.attr.max_wr = kDepth;
        shared.attr.max_sge = 2;
        ASSERT_EQ(outcome(rdma_create_srq(id, nullptr, &shared)), 0);
        ASSERT_TRUE(id->srq);
    }
    ibv_qp_init_attr attributes{};
    attributes.cap = {kDepth, kDepth, 2, 2, 0};
    attributes.qp_type = id->qp_type;
    ASSERT_EQ(outcome(rdma_create_qp(id, nullptr, &attributes)), 0);
    EXPECT_EQ(id->qp->srq, id->srq);
}

void expect_sent(rdma_cm_id* id, std::uintptr_t wr_id, ibv_wc_opcode opcode) {
    ibv_wc wc{};
    ASSERT_EQ(rdma_get_send_comp(id, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.wr_id, wr_id);
    EXPECT_EQ(wc.opcode, opcode);
}

void expect_received(rdma_cm_id* id, std::uintptr_t wr_id, std::size_t bytes) {
    ibv_wc wc{};
    ASSERT_EQ(rdma_get_recv_comp(id, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.wr_id, wr_id);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.byte_len, bytes);
    EXPECT_EQ(wc.qp_num, id->qp->qp_num);
}

class Helpers : public testing::TestWithParam<Receives> {
   protected:
    void TearDown() override {
        for (ibv_mr* region : {here_, there_, readable_, writable_})
            if (region) {
                EXPECT_EQ(outcome(rdma_dereg_mr(region)), 0);
            }
        for (rdma_cm_id* id : {active_, passive_}) {
            if (!id) continue;
            if (id->qp) rdma_destroy_qp(id);
            if (id->srq) rdma_destroy_srq(id);
            EXPECT_FALSE(id->srq);
        }
    }

    // Ids with queue pairs that may talk; `answer_` is what the active side heard of the passive one.
    void establish(rdma_port_space space) {
        std::uint16_t port = 0;
        server_.listener("127.0.0.1", port, space);
        active_ = client_.resolved("127.0.0.1", port, space);
        create(active_, GetParam());
        rdma_conn_param parameters{};
        parameters.retry_count = parameters.rnr_retry_count = 7;
        parameters.responder_resources = parameters.initiator_depth = 4;
        ASSERT_EQ(outcome(rdma_connect(active_, &parameters)), 0);
        passive_ = server_.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
        ASSERT_TRUE(passive_);
        create(passive_, GetParam());
        parameters.qp_num = passive_->qp->qp_num;
        ASSERT_EQ(outcome(rdma_accept(passive_, &parameters)), 0);
        answer_ = client_.expect(RDMA_CM_EVENT_ESTABLISHED);
        if (space == RDMA_PS_TCP) server_.expect(RDMA_CM_EVENT_ESTABLISHED);
        fill(from_, 1);
        fill(to_, 100);
        here_ = rdma_reg_msgs(active_, from_.data(), from_.size());
        there_ = rdma_reg_msgs(passive_, to_.data(), to_.size());
        ASSERT_TRUE(here_ && there_);
    }

    std::uint64_t remote() const { return reinterpret_cast<std::uintptr_t>(to_.data()); }
    bool equal() const { return std::memcmp(from_.data(), to_.data(), kBytes) == 0; }

    Side server_, client_;
    rdma_cm_id *active_ = nullptr, *passive_ = nullptr;
    Event answer_;
    Buffer from_{}, to_{};
    ibv_mr *here_ = nullptr, *there_ = nullptr, *readable_ = nullptr, *writable_ = nullptr;
};

TEST_P(Helpers, MessagesOfOnePiece) {
    establish(RDMA_PS_TCP);
    ASSERT_EQ(outcome(rdma_post_recv(passive_, token(11), to_.data(), kBytes, there_)), 0);
    ASSERT_EQ(outcome(rdma_post_send(active_, token(12), from_.data(), kBytes, here_, IBV_SEND_SIGNALED)), 0);
    expect_received(passive_, 11, kBytes);
    expect_sent(active_, 12, IBV_WC_SEND);
    EXPECT_TRUE(equal());
}

TEST_P(Helpers, MessagesOfTwoPieces) {
    establish(RDMA_PS_TCP);
    ibv_sge to[] = {element(to_.data(), kHalf, there_), element(to_.data() + kHalf, kHalf, there_)};
    ibv_sge from[] = {element(from_.data(), kHalf, here_), element(from_.data() + kHalf, kHalf, here_)};
    ASSERT_EQ(outcome(rdma_post_recvv(passive_, token(21), to, 2)), 0);
    ASSERT_EQ(outcome(rdma_post_sendv(active_, token(22), from, 2, IBV_SEND_SIGNALED)), 0);
    expect_received(passive_, 21, kBytes);
    expect_sent(active_, 22, IBV_WC_SEND);
    EXPECT_TRUE(equal());
}

// rdma_post_send with no region sends the bytes inline.
TEST_P(Helpers, InlineWithoutARegion) {
    establish(RDMA_PS_TCP);
    ASSERT_EQ(outcome(rdma_post_recv(passive_, token(31), to_.data(), kBytes, there_)), 0);
    char text[] = "inline";
    ASSERT_EQ(outcome(rdma_post_send(active_, token(32), text, sizeof text, nullptr,
                                     IBV_SEND_SIGNALED | IBV_SEND_INLINE)),
              0);
    expect_received(passive_, 31, sizeof text);
    expect_sent(active_, 32, IBV_WC_SEND);
    EXPECT_STREQ(reinterpret_cast<const char*>(to_.data()), text);
}

TEST_P(Helpers, WritesOfOneAndOfTwoPieces) {
    establish(RDMA_PS_TCP);
    writable_ = rdma_reg_write(passive_, to_.data(), to_.size());
    ASSERT_TRUE(writable_);
    ASSERT_EQ(outcome(rdma_post_write(active_, token(41), from_.data(), kBytes, here_, IBV_SEND_SIGNALED,
                                      remote(), writable_->rkey)),
              0);
    expect_sent(active_, 41, IBV_WC_RDMA_WRITE);
    EXPECT_TRUE(equal());
    fill(from_, 77);
    ibv_sge from[] = {element(from_.data(), kHalf, here_), element(from_.data() + kHalf, kHalf, here_)};
    ASSERT_EQ(
        outcome(rdma_post_writev(active_, token(42), from, 2, IBV_SEND_SIGNALED, remote(), writable_->rkey)),
        0);
    expect_sent(active_, 42, IBV_WC_RDMA_WRITE);
    EXPECT_TRUE(equal());
}

TEST_P(Helpers, ReadsOfOneAndOfTwoPieces) {
    establish(RDMA_PS_TCP);
    readable_ = rdma_reg_read(passive_, to_.data(), to_.size());
    ASSERT_TRUE(readable_);
    ASSERT_EQ(outcome(rdma_post_read(active_, token(51), from_.data(), kBytes, here_, IBV_SEND_SIGNALED,
                                     remote(), readable_->rkey)),
              0);
    expect_sent(active_, 51, IBV_WC_RDMA_READ);
    EXPECT_TRUE(equal());
    fill(to_, 33);
    ibv_sge into[] = {element(from_.data(), kHalf, here_), element(from_.data() + kHalf, kHalf, here_)};
    ASSERT_EQ(
        outcome(rdma_post_readv(active_, token(52), into, 2, IBV_SEND_SIGNALED, remote(), readable_->rkey)),
        0);
    expect_sent(active_, 52, IBV_WC_RDMA_READ);
    EXPECT_TRUE(equal());
}

// What a region of each helper allows the peer: messages nothing, rdma_reg_read no writing.
TEST_P(Helpers, RegionsAllowWhatTheirNameSays) {
    establish(RDMA_PS_TCP);
    readable_ = rdma_reg_read(passive_, to_.data(), to_.size());
    ASSERT_TRUE(readable_);
    const Buffer before = to_;
    ASSERT_EQ(outcome(rdma_post_write(active_, token(61), from_.data(), kBytes, here_, IBV_SEND_SIGNALED,
                                      remote(), readable_->rkey)),
              0);
    ibv_wc wc{};
    ASSERT_EQ(rdma_get_send_comp(active_, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(to_, before);
}

TEST_P(Helpers, RefusalsAreMinusOneAndErrno) {
    establish(RDMA_PS_TCP);
    ibv_sge many[3];
    for (ibv_sge& one : many) one = element(from_.data(), 1, here_);
    EXPECT_EQ(outcome(rdma_post_sendv(active_, nullptr, many, 3, 0)), EINVAL);
    EXPECT_EQ(outcome(rdma_post_recvv(active_, nullptr, many, 3)), EINVAL);
    for (std::uint32_t i = 0; i < kDepth; i++)
        EXPECT_EQ(outcome(rdma_post_recvv(active_, nullptr, many, 1)), 0);
    EXPECT_EQ(outcome(rdma_post_recvv(active_, nullptr, many, 1)), ENOMEM);
}

TEST_P(Helpers, Datagrams) {
    establish(RDMA_PS_UDP);
    ibv_ah* handle = ibv_create_ah(active_->pd, &answer_.ud.ah_attr);
    ASSERT_TRUE(handle);
    constexpr std::size_t kSmall = 200;
    ASSERT_EQ(outcome(rdma_post_recv(passive_, token(71), to_.data(), kGrh + kSmall, there_)), 0);
    ASSERT_EQ(outcome(rdma_post_ud_send(active_, token(72), from_.data(), kSmall, here_, IBV_SEND_SIGNALED,
                                        handle, answer_.ud.qp_num)),
              0);
    expect_received(passive_, 71, kGrh + kSmall);
    expect_sent(active_, 72, IBV_WC_SEND);
    EXPECT_EQ(std::memcmp(to_.data() + kGrh, from_.data(), kSmall), 0);
    // A connected operation is none of a datagram id's.
    EXPECT_EQ(outcome(rdma_post_write(active_, nullptr, from_.data(), 8, here_, 0, remote(), 1)), EINVAL);
    EXPECT_EQ(ibv_destroy_ah(handle), 0);
}

INSTANTIATE_TEST_SUITE_P(Queues, Helpers, testing::Values(Receives::own, Receives::shared),
                         [](const auto& queues) { return queues.param == Receives::own ? "own" : "shared"; });

}  // namespace
}  // namespace verbena::rdmacm_test
