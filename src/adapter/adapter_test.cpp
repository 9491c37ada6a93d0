// Two adapters joined by a link in memory, under a clock of the test's own.
#include "adapter/adapter.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "adapter/test_endpoint.h"
#include "base/heavy_barrier.h"
#include "link/steering.h"

namespace verbena::adapter {
namespace {

using completion::Status;
using testing::Endpoint;
using testing::MemoryLink;
using transport::Operation;
using transport::QpState;

class AdapterTest : public testing::Pair {};

TEST_F(AdapterTest, ASendArrivesAndBothSidesComplete) {
    std::memcpy(left_.memory.data(), "hello", 6);
    ASSERT_EQ(right_.post_receive(100, 1000, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 6, now_), 0);
    settle();
    EXPECT_STREQ(reinterpret_cast<const char*>(right_.memory.data() + 100), "hello");
    expect_success(right_.poll(), 1);
    expect_success(left_.poll(), 1);
}

TEST_F(AdapterTest, CountersLieInTheTablesAndOutliveTheirQueuePair) {
    ASSERT_EQ(right_.post_receive(100, 1000, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 6, now_), 0);
    settle();
    const transport::BusyCounters& sender = left_.segment->busy_counters_of(left_.segment->queue_pairs()[0]);
    const transport::BusyCounters& receiver =
        right_.segment->busy_counters_of(right_.segment->queue_pairs()[0]);
    EXPECT_EQ(&sender, &left_.qp->busy_counters());
    EXPECT_EQ(&left_.segment->queue_pairs()[0].counters, &left_.qp->rare_counters());
    EXPECT_EQ(sender.packets_sent, 1u);
    EXPECT_EQ(sender.bytes_sent, 6u);
    EXPECT_EQ(sender.wire_bytes_sent, 12u + 8 + 4);      // BTH, payload with its padding, ICRC
    EXPECT_EQ(sender.wire_bytes_received, 12u + 4 + 4);  // an acknowledgement: BTH, AETH, ICRC
    EXPECT_EQ(sender.messages_sent, 1u);
    EXPECT_EQ(receiver.wire_bytes_received, sender.wire_bytes_sent);
    EXPECT_EQ(receiver.wire_bytes_sent, sender.wire_bytes_received);
    EXPECT_EQ(receiver.messages_received, 1u);

    left_.adapter->destroy_qp(left_.qp, now_);
    left_.qp = left_.create();
    EXPECT_EQ(left_.segment->queue_pairs()[0].number, left_.qp->number());  // the same record
    EXPECT_EQ(sender.packets_sent, 0u);
    EXPECT_EQ(left_.segment->totals_of(0).own.packets_sent, 1u);
    EXPECT_EQ(left_.segment->totals_of(0).own.messages_sent, 1u);
    EXPECT_EQ(left_.segment->header().retirements, 2u);
}

TEST_F(AdapterTest, AMessageOfManyPacketsArrives) {
    constexpr std::uint32_t kLength = 1 << 20;
    for (std::uint32_t i = 0; i < kLength; i++) left_.memory[i] = static_cast<std::uint8_t>(i * 31 + i / 977);
    ASSERT_EQ(left_.post(Operation::rdma_write, 0, kLength, now_, right_.address_of(4096), right_.keys.rkey),
              0);
    ASSERT_EQ(
        left_.post(Operation::rdma_read, 2 << 20, kLength, now_, right_.address_of(4096), right_.keys.rkey),
        0);
    for (int i = 0; i < 50; i++) settle();
    expect_success(left_.poll(), 2);
    EXPECT_EQ(std::memcmp(left_.memory.data(), right_.memory.data() + 4096, kLength), 0);
    EXPECT_EQ(std::memcmp(left_.memory.data(), left_.memory.data() + (2 << 20), kLength), 0);
}

TEST_F(AdapterTest, PacketsThatAreNotForUsAreCountedAndDropped) {
    auto deliver = [&](std::vector<std::uint8_t> bytes) {
        wire::Path path;
        path.source = Gid::from_ipv4(0x0a000001);
        path.destination = Gid::from_ipv4(0x0a000002);
        links_[1].deliver({path, std::move(bytes)});
        right_.adapter->progress(now_, false);
    };
    auto packet_to = [](std::uint32_t qpn) {
        std::vector<std::uint8_t> bytes(32);
        wire::store_be24(bytes.data() + 5, qpn);
        return bytes;
    };
    AdapterCounters& counters = right_.segment->counters();
    deliver({1, 2, 3});
    deliver({});
    EXPECT_EQ(counters.runts, 2u);
    const std::uint32_t ours = right_.qp->number();
    deliver(packet_to(ours ^ 1));
    EXPECT_EQ(counters.no_queue_pair, 1u);
    deliver(packet_to(ours));
    EXPECT_EQ(counters.bad_icrc, 1u);
    auto unknown_opcode = packet_to(ours);
    unknown_opcode[0] = 0x1f;
    wire::Path path;
    path.source = Gid::from_ipv4(0x0a000001);
    path.destination = Gid::from_ipv4(0x0a000002);
    wire::store_icrc(unknown_opcode.data() + 28,
                     wire::icrc_compute(path, wire::kUdpPort, unknown_opcode, 0, true));
    deliver(unknown_opcode);
    EXPECT_EQ(counters.malformed, 1u);
    deliver(packet_to(77 << link::kBlockBits | 5));
    EXPECT_EQ(counters.strays, 1u);
    EXPECT_EQ(links_[1].strays, (std::vector<std::uint32_t>{77 << link::kBlockBits | 5}));
    EXPECT_EQ(counters.received, 6u);
}

// A ping-pong that acknowledges before it answers pays for a packet each time.
TEST_F(AdapterTest, AcknowledgementsWaitForAnEmptyPoll) {
    ASSERT_EQ(right_.post_receive(100, 1000, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 6, now_), 0);
    EXPECT_EQ(right_.adapter->progress(now_, true), 1u);
    expect_success(right_.poll(), 1);
    EXPECT_EQ(links_[0].waiting(), 0u);
    EXPECT_EQ(right_.adapter->progress(now_, true), 0u);
    EXPECT_EQ(links_[0].waiting(), 1u);
}

// A sender that waits for many of them goes on while the others' messages are still being taken.
TEST_F(AdapterTest, AcknowledgementsOfManyQueuePairsDoNotWait) {
    std::vector<transport::QueuePair*> more[2];
    const auto arrive = [&](unsigned count) {
        for (unsigned i = 0; i < count; i++) {
            for (Endpoint* end : {&left_, &right_}) more[end == &right_].push_back(end->qp = end->create());
            left_.connect(right_, now_);
            right_.connect(left_, now_);
            ASSERT_EQ(right_.post_receive(0, 64, now_), 0);
            ASSERT_EQ(left_.post(Operation::send, 0, 8, now_), 0);
        }
        left_.adapter->progress(now_, false);
        right_.adapter->progress(now_, false);
        expect_success(right_.poll(), count);
    };
    transport::QueuePair* const first[] = {left_.qp, right_.qp};
    arrive(10);
    EXPECT_EQ(links_[0].waiting(), 0u);
    arrive(20);
    EXPECT_EQ(links_[0].waiting(), 30u);
    settle();
    expect_success(left_.poll(), 30);
    left_.qp = first[0], right_.qp = first[1];
    for (transport::QueuePair* qp : more[0]) left_.adapter->destroy_qp(qp, now_);
    for (transport::QueuePair* qp : more[1]) right_.adapter->destroy_qp(qp, now_);
}

TEST_F(AdapterTest, AnOwedAcknowledgementLeavesOnRequest) {
    ASSERT_EQ(right_.post_receive(100, 1000, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 6, now_), 0);
    right_.adapter->progress(now_, false);
    EXPECT_EQ(links_[0].waiting(), 0u);
    right_.adapter->push_acknowledgements(*right_.qp, now_);
    EXPECT_EQ(links_[0].waiting(), 1u);
}

TEST_F(AdapterTest, AnOwedAcknowledgementLeavesByItsTimer) {
    ASSERT_EQ(right_.post_receive(100, 1000, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 6, now_), 0);
    right_.adapter->progress(now_, false);
    const Time deadline = right_.adapter->next_deadline();
    EXPECT_LE(deadline, now_ + 100 * kMicrosecond);
    right_.adapter->progress(deadline, false);
    EXPECT_EQ(links_[0].waiting(), 1u);
}

TEST_F(AdapterTest, ALostPacketIsSentAgainByTheTimer) {
    std::memcpy(left_.memory.data(), "again", 6);
    ASSERT_EQ(right_.post_receive(100, 1000, now_), 0);
    links_[0].peer = &links_[0];  // into nothing
    ASSERT_EQ(left_.post(Operation::send, 0, 6, now_), 0);
    links_[0].peer = &links_[1];
    for (int i = 0; i < 1000 && right_.cq.waiting() == 0; i++) {
        now_ = std::max(now_ + kMicrosecond, std::min(left_.adapter->next_deadline(), now_ + kSecond));
        left_.adapter->progress(now_, true);
        right_.adapter->progress(now_, true);
    }
    expect_success(right_.poll(), 1);
    settle();
    expect_success(left_.poll(), 1);
}

// An acknowledgement waits in the helper's hands for the program's answer where answers come.
class HelperOwes : public AdapterTest {
   protected:
    // After a message from the left.
    bool waits() {
        EXPECT_EQ(left_.post(Operation::rdma_write, 0, 6, now_, right_.address_of(100), right_.keys.rkey), 0);
        unsigned done = 0;
        for (unsigned i = 0; i < 3; i++) right_.adapter->progress_in_turn(now_);
        EXPECT_TRUE(right_.adapter->glance(now_, done, true));
        return links_[0].waiting() == 0;
    }
    void answer() {
        EXPECT_EQ(right_.post(Operation::rdma_write, 0, 6, now_, left_.address_of(100), left_.keys.rkey), 0);
        for (unsigned i = 0; i < 2; i++) left_.adapter->progress(now_, true);
        right_.adapter->progress(now_, true);
        left_.poll();
        right_.poll();
        now_ += kMillisecond;
    }
    // From now on answers are expected.
    void answer_in_time() {
        EXPECT_FALSE(waits());
        now_ += 20 * kMicrosecond;  // had it waited, it would have had company
        answer();
        EXPECT_TRUE(waits());
    }
};

TEST_F(HelperOwes, AndWaitsForCompany) {
    answer_in_time();
    answer();
    EXPECT_TRUE(waits());

    // No answer: the timer sends it, and the next one does not wait.
    EXPECT_LE(right_.adapter->next_deadline(), now_ + 100 * kMicrosecond);
    now_ += 100 * kMicrosecond;
    right_.adapter->progress_in_turn(now_);
    EXPECT_EQ(links_[0].waiting(), 1u);
    left_.adapter->progress(now_, true);
    EXPECT_FALSE(waits());
}

// The program finds what the helper took, and answers it; or it looks once more, and waits for something.
TEST_F(HelperOwes, UntilTheProgramHasLookedTwice) {
    answer_in_time();
    right_.adapter->progress(now_, true);
    EXPECT_EQ(links_[0].waiting(), 0u);
    right_.adapter->progress(now_, true);
    EXPECT_EQ(links_[0].waiting(), 1u);
}

// What has been acknowledged already must not be flushed only because nobody looked at the acknowledgement.
TEST_F(AdapterTest, WhatHasArrivedIsProcessedBeforeTheErrorState) {
    ASSERT_EQ(right_.post_receive(100, 1000, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 6, now_), 0);
    right_.adapter->progress(now_, true);
    right_.adapter->progress(now_, true);
    ASSERT_EQ(links_[0].waiting(), 1u);
    transport::Attributes error;
    error.state = QpState::error;
    ASSERT_EQ(left_.adapter->modify(*left_.qp, error, transport::kAttrState, now_), 0);
    expect_success(left_.poll(), 1);
}

// A link may bring one packet at a time (link/local_link.cpp).
TEST_F(AdapterTest, HoweverSlowlyTheLinkBringsIt) {
    links_[1].at_once = 1;
    for (unsigned sent = 0; sent < 200; sent++) links_[1].deliver({});
    right_.adapter->settle(now_);
    EXPECT_EQ(links_[1].waiting(), 0u);
}

TEST_F(AdapterTest, ReceivesPostedInTheErrorStateAreFlushed) {
    transport::Attributes error;
    error.state = QpState::error;
    ASSERT_EQ(right_.adapter->modify(*right_.qp, error, transport::kAttrState, now_), 0);
    ASSERT_EQ(right_.post_receive(100, 1000, now_), 0);
    const auto completions = right_.poll();
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::work_request_flushed);
}

TEST_F(AdapterTest, NoReceivesInTheResetState) {
    transport::QueuePair* fresh = right_.create();
    std::size_t index;
    const transport::ReceiveRequest request{1, {}};
    EXPECT_EQ(right_.adapter->post_receive(*fresh, {&request, 1}, index, now_), EINVAL);
    EXPECT_EQ(index, 0u);
    right_.adapter->destroy_qp(fresh, now_);
}

TEST_F(AdapterTest, ThePostThatFailsIsNamed) {
    std::vector<transport::ReceiveRequest> requests(70);
    std::size_t index;
    EXPECT_EQ(right_.adapter->post_receive(*right_.qp, requests, index, now_), ENOMEM);
    EXPECT_EQ(index, 64u);
}

TEST_F(AdapterTest, NumbersAreSpreadAndRestAfterUse) {
    std::set<std::uint32_t> seen;
    std::vector<transport::QueuePair*> qps;
    for (int i = 0; i < 20; i++) {
        qps.push_back(left_.create());
        ASSERT_NE(qps.back(), nullptr);
        EXPECT_EQ(link::block_of(qps.back()->number()), 1u);
        EXPECT_TRUE(seen.insert(qps.back()->number()).second);
    }
    EXPECT_GT(*seen.rbegin() - *seen.begin(), 1000u);
    for (transport::QueuePair* qp : qps) left_.adapter->destroy_qp(qp, now_);

    // One number only, used by a connected queue pair: free again after its quarantine.
    MemoryLink link;
    auto segment = Segment::create_on_heap({.regions = 8, .queue_pairs = 8, .objects = 1});
    Adapter adapter({&link, segment.get(), 0x5000, 1, 1});
    transport::QpSetup setup = left_.qp->setup();
    setup.receive_queue = std::make_shared<transport::ReceiveQueue>(1, 1);
    transport::QueuePair* qp = adapter.create_qp(setup, now_);
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(qp->number(), 0x5000u);
    EXPECT_EQ(adapter.create_qp(setup, now_), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    adapter.destroy_qp(qp, now_);  // never connected: no rest needed
    qp = adapter.create_qp(setup, now_);
    ASSERT_NE(qp, nullptr);
    transport::Attributes a;
    a.port = 1;
    a.state = QpState::init;
    ASSERT_EQ(adapter.modify(*qp, a,
                             transport::kAttrState | transport::kAttrPkeyIndex | transport::kAttrPort |
                                 transport::kAttrAccessFlags,
                             now_),
              0);
    a.state = QpState::rtr;
    a.path.source = a.path.destination = Gid::from_ipv4(0x0a000001);
    ASSERT_EQ(adapter.modify(*qp, a,
                             transport::kAttrState | transport::kAttrAv | transport::kAttrPathMtu |
                                 transport::kAttrDestQpn | transport::kAttrRqPsn |
                                 transport::kAttrMaxDestRdAtomic | transport::kAttrMinRnrTimer,
                             now_),
              0);
    adapter.destroy_qp(qp, now_);
    EXPECT_EQ(adapter.create_qp(setup, now_ + kNumberQuarantine - 1), nullptr);
    qp = adapter.create_qp(setup, now_ + kNumberQuarantine);
    EXPECT_NE(qp, nullptr);
    adapter.destroy_qp(qp, now_);
    adapter.add_numbers(0x7000, 4096);
    EXPECT_NE(adapter.create_qp(setup, now_), nullptr);
}

TEST_F(AdapterTest, TheExportedRecordFollowsTheQueuePair) {
    const QpRecord* record = nullptr;
    for (const QpRecord& each : right_.segment->queue_pairs())
        if (each.number == right_.qp->number()) record = &each;
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(record->state, static_cast<std::uint32_t>(QpState::rts));
    EXPECT_EQ(record->peer, Gid::from_ipv4(0x0a000001));
    EXPECT_EQ(record->peer_qp, left_.qp->number());
    ASSERT_EQ(left_.post(Operation::rdma_write, 0, 8, now_, right_.address_of(0), right_.keys.rkey), 0);
    settle();
    EXPECT_EQ(right_.segment->busy_counters_of(*record).packets_received, 1u);
    right_.adapter->destroy_qp(right_.qp, now_);
    right_.qp = nullptr;
    EXPECT_EQ(record->number, 0u);
}

// What is counted at a queue pair has to come there, so that peers of this host may not do it by themselves.
TEST_F(AdapterTest, TheExportedRecordLeavesOutWhatIsCounted) {
    const auto record = [&] {
        for (const QpRecord& each : right_.segment->queue_pairs())
            if (each.number == right_.qp->number()) return each.access;
        return memory::Access{0};
    };
    transport::Attributes attributes;
    attributes.state = QpState::reset;
    ASSERT_EQ(right_.adapter->modify(*right_.qp, attributes, transport::kAttrState, now_), 0);
    const auto counter = std::make_shared<transport::CompletionCounter>(false);
    ASSERT_EQ(right_.adapter->attach(*right_.qp, counter,
                                     1u << static_cast<unsigned>(transport::Counted::remote_write)),
              0);
    attributes = {};
    attributes.state = QpState::init;
    attributes.port = 1;
    attributes.access = memory::kRemoteWrite | memory::kRemoteRead;
    ASSERT_EQ(right_.adapter->modify(*right_.qp, attributes,
                                     transport::kAttrState | transport::kAttrPkeyIndex |
                                         transport::kAttrPort | transport::kAttrAccessFlags,
                                     now_),
              0);
    EXPECT_EQ(record(), memory::kRemoteRead);
    transport::Attributes answer;
    right_.adapter->query(*right_.qp, answer);
    EXPECT_EQ(answer.access, memory::kRemoteWrite | memory::kRemoteRead);
}

// Threads post, poll, create and destroy at once; every request completes exactly once.
TEST_F(AdapterTest, ThreadsShareAnAdapter) {
    constexpr unsigned kWrites = 500;
    allow_heavy_barriers();
    std::atomic<bool> done{false};
    std::atomic<Time> clock{now_};
    std::thread target([&] {
        while (!done) {
            right_.adapter->progress(clock, true);
            std::this_thread::yield();
        }
    });
    std::thread churn([&] {
        while (!done) {
            transport::QueuePair* qp = right_.create();
            if (qp) right_.adapter->destroy_qp(qp, clock);
            std::this_thread::yield();
        }
    });
    std::atomic<unsigned> completed{0};
    std::vector<std::thread> posters;
    for (unsigned t = 0; t < 2; t++)
        posters.emplace_back([&, t] {
            for (unsigned posted = 0; posted < kWrites;) {
                const transport::Sge sge{left_.address_of(t * 100), 100, left_.keys.lkey};
                transport::SendRequest request;
                request.operation = Operation::rdma_write;
                request.flags = transport::kSignaled;
                request.sges = {&sge, 1};
                request.remote_address = right_.address_of(t * 100);
                request.rkey = right_.keys.rkey;
                std::size_t index;
                if (left_.adapter->post_send(left_.qp->number(), {&request, 1}, index, clock) == 0) posted++;
                left_.adapter->progress(clock, true);
                for (const auto& completion : left_.poll()) {
                    EXPECT_EQ(completion.status, Status::success);
                    completed++;
                }
                std::this_thread::yield();
            }
        });
    for (std::thread& thread : posters) thread.join();
    for (int i = 0; i < 100000 && completed < 2 * kWrites; i++) {
        left_.adapter->progress(clock, true);
        completed += static_cast<unsigned>(left_.poll().size());
        std::this_thread::yield();
    }
    done = true;
    target.join();
    churn.join();
    EXPECT_EQ(completed, 2 * kWrites);
}

}  // namespace
}  // namespace verbena::adapter
