#include "faults/packet_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "faults/parse.h"
#include "wire/byte_order.h"

namespace verbena::faults {
namespace {

using Arrival = link::PacketFaults::Arrival;
using testing::ElementsAre;

constexpr std::uint32_t kQp = 0x1001, kPeer = 0x2002;

// Packets are written as their PSN, with what was done to them.
class PlannedPacketsTest : public testing::Test, public wire::PacketSink {
   protected:
    void plan(const char* text) {
        std::vector<PlannedRule> rules;
        PlanError error;
        ASSERT_TRUE(parse_plan(text, rules, error)) << error.to_string();
        board_ = Board::create("");
        for (const PlannedRule& each : rules) board_->add(each.rule, each.text);
        faults_ = std::make_unique<PlannedPackets>(
            PlannedPackets::Setup{board_.get(), "program", [this](const Rule&) { ports_++; },
                                  [this](int signal) { killed_ = signal; }});
    }

    void send(const wire::PacketSink*, std::uint32_t psn, wire::Opcode opcode, wire::PacketSink& way) {
        wire::Headers headers;
        headers.bth.opcode = opcode;
        headers.bth.destination_qp = kPeer;
        headers.bth.psn = psn;
        wire::OutPacket packet;
        packet.path = &path_;
        packet.header_length = static_cast<std::uint8_t>(wire::emit(headers, packet.header.data()));
        payload_ = {const_cast<char*>("eight..."), 8};
        packet.payload = {&payload_, 1};
        way.send(packet);
    }
    // One round of the queue pair's sending.
    std::vector<std::string> round(std::initializer_list<std::uint32_t> psns, Time now,
                                   wire::Opcode opcode = wire::Opcode::rc_send_only) {
        sent_.clear();
        const auto way = faults_->before(*this, kQp, now);
        for (const std::uint32_t psn : psns) send(nullptr, psn, opcode, *way);
        way->flush();
        return sent_;
    }
    Arrival arrive(std::uint32_t psn, Time now) {
        wire::Packet packet;
        packet.headers.bth.opcode = wire::Opcode::rc_send_only;
        packet.headers.bth.psn = psn;
        return faults_->arrives(kQp, packet, path_, now);
    }

    void send(const wire::OutPacket& packet) override {
        std::string text = std::to_string(wire::load_be24(packet.header.data() + 9));
        if (packet.damaged) text += " damaged";
        if (packet.note) text += " noted";
        EXPECT_EQ(packet.payload.size(), 1u);
        EXPECT_EQ(std::memcmp(packet.payload[0].iov_base, "eight...", 8), 0);
        EXPECT_EQ(packet.alone, packet.note != nullptr);
        sent_.push_back(text);
    }
    void flush() override {}

