// The sentences about failures that events report: the status means something else for each type.
#include "rdmacm/event_reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace verbena::rdmacm {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string of(rdma_cm_event_type type, int status, const char* note = "") {
    EventRecord event;
    event.event = type;
    event.status = status;
    std::strncpy(event.note.data(), note, event.note.size() - 1);
    return sentence(event, "192.0.2.1:4711");
}

TEST(EventReason, AnErrnoInWords) {
    for (auto type : {RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_ERROR})
        EXPECT_THAT(of(type, -ENETUNREACH),
                    AllOf(HasSubstr("192.0.2.1:4711"), HasSubstr("Network is unreachable")));
    EXPECT_THAT(of(RDMA_CM_EVENT_MULTICAST_ERROR, -EINVAL), EndsWith("Invalid argument"));
    EXPECT_THAT(of(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL), EndsWith("failed here: Invalid argument"));
    EXPECT_THAT(of(RDMA_CM_EVENT_CONNECT_ERROR, 0), EndsWith("failed here"));
}

TEST(EventReason, WhatAnAddressErrorMeans) {
    const std::pair<int, const char*> meanings[] = {{ENETUNREACH, "routing table"},
                                                    {EHOSTUNREACH, "routing table"},
                                                    {ETIMEDOUT, "nobody on its network"},
                                                    {ENODEV, "no RDMA device"}};
    for (const auto& [error, meaning] : meanings)
        EXPECT_THAT(of(RDMA_CM_EVENT_ADDR_ERROR, -error),
                    AllOf(HasSubstr(std::strerror(error)), HasSubstr(meaning)));
}

// A step of the library's own: the reason of the call that failed stands for the errno.
TEST(EventReason, AStepsOwnReason) {
    EventRecord event;
    event.event = RDMA_CM_EVENT_CONNECT_ERROR;
    event.status = -EINVAL;
    event.step_reason = "the attribute";
    EXPECT_EQ(sentence(event, "peer"), "connecting to peer failed here: the attribute");
}

TEST(EventReason, EachRejectionHasItsOwnMeaning) {
    const std::pair<int, const char*> meanings[] = {{3, "out of resources"}, {4, "waited too long"},
                                                    {8, "nothing listens"},  {10, "old connection"},
                                                    {28, "program refused"}, {99, "IBA 12.6.7.2"}};
    for (const auto& [reason, meaning] : meanings)
        EXPECT_THAT(of(RDMA_CM_EVENT_REJECTED, reason),
                    AllOf(StartsWith("192.0.2.1:4711 rejected with reason " + std::to_string(reason) + ": "),
                          HasSubstr(meaning)));
    EXPECT_THAT(of(RDMA_CM_EVENT_REJECTED, 8, "; a listener is on [::1]:1"),
                EndsWith("; a listener is on [::1]:1"));
}

// A datagram service that is refused is unreachable with a SIDR status; silence has a negative one.
TEST(EventReason, UnreachableIsSilenceOrASidrStatus) {
    EXPECT_THAT(of(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT), HasSubstr("does not answer"));
    EXPECT_THAT(of(RDMA_CM_EVENT_UNREACHABLE, 1),
                AllOf(HasSubstr("SIDR status 1"), HasSubstr("nothing listens")));
    EXPECT_THAT(of(RDMA_CM_EVENT_UNREACHABLE, 2), HasSubstr("refused"));
    EXPECT_THAT(of(RDMA_CM_EVENT_UNREACHABLE, 3), HasSubstr("no queue pair"));
}

TEST(EventReason, WhatIsNoFailureHasNone) {
    for (auto type :
         {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_CONNECT_REQUEST,
          RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED,
          RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_MULTICAST_JOIN})
        EXPECT_THAT(of(type, 0), IsEmpty()) << type;
}

}  // namespace
}  // namespace verbena::rdmacm
