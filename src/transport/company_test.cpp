#include "transport/company.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

constexpr Time kStart = 5 * kSecond;
constexpr Duration kPatience = 200 * kMicrosecond;

TEST(Company, IsNotExpectedAtFirst) { EXPECT_FALSE(Company().likely()); }

TEST(Company, IsLearntFromAnswersThatCameSoon) {
    Company company;
    company.alone(kStart);
    company.request(kNever, kStart + kPatience / 2, kPatience);
    EXPECT_TRUE(company.likely());
}

TEST(Company, IsNotLearntFromAnswersThatCameLate) {
    Company company;
    company.alone(kStart);  // owed since then; it may have left later
    company.request(kNever, kStart + kPatience / 2 + 1, kPatience);
    EXPECT_FALSE(company.likely());
    EXPECT_FALSE(company.is_told_by(kNever)) << "what follows is later still";
}

TEST(Company, OneAcknowledgementIsMissedByOneRequest) {
    Company company;
    company.alone(kStart);
    for (unsigned i = 0; i < 10; i++) company.request(kNever, kStart + i, kPatience);
    EXPECT_TRUE(company.likely());
    company.alone(kStart + 100);
    EXPECT_FALSE(company.likely());
}

TEST(Company, IsToldByRequestsThatTakeAnAcknowledgementAlongOrMissedOne) {
    Company company;
    EXPECT_FALSE(company.is_told_by(kNever));
    EXPECT_TRUE(company.is_told_by(kStart));
    company.alone(kStart);
    EXPECT_TRUE(company.is_told_by(kNever));
    company.request(kNever, kStart, kPatience);
    EXPECT_FALSE(company.is_told_by(kNever));
}

TEST(Company, IsExpectedWhereMostHaveIt) {
    Company company;
    for (unsigned i = 0; i < 100; i++) company.request(kStart, kStart, kPatience);
    for (unsigned i = 0; i < 7; i++) {
        company.alone(kStart);
        EXPECT_TRUE(company.likely());
    }
    company.alone(kStart);
    EXPECT_FALSE(company.likely());
    for (unsigned i = 0; i < 100; i++) {  // one of two
        company.request(kStart, kStart, kPatience);
        company.alone(kStart);
        EXPECT_FALSE(company.likely());
    }
}

TEST(Company, AnAcknowledgementThatWaitedLongProvesNothing) {
    Company company;
    for (unsigned i = 0; i < 10; i++) company.request(kStart, kStart + kPatience / 2 + 1, kPatience);
    EXPECT_FALSE(company.likely());
    company.request(kStart, kStart + kPatience / 2, kPatience);
    EXPECT_TRUE(company.likely());
}

TEST(Company, IsWaitedForLongerWhereRoundTripsAreLong) {
    EXPECT_EQ(Company::patience(0), kAcknowledgeDelay) << "not measured";
    EXPECT_EQ(Company::patience(10 * kMicrosecond), kAcknowledgeDelay);
    EXPECT_EQ(Company::patience(50 * kMicrosecond), 400 * kMicrosecond);
    EXPECT_EQ(Company::patience(kSecond), kLongestAcknowledgeDelay);
}

}  // namespace
}  // namespace verbena::transport
