#include "faults/cm_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faults/parse.h"
#include "wire/cm_messages.h"

namespace verbena::faults {
namespace {

using testing::ElementsAre;
using Mad = std::array<std::uint8_t, wire::kMadLength>;

template <class Message>
Mad mad_of(const Message& message) {
    Mad mad{};
    wire::MadHeader header;
    header.attribute_id = Message::kAttribute;
    header.transaction_id = 77;
    wire::encode(header, wire::mad_header(std::span<std::uint8_t, wire::kMadLength>(mad)));
    wire::encode(message, wire::cm_message(std::span<std::uint8_t, wire::kMadLength>(mad)));
    return mad;
}

wire::CmAttribute attribute_of(MadBytes mad) {
    wire::MadHeader header;
    wire::decode(wire::mad_header(mad), header);
    return header.attribute_id;
}

class CmFaultsTest : public testing::Test {
   protected:
    void plan(const char* text) {
        std::vector<PlannedRule> rules;
        PlanError error;
        ASSERT_TRUE(parse_plan(text, rules, error)) << error.to_string();
        auto board = Board::create("");
        for (const PlannedRule& each : rules) board->add(each.rule, each.text);
        board_ = faults_.board_of(board->fd());
        ASSERT_NE(board_, nullptr);
        EXPECT_EQ(faults_.board_of(board->fd()), board_);
    }
    std::vector<std::string> take() { return std::exchange(log_, {}); }

    wire::Path path_;
    std::vector<std::string> log_;
    Mad last_{};
    wire::Path last_path_;
    CmFaults faults_{{[this](const wire::Path& path, std::uint32_t, MadBytes mad, const Mark& mark) {
                          log_.push_back(std::string("out ") + wire::to_string(attribute_of(mad)) +
                                         (mark.lost ? " lost" : "") + (mark.damaged ? " damaged" : "") +
                                         (mark.note ? " noted" : ""));
                          std::copy(mad.begin(), mad.end(), last_.begin());
                          last_path_ = path;
                      },
                      [this](const wire::Path& path, std::uint32_t, MadBytes mad, Time) {
                          log_.push_back(std::string("in ") + wire::to_string(attribute_of(mad)));
                          std::copy(mad.begin(), mad.end(), last_.begin());
                          last_path_ = path;
                      }}};
    std::shared_ptr<Board> board_;
};

TEST_F(CmFaultsTest, LetsPassWhatNoPlanIsAbout) {
    faults_.send(path_, 1, mad_of(wire::Rtu{}), 0);
    faults_.arrived(path_, 1, mad_of(wire::Rep{}), 0);
    faults_.arrived(path_, 1, Mad{}, 0);
    EXPECT_THAT(take(), ElementsAre("out RTU", "in REP", "in unknown"));
    EXPECT_EQ(faults_.next_deadline(), kNever);
}

TEST_F(CmFaultsTest, DropsTheNth) {
    plan("drop cm=REP nth=2; corrupt cm=REP nth=2; duplicate cm=REQ; drop cm=DREQ dir=in");
    for (int i = 0; i < 3; i++) faults_.send(path_, 1, mad_of(wire::Rep{}), 0);
    EXPECT_THAT(take(), ElementsAre("out REP", "out REP lost noted", "out REP damaged noted"));
    faults_.send(path_, 1, mad_of(wire::Req{}), 0);
    EXPECT_THAT(take(), ElementsAre("out REQ", "out REQ noted"));
    faults_.arrived(path_, 1, mad_of(wire::Dreq{}), 0);
    EXPECT_THAT(take(), ElementsAre());
    faults_.send(path_, 1, mad_of(wire::Dreq{}), 0);
    EXPECT_THAT(take(), ElementsAre("out DREQ"));
}

TEST_F(CmFaultsTest, HoldsBack) {
    plan("delay=2s cm=RTU; delay=1s cm=RTU dir=in");
    faults_.send(path_, 1, mad_of(wire::Rtu{}), 5);
    EXPECT_THAT(take(), ElementsAre());
    EXPECT_EQ(faults_.next_deadline(), 5 + 2 * kSecond);
    faults_.arrived(path_, 1, mad_of(wire::Rtu{}), 5);
    faults_.advance(5 + kSecond);
    EXPECT_THAT(take(), ElementsAre("in RTU"));
    faults_.advance(5 + 2 * kSecond);
    EXPECT_THAT(take(), ElementsAre("out RTU noted"));
    EXPECT_EQ(faults_.next_deadline(), kNever);
}

TEST_F(CmFaultsTest, RefusesAsThePeerWould) {
    plan("refuse cm=REQ reason=8");
    path_.source = Gid::from_ipv4(0x0a000001);
    path_.destination = Gid::from_ipv4(0x0a000002);
    wire::Req req;
    req.local_comm_id = 0x1234;
    faults_.send(path_, 1, mad_of(req), 3);
    EXPECT_THAT(take(), ElementsAre("out REQ lost noted"));
    EXPECT_EQ(faults_.next_deadline(), 3);
    faults_.advance(3);
    EXPECT_THAT(take(), ElementsAre("in REJ"));
    wire::Rej rej;
    wire::decode(wire::cm_message(MadBytes(last_)), rej);
    EXPECT_EQ(rej.remote_comm_id, 0x1234u);
    EXPECT_EQ(rej.reason, wire::RejReason::invalid_service_id);
    EXPECT_EQ(last_path_.source, path_.destination);
    EXPECT_EQ(last_path_.destination, path_.source);
}

TEST_F(CmFaultsTest, RefusesWhatArrives) {
    plan("refuse cm=REQ dir=in");
    faults_.arrived(path_, 1, mad_of(wire::Req{}), 3);
    EXPECT_THAT(take(), ElementsAre("out REJ noted"));
}

TEST_F(CmFaultsTest, ForgetsPlansThatNobodyKeeps) {
    plan("drop cm=REQ");
    board_.reset();
    faults_.send(path_, 1, mad_of(wire::Req{}), 0);
    EXPECT_THAT(take(), ElementsAre("out REQ"));
}

}  // namespace
}  // namespace verbena::faults
