// What waits for its listener, for how long, and in which order.
#include "cm/held_requests.h"

#include <gtest/gtest.h>

namespace verbena::cm {
namespace {

constexpr std::uint64_t kService = 0x1060000 + 4711;
constexpr Time kNow = 5 * kSecond;

HeldRequests::Request request(std::uint8_t mark, Time due, std::uint64_t service = kService,
                              IdNumber listener = 0) {
    HeldRequests::Request made;
    made.service_id = service;
    made.listener = listener;
    made.due = due;
    made.mad[0] = mark;
    made.mad[1] = static_cast<std::uint8_t>(service);
    made.mad[2] = static_cast<std::uint8_t>(service >> 8);
    return made;
}

TEST(HeldRequests, AListenerIsExpectedForAMomentAfterItWent) {
    HeldRequests held;
    EXPECT_FALSE(held.expects_listener(kService, kNow));
    held.listener_gone(kService, kNow, false);
    EXPECT_TRUE(held.expects_listener(kService, kNow));
    EXPECT_FALSE(held.expects_listener(kService + 1, kNow));
    EXPECT_TRUE(held.expects_listener(kService, kNow + HeldRequests::kMemory - 1));
    EXPECT_FALSE(held.expects_listener(kService, kNow + HeldRequests::kMemory));
    held.listener_came(kService);
    EXPECT_FALSE(held.expects_listener(kService, kNow));
    held.listener_gone(kService, kNow, true);  // its program has ended
    EXPECT_FALSE(held.expects_listener(kService, kNow));
}

TEST(HeldRequests, DueOnesComeInTheOrderOfArrival) {
    HeldRequests held;
    EXPECT_EQ(held.next_deadline(), kNever);
    EXPECT_TRUE(held.keep(request(1, kNow + 1)));
    EXPECT_TRUE(held.keep(request(2, kNow + 2)));
    EXPECT_TRUE(held.keep(request(3, kNow + 9)));
    EXPECT_TRUE(held.keep(request(4, kNow + 8, kService + 1)));
    EXPECT_EQ(held.next_deadline(), kNow + 1);
    HeldRequests::Request out;
    EXPECT_FALSE(held.take_due(kNow, out));
    ASSERT_TRUE(held.take_due(kNow + 2, out));
    EXPECT_EQ(out.mad[0], 1);
    ASSERT_TRUE(held.take_due(kNow + 2, out));
    EXPECT_EQ(out.mad[0], 2);
    EXPECT_FALSE(held.take_due(kNow + 2, out));
    EXPECT_EQ(held.next_deadline(), kNow + 8);
}

TEST(HeldRequests, AListenerTakesThoseOfItsServiceOnly) {
    HeldRequests held;
    held.keep(request(1, kNow, kService + 1));
    held.keep(request(2, kNow));
    HeldRequests::Request out;
    ASSERT_TRUE(held.take_waiting(kService, 0, out));
    EXPECT_EQ(out.mad[0], 2);
    EXPECT_FALSE(held.take_waiting(kService, 0, out));
    EXPECT_TRUE(held.take_waiting(kService + 1, 0, out));
}

TEST(HeldRequests, EachListenerOfAServiceTakesItsOwn) {
    HeldRequests held;
    held.keep(request(1, kNow + 1, kService, 7));
    held.keep(request(2, kNow + 1, kService, 8));
    held.keep(request(3, kNow + 1, kService, 7));
    HeldRequests::Request out;
    ASSERT_TRUE(held.take_waiting(kService, 8, out));
    EXPECT_EQ(out.mad[0], 2);
    EXPECT_FALSE(held.take_waiting(kService, 8, out));
    held.listener_gone(kService, 7, kNow);
    ASSERT_TRUE(held.take_due(kNow, out));
    EXPECT_EQ(out.mad[0], 1);
    EXPECT_FALSE(held.take_waiting(kService, 0, out));
    held.listener_gone(kService, kNow, false);
    ASSERT_TRUE(held.take_waiting(kService, 0, out)) << "for whoever comes";
    EXPECT_EQ(out.mad[0], 3);
    EXPECT_EQ(held.next_deadline(), kNever);
}

TEST(HeldRequests, ARepetitionIsKeptOnce) {
    HeldRequests held;
    EXPECT_TRUE(held.keep(request(1, kNow)));
    EXPECT_TRUE(held.keep(request(1, kNow + 1)));
    HeldRequests::Request other = request(1, kNow);
    other.sender_view.source = Gid::from_ipv4(0x0a000001);
    EXPECT_TRUE(held.keep(other));  // another host's
    HeldRequests::Request out;
    EXPECT_TRUE(held.take_due(kNow + 1, out));
    EXPECT_EQ(out.due, kNow);
    EXPECT_TRUE(held.take_due(kNow + 1, out));
    EXPECT_FALSE(held.take_due(kNow + 1, out));
}

TEST(HeldRequests, AListenerThatGoesLetsWhatWaitsForItBeAnswered) {
    HeldRequests held;
    held.keep(request(1, kNow + HeldRequests::kBacklog));
    held.listener_gone(kService, kNow, false);  // it may come back at once
    EXPECT_EQ(held.next_deadline(), kNow + HeldRequests::kReopening);
    held.listener_gone(kService, kNow + 1, true);
    EXPECT_EQ(held.next_deadline(), kNow + 1);
}

TEST(HeldRequests, WhoGivesUpIsForgotten) {
    HeldRequests held;
    for (std::uint8_t n = 1; n <= 3; n++) {
        HeldRequests::Request each = request(n, kNow + n, kService, n == 3 ? 7 : 0);
        each.peer_guid = 5;
        each.peer_comm_id = n;
        EXPECT_TRUE(held.keep(each));
    }
    held.withdraw(6, 1);  // another host's number
    EXPECT_EQ(held.next_deadline(), kNow + 1);
    held.withdraw(5, 1);
    EXPECT_EQ(held.next_deadline(), kNow + 2);
    held.withdraw(5, 3);
    HeldRequests::Request out;
    EXPECT_FALSE(held.take_waiting(kService, 7, out));
    EXPECT_TRUE(held.take_waiting(kService, 0, out));
    EXPECT_EQ(out.peer_comm_id, 2u);
    EXPECT_EQ(held.next_deadline(), kNever);
}

TEST(HeldRequests, AreBounded) {
    HeldRequests held;
    for (std::size_t n = 0; n < HeldRequests::kMaxRequests; n++)
        EXPECT_TRUE(held.keep(request(static_cast<std::uint8_t>(n), kNow, kService + n)));
    EXPECT_FALSE(held.keep(request(0, kNow, kService + HeldRequests::kMaxRequests)));
    HeldRequests::Request out;
    EXPECT_TRUE(held.take_due(kNow, out));
    EXPECT_TRUE(held.keep(request(0, kNow, kService + HeldRequests::kMaxRequests)));

    for (std::uint64_t n = 0; n < 2 * HeldRequests::kMaxPorts; n++) held.listener_gone(n, kNow, false);
    EXPECT_TRUE(held.expects_listener(HeldRequests::kMaxPorts - 1, kNow));
    EXPECT_FALSE(held.expects_listener(HeldRequests::kMaxPorts, kNow));
    held.listener_gone(HeldRequests::kMaxPorts, kNow + HeldRequests::kMemory,
                       false);  // the old ones are forgotten
    EXPECT_TRUE(held.expects_listener(HeldRequests::kMaxPorts, kNow + HeldRequests::kMemory));
}

}  // namespace
}  // namespace verbena::cm
