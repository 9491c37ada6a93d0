#include "faults/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "faults/words.h"
#include "wire/opcode.h"
#include "wire/packet.h"

namespace verbena::faults {
namespace {

using testing::HasSubstr;

Rule rule_of(std::string_view text) {
    std::vector<PlannedRule> rules;
    PlanError error;
    EXPECT_TRUE(parse_plan(text, rules, error)) << text << ": " << error.to_string();
    return rules.size() == 1 ? rules[0].rule : Rule{};
}

PlanError error_of(std::string_view text) {
    std::vector<PlannedRule> rules;
    PlanError error;
    EXPECT_FALSE(parse_plan(text, rules, error)) << text;
    return error;
}

TEST(Plan, DropsByOpcode) {
    const Rule rule = rule_of("drop opcode=RC_SEND_ONLY nth=3");
    EXPECT_EQ(rule.action, Action::drop);
    EXPECT_EQ(rule.subject, Subject::packet);
    EXPECT_EQ(rule.direction, Direction::out);
    EXPECT_TRUE(rule.takes_opcode(0x04));
    EXPECT_FALSE(rule.takes_opcode(0x05));
    EXPECT_EQ(rule.first, 3u);
    EXPECT_EQ(rule.last, 3u);
}

TEST(Plan, OpcodesHaveManyNames) {
    EXPECT_TRUE(rule_of("drop opcode=RC_RDMA_WRITE_ONLY").takes_opcode(0x0a));
    EXPECT_TRUE(rule_of("drop opcode=0x0a").takes_opcode(0x0a));
    const Rule sends = rule_of("drop opcode=send");
    EXPECT_TRUE(sends.takes_opcode(0x04) && sends.takes_opcode(0x64) && sends.takes_opcode(0xa4));
    EXPECT_FALSE(sends.takes_opcode(0x11));
    const Rule of_uc = rule_of("drop opcode=UC_*,ack");
    EXPECT_TRUE(of_uc.takes_opcode(0x20) && of_uc.takes_opcode(0x2b) && of_uc.takes_opcode(0x11));
    EXPECT_FALSE(of_uc.takes_opcode(0x04));
}

TEST(Plan, TakesEveryConditionOfPackets) {
    const Rule rule = rule_of(
        "corrupt qp=0x11 dest_qp=18 psn=100..120 dir=in nth=2.. times=5 probability=0.5 seed=7 "
        "program=rping");
    EXPECT_EQ(rule.action, Action::corrupt);
    EXPECT_EQ(rule.direction, Direction::in);
    EXPECT_EQ(rule.qp, 0x11u);
    EXPECT_EQ(rule.destination_qp, 18u);
    EXPECT_EQ(rule.first_psn, 100u);
    EXPECT_EQ(rule.last_psn, 120u);
    EXPECT_EQ(rule.first, 2u);
    EXPECT_EQ(rule.last, UINT64_MAX);
    EXPECT_EQ(rule.times, 5u);
    EXPECT_EQ(rule.chance, 0x7fffffffu);
    EXPECT_EQ(rule.seed, 7u);
    EXPECT_STREQ(rule.program.data(), "rping");
}

TEST(Plan, TimesHaveUnits) {
    EXPECT_EQ(rule_of("delay=5ms").time, 5 * kMillisecond);
    EXPECT_EQ(rule_of("delay cm=RTU 2s").time, 2 * kSecond);
    EXPECT_EQ(rule_of("delay 1.5s opcode=ack").time, 1500 * kMillisecond);
    EXPECT_EQ(rule_of("link down opcode=send nth=2 for=100us").time, 100 * kMicrosecond);
}

TEST(Plan, AnswersWithNaks) {
    EXPECT_EQ(rule_of("nak=remote_access").code, static_cast<int>(wire::NakCode::remote_access));
    EXPECT_EQ(rule_of("rnr=14 qp=3").code, 14);
    // Only requests of reliable services are answered.
    const Rule rule = rule_of("nak=remote_operational");
    EXPECT_TRUE(rule.takes_opcode(0x04) && rule.takes_opcode(0xac));
    EXPECT_FALSE(rule.takes_opcode(0x11) || rule.takes_opcode(0x24) || rule.takes_opcode(0x64));
}

TEST(Plan, KnowsMessagesOfTheConnectionManager) {
    const Rule refused = rule_of("refuse cm=REQ reason=8");
    EXPECT_EQ(refused.subject, Subject::cm);
    EXPECT_TRUE(refused.takes_message(0x10));
    EXPECT_FALSE(refused.takes_message(0x13));
    EXPECT_EQ(refused.code, 8);
    EXPECT_EQ(rule_of("refuse cm=REQ").code, 28);
    EXPECT_EQ(rule_of("refuse cm=REQ reason=stale_connection").code, 10);
    EXPECT_TRUE(rule_of("drop cm=REP,SIDR_REP").takes_message(0x18));
}

TEST(Plan, FailsCalls) {
    const Rule rule = rule_of("fail call=ibv_reg_mr nth=2 errno=ENOMEM");
    EXPECT_EQ(rule.subject, Subject::call);
    EXPECT_STREQ(rule.call.data(), "ibv_reg_mr");
    EXPECT_EQ(rule.code, ENOMEM);
}

TEST(Plan, EndsPrograms) {
    EXPECT_EQ(rule_of("kill opcode=send nth=3").code, SIGKILL);
    EXPECT_EQ(rule_of("kill=TERM dir=in").code, SIGTERM);
}

TEST(Plan, TakesDownLinksAtOnceOrByAPacket) {
    EXPECT_TRUE(rule_of("link down").at_once);
    EXPECT_TRUE(rule_of("device fatal program=server").at_once);
    EXPECT_FALSE(rule_of("device fatal opcode=send nth=3").at_once);
    EXPECT_FALSE(rule_of("link down nth=3").at_once);
}

TEST(Plan, HasLinesAndComments) {
    std::vector<PlannedRule> rules;
    PlanError error;
    ASSERT_TRUE(
        parse_plan("# a plan\n drop nth=1 ; duplicate nth=2 # twice\n\n;\ndelay=1ms\n", rules, error));
    ASSERT_EQ(rules.size(), 3u);
    EXPECT_EQ(rules[0].text, "drop nth=1");
    EXPECT_EQ(rules[1].text, "duplicate nth=2");
    EXPECT_EQ(rules[2].rule.action, Action::delay);
}

TEST(Plan, SaysWhereItMakesNoSense) {
    struct Wrong {
        const char* text;
        unsigned line, column;
        const char* says;
    };
    const Wrong wrongs[] = {
        {"", 1, 1, "no fault in this plan"},
        {"explode", 1, 1, "'explode' is no fault"},
        {"drop oopcode=send", 1, 6, "'oopcode' is no condition of 'drop'"},
        {"drop opcode=sned", 1, 13, "'sned' is no opcode"},
        {"drop opcode=send,sned", 1, 18, "'sned' is no opcode"},
        {"drop nth=0", 1, 10, "the first is 1"},
        {"drop nth=3 nth=4", 1, 12, "stands here twice"},
        {"drop;\n  delay", 2, 3, "delay needs a time"},
        {"delay=5", 1, 7, "no time"},
        {"delay=0.1ns opcode=send", 1, 7, "no time at all"},
        {"link down for=0s", 1, 15, "no time at all"},
        {"drop soon", 1, 6, "no condition"},
        {"drop probability=1.5", 1, 18, "no probability"},
        {"drop probability=1e-12", 1, 18, "no probability"},
        {"drop qp=0x1000000", 1, 9, "24 bits"},
        {"drop qp=0x100000011", 1, 9, "24 bits"},
        {"drop dest_qp=0x100000011", 1, 14, "24 bits"},
        {"drop qp=x", 1, 9, "no queue pair number"},
        {"drop errno=ENOMEM", 1, 6, "belongs to 'fail call=...'"},
        {"fail call=ibv_reg_mr", 1, 1, "errno=ENOMEM"},
        {"fail errno=ENOMEM", 1, 1, "needs the call"},
        {"fail call=ibv_frobnicate errno=1", 1, 11, "not among the calls"},
        {"fail call=rdma_post_send errno=1", 1, 11, "ibv_post_send"},
        {"fail call=printf errno=1", 1, 11, "no verb"},
        {"fail call=ibv_reg_mr errno=ENOSUCH", 1, 28, "no errno"},
        {"fail call=ibv_reg_mr errno=1 dir=in", 1, 34, "no direction"},
        {"fail call=ibv_reg_mr errno=1 cm=REQ", 1, 33, "no conditions of CM messages"},
        {"fail cm=REQ call=ibv_reg_mr errno=1", 1, 9, "no conditions of CM messages"},
        {"refuse cm=REP", 1, 11, "can be refused is a REQ"},
        {"drop cm=REQ opcode=send", 1, 20, "no conditions of packets"},
        {"drop cm=HELLO", 1, 9, "no CM message"},
        {"drop cm=REQ program=rping", 1, 9, "all programs of the fabric"},
        {"reorder cm=RTU", 1, 1, "delay them"},
        {"nak opcode=send", 1, 1, "needs a code"},
        {"nak=remote_access dir=in", 1, 23, "answers a request that leaves"},
        {"nak=remote_access opcode=ack", 1, 26, "only requests"},
        {"nak=nonsense", 1, 5, "no NAK code"},
        {"rnr=32", 1, 5, "no RNR timer"},
        {"kill cm=REQ", 1, 9, "name a packet"},
        {"kill=NOSUCH", 1, 6, "no signal"},
        {"link up", 1, 1, "'link down'"},
        {"link down cm=REQ", 1, 14, "by a packet"},
        {"link=down", 1, 1, "'link down'"},
        {"device=", 1, 1, "'device fatal'"},
        {"device", 1, 1, "'device fatal'"},
    };
    for (const Wrong& wrong : wrongs) {
        const PlanError error = error_of(wrong.text);
        EXPECT_EQ(error.line, wrong.line) << wrong.text;
        EXPECT_EQ(error.column, wrong.column) << wrong.text << ": " << error.what;
        EXPECT_THAT(error.what, HasSubstr(wrong.says)) << wrong.text;
    }
}

// Whoever gives a call a Fault writes it into the list, too.
TEST(FailingCalls, AreThoseOfTheSources) {
    std::set<std::string, std::less<>> found;
    const std::regex name("\"(\\w+)\"");
    for (const char* room : {"verbs", "rdmacm", "rsocket"})
        for (const auto& entry :
             std::filesystem::directory_iterator(VERBENA_SOURCE_DIR "/src/" + std::string(room))) {
            if (entry.path().extension() != ".cpp") continue;
            std::ifstream file(entry.path());
            for (std::string line; std::getline(file, line);) {
                if (line.find("const Fault fault{") == std::string::npos) continue;
                for (std::sregex_iterator at(line.begin(), line.end(), name), end; at != end; ++at)
                    found.insert((*at)[1]);
            }
        }
    const auto listed = failing_calls();
    EXPECT_THAT(std::vector<std::string>(found.begin(), found.end()),
                testing::ElementsAreArray(std::vector<std::string>(listed.begin(), listed.end())));
}

}  // namespace
}  // namespace verbena::faults
