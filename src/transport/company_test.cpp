#include "transport/company.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

constexpr Time kStart = 5 * kSecond;

TEST(Company, IsNotExpectedAtFirst) { EXPECT_FALSE(Company().likely()); }

TEST(Company, IsLearntFromAnswersThatCameSoon) {
    Company company;
    company.alone(kStart);
    company.request(false, kStart + Company::kSoon);
    EXPECT_TRUE(company.likely());
}

TEST(Company, IsNotLearntFromAnswersThatCameLate) {
    Company company;
    company.alone(kStart);  // owed since then; it may have left later
    company.request(false, kStart + Company::kSoon + 1);
    EXPECT_FALSE(company.likely());
}

TEST(Company, OneAcknowledgementIsMissedByOneRequest) {
    Company company;
    company.alone(kStart);
    for (unsigned i = 0; i < 10; i++) company.request(false, kStart + i);
    EXPECT_TRUE(company.likely());
    company.alone(kStart + 100);
    EXPECT_FALSE(company.likely());
}

TEST(Company, IsExpectedWhereMostHaveIt) {
    Company company;
    for (unsigned i = 0; i < 100; i++) company.request(true, kStart);
    for (unsigned i = 0; i < 7; i++) {
        company.alone(kStart);
        EXPECT_TRUE(company.likely());
    }
    company.alone(kStart);
    EXPECT_FALSE(company.likely());
    for (unsigned i = 0; i < 100; i++) {  // one of two
        company.request(true, kStart);
        company.alone(kStart);
        EXPECT_FALSE(company.likely());
    }
}

}  // namespace
}  // namespace verbena::transport