    std::unique_ptr<Board> board_;
    std::unique_ptr<PlannedPackets> faults_;
    wire::Path path_;
    iovec payload_{};
    std::vector<std::string> sent_;
    int ports_ = 0, killed_ = 0;
};

TEST_F(PlannedPacketsTest, DropsDuplicatesAndDamages) {
    plan("drop nth=2; duplicate nth=2; corrupt nth=2");
    // A packet that one rule took is not seen by the ones behind it.
    EXPECT_THAT(round({1, 2, 3, 4, 5}, 0), ElementsAre("1", "3", "3 noted", "4 damaged noted", "5"));
    EXPECT_EQ(board_->seen(0), 5u);
    EXPECT_EQ(board_->seen(1), 4u);
    EXPECT_EQ(board_->seen(2), 3u);
}

TEST_F(PlannedPacketsTest, HoldsBack) {
    plan("delay=5ms psn=2");
    EXPECT_THAT(round({1, 2, 3}, 0), ElementsAre("1", "3"));
    EXPECT_EQ(faults_->next_deadline(kQp), 5 * kMillisecond);
    EXPECT_EQ(faults_->next_deadline(kQp + 1), kNever);
    EXPECT_THAT(round({4}, kMillisecond), ElementsAre("4"));
    EXPECT_THAT(round({}, 5 * kMillisecond), ElementsAre("2 noted"));
    EXPECT_EQ(faults_->next_deadline(kQp), kNever);
}

TEST_F(PlannedPacketsTest, ReordersWithTheNextPacketOrAlone) {
    plan("reorder psn=2; reorder psn=5");
    EXPECT_THAT(round({1, 2, 3, 4}, 0), ElementsAre("1", "3", "2 noted", "4"));
    EXPECT_THAT(round({5}, 0), ElementsAre());
    const Time due = faults_->next_deadline(kQp);
    EXPECT_GT(due, 0);
    EXPECT_LT(due, kSecond);
    EXPECT_THAT(round({}, due), ElementsAre("5 noted"));
}

TEST_F(PlannedPacketsTest, AnswersRequests) {
    plan("nak=remote_access psn=7; rnr=3 psn=8");
    EXPECT_THAT(round({6, 7, 8}, 10), ElementsAre("6"));
    EXPECT_EQ(faults_->next_deadline(kQp), 10);
    EXPECT_EQ(faults_->late(kQp + 1, 10), nullptr);
    auto nak = faults_->late(kQp, 10);
    ASSERT_NE(nak, nullptr);
    EXPECT_EQ(nak->packet.headers.bth.opcode, wire::Opcode::rc_ack);
    EXPECT_EQ(nak->packet.headers.bth.psn, 7u);
    EXPECT_EQ(nak->packet.headers.aeth.syndrome, wire::nak(wire::NakCode::remote_access));
    auto rnr = faults_->late(kQp, 10);
    ASSERT_NE(rnr, nullptr);
    EXPECT_EQ(rnr->packet.headers.aeth.syndrome, wire::rnr_nak(3));
    EXPECT_EQ(faults_->late(kQp, 10), nullptr);
    EXPECT_EQ(faults_->next_deadline(kQp), kNever);
}

TEST_F(PlannedPacketsTest, AnswersXrcInItsOwnService) {
    plan("nak=remote_access");
    round({7}, 0, wire::Opcode::xrc_send_only);
    auto nak = faults_->late(kQp, 0);
    ASSERT_NE(nak, nullptr);
    EXPECT_EQ(nak->packet.headers.bth.opcode, wire::Opcode::xrc_ack);
}

TEST_F(PlannedPacketsTest, TouchesArrivals) {
    plan(
        "drop dir=in psn=1; duplicate dir=in psn=2; corrupt dir=in psn=3; delay=4ms dir=in psn=4; reorder "
        "dir=in psn=5");
    EXPECT_EQ(arrive(1, 0), Arrival::lost);
    EXPECT_EQ(arrive(2, 0), Arrival::twice);
    EXPECT_EQ(arrive(3, 0), Arrival::damaged);
    EXPECT_EQ(arrive(4, 0), Arrival::lost);
    EXPECT_EQ(faults_->late(kQp, kMillisecond), nullptr);
    EXPECT_EQ(faults_->late(kQp, 4 * kMillisecond)->packet.headers.bth.psn, 4u);
    EXPECT_EQ(arrive(5, 0), Arrival::lost);
    EXPECT_EQ(faults_->late(kQp, kMillisecond), nullptr);
    EXPECT_EQ(arrive(6, kMillisecond), Arrival::passes);
    EXPECT_EQ(faults_->late(kQp, kMillisecond)->packet.headers.bth.psn, 5u);
    EXPECT_THAT(round({1}, 0), ElementsAre("1"));  // none of this is about what leaves
}

TEST_F(PlannedPacketsTest, IsOnlyAboutWhatItNames) {
    plan(
        "drop qp=0x1001 dest_qp=0x2002 psn=16777214..1 opcode=send program=program; drop program=other; drop "
        "qp=9");
    EXPECT_THAT(round({16777213, 16777214, 0, 1, 2}, 0), ElementsAre("16777213", "2"));
    EXPECT_THAT(round({0}, 0, wire::Opcode::rc_ack), ElementsAre("0"));
    EXPECT_EQ(board_->seen(1), 0u);
    EXPECT_EQ(board_->seen(2), 0u);
}

TEST_F(PlannedPacketsTest, ReachesBeyondPackets) {
    plan("link down psn=1; kill=TERM psn=2; device fatal dir=in psn=3; kill dir=in psn=4");
    EXPECT_THAT(round({1, 2}, 0), ElementsAre());
    EXPECT_EQ(ports_, 1);
    EXPECT_EQ(killed_, 15);
    EXPECT_EQ(arrive(3, 0), Arrival::lost);
    EXPECT_EQ(ports_, 2);
    EXPECT_EQ(arrive(4, 0), Arrival::lost);
    EXPECT_EQ(killed_, 9);
    faults_->set_down(true);
    EXPECT_THAT(round({5}, 0), ElementsAre());
    EXPECT_EQ(arrive(6, 0), Arrival::lost);
    faults_->set_down(false);
    EXPECT_THAT(round({7}, 0), ElementsAre("7"));
}

TEST_F(PlannedPacketsTest, IsOverWhenItWasCleared) {
    plan("drop");
    EXPECT_THAT(round({1}, 0), ElementsAre());
    board_->clear();
    EXPECT_THAT(round({2}, 0), ElementsAre("2"));
    EXPECT_EQ(board_->fired(0), 1u);
}

}  // namespace
}  // namespace verbena::faults
