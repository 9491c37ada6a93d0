// Runs every mistake of the tables and compares its sentence; and looks whether the tables keep their
// promise.
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <ostream>
#include <set>

#include "mistake.h"
#include "verbena.h"

namespace verbena::mistakes {

std::ostream& operator<<(std::ostream& out, const Mistake& mistake) { return out << mistake.name; }

void expect_errno(int error, int returned) {
    EXPECT_EQ(returned == -1 ? errno : returned, error) << std::strerror(returned == -1 ? errno : returned);
}

void expect_null(int error, const void* returned) {
    EXPECT_EQ(returned, nullptr);
    EXPECT_EQ(returned ? 0 : errno, error) << std::strerror(errno);
}

std::string reason_of(ibv_cq* cq, ibv_wc_status status) {
    const ibv_wc wc = completion(cq);
    EXPECT_EQ(wc.status, status) << ibv_wc_status_str(wc.status);
    return verbena_wc_reason(&wc);
}

ibv_qp_attr right_rtr(const Side& side) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = side.qp->qp_num;
    to.max_dest_rd_atomic = 4;
    to.min_rnr_timer = 12;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.grh.dgid = side.gid();
    to.ah_attr.grh.hop_limit = 64;
    return to;
}

namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

std::vector<Mistake> all() {
    std::vector<Mistake> everything;
    for (const auto* table : {&setup_mistakes(), &posting_mistakes(), &completion_mistakes(),
                              &datagram_mistakes(), &connection_mistakes()})
        everything.insert(everything.end(), table->begin(), table->end());
    return everything;
}

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreTold) {
    const Mistake& mistake = GetParam();
    new_log();
    std::string sentence = mistake.make();
    if (mistake.from == From::call) sentence = verbena_last_reason();
    const std::string log = new_log();
    if (mistake.from == From::log) sentence += log;
    EXPECT_THAT(sentence, ContainsRegex(mistake.sentence));
    // Who cannot change the program finds it there.
    if (mistake.from == From::call || mistake.from == From::other) {
        EXPECT_THAT(log, HasSubstr(sentence));
    }
    EXPECT_EQ(mistake.thread == nullptr, mistake.answer == nullptr);
}

INSTANTIATE_TEST_SUITE_P(All, Mistakes, testing::ValuesIn(all()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(MistakeTables, HaveEnough) {
    const auto everything = all();
    std::set<std::string> names, threads;
    for (const Mistake& mistake : everything) {
        names.insert(mistake.name);
        if (mistake.thread) threads.insert(mistake.thread);
    }
    EXPECT_EQ(names.size(), everything.size());
    EXPECT_GE(names.size(), 60u);
    EXPECT_GE(threads.size(), 10u);
}

}  // namespace
}  // namespace verbena::mistakes
