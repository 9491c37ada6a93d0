// Which regions requests use, and which keys are stale.

#include "interpose/strict_requests_testing.h"

namespace verbena::interpose {
namespace {

using StrictRegions = StrictRequests;

TEST_F(StrictRegions, ARegionThatWasNotDeregistered) {
    deregister(false);
    send(1, 0);
    sent(1);
    EXPECT_EQ(mistakes, "");
    deregister();
    send(2, 0);
    EXPECT_EQ(mistakes, "key ");
}

TEST_F(StrictRegions, AKeyThatIsAnothersBeforeTheCallReturns) {
    const auto ticket = requests.region_leaves(kKey, "ibv_dereg_mr");
    requests.region_made(kKey, region_of(&qp, "mr 2", address(0), sizeof memory));
    requests.region_left(ticket, true);
    send(1, 0);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRegions, AKeyOfAnotherAdapterOrOfOtherMemory) {
    deregister();
    post(&qp, {StrictSend{1, true, true, {{address(0), 8, kLkey, &cq}}}});
    EXPECT_EQ(mistakes, "");
    requests.region_made(kKey, {});
    receive(1, 0);
    receive(2, 0);  // nobody's memory
    EXPECT_EQ(mistakes, "");
    deregister();
    requests.region_imported(kKey, {&region, "mr 2"});
    send(2, 0);
    EXPECT_EQ(mistakes, "region ");
}

// Of a region that was made by a call that nobody sees.
TEST_F(StrictRegions, AKeyThatMayBeAnothersByNow) {
    deregister();
    requests.region_left(requests.region_leaves({nullptr, 8}, "ibv_dereg_mr"), true);
    send(1, 0);
    sent(1);
    EXPECT_EQ(mistakes, "");
    requests.region_made(kKey, {});
    deregister();
    for (std::uint32_t tag = 1; tag < 127; tag++) {
        const Regions::Key key{nullptr, kLkey + 256 * tag};
        requests.region_made(key, {});
        requests.region_left(requests.region_leaves(key, "ibv_dereg_mr"), true);
    }
    send(2, 0);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRegions, TheKeyOfARequestThatReadsNothing) {
    deregister();
    post(&qp, {StrictSend{1, true, false, {buffer(0)}}});
    EXPECT_EQ(mistakes, "key ");
}

TEST_F(StrictRegions, ARegionOfAQueuePairThatNeverWorked) {
    int fresh = 0;
    requests.queue_pair_made(&fresh, {"qp", 18, 4, &cq, &cq, nullptr});
    post(&fresh, {StrictReceive{1, {buffer(0)}}});
    deregister();
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRegions, ARegionOfASharedQueueThatNobodyUses) {
    int srq = 0, user = 0;
    requests.shared_queue_made(&srq, "srq 1");
    make(user, 18, 4, &srq);
    post(&srq, {StrictReceive{1, {buffer(0)}}});
    deregister();
    EXPECT_EQ(mistakes, "region ");
    requests.region_made(kKey, region_of(&region, "mr 1", address(0), sizeof memory));
    requests.queue_pair_gone(&user);
    deregister();
    EXPECT_EQ(mistakes, "region ");
}

}  // namespace
}  // namespace verbena::interpose
