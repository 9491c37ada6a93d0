#include "wire/mad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

namespace verbena::wire {
namespace {

using ::testing::ElementsAreArray;

TEST(Mad, Layout) {
    MadHeader h{1, 7, 2, 3, 0x0102, 0x0304, 0x1112131415161718, CmAttribute::rep, 0x2122, 0x31323334};
    std::array<std::uint8_t, kMadHeaderLength> out{};
    encode(h, out);
    EXPECT_THAT(out,
                ElementsAreArray({0x01, 0x07, 0x02, 0x03, 0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14,
                                  0x15, 0x16, 0x17, 0x18, 0x00, 0x13, 0x21, 0x22, 0x31, 0x32, 0x33, 0x34}));
}

TEST(Mad, DecodeLosesNothing) {
    std::mt19937 random(1);
    for (int i = 0; i < 1000; i++) {
        std::array<std::uint8_t, kMadHeaderLength> in{}, out{};
        for (std::uint8_t& byte : in) byte = static_cast<std::uint8_t>(random());
        MadHeader h;
        decode(in, h);
        encode(h, out);
        ASSERT_EQ(in, out);
    }
}

TEST(Mad, OnlyCmSendsAreCm) {
    EXPECT_TRUE(is_cm(MadHeader{}));
    MadHeader h;
    h.base_version = 2;
    EXPECT_FALSE(is_cm(h));
    h = {};
    h.management_class = 3;
    EXPECT_FALSE(is_cm(h));
    h = {};
    h.class_version = 1;
    EXPECT_FALSE(is_cm(h));
    h = {};
    h.method = 1;
    EXPECT_FALSE(is_cm(h));
}

TEST(Mad, HalvesOfABuffer) {
    std::array<std::uint8_t, kMadLength> mad{};
    std::span<std::uint8_t, kMadLength> writable(mad);
    std::span<const std::uint8_t, kMadLength> readable(mad);
    EXPECT_EQ(mad_header(writable).data(), mad.data());
    EXPECT_EQ(mad_header(readable).data(), mad.data());
    EXPECT_EQ(cm_message(writable).data(), mad.data() + 24);
    EXPECT_EQ(cm_message(readable).data(), mad.data() + 24);
}

TEST(Mad, NamesOfAttributes) {
    std::set<std::string> names;
    for (unsigned a = 0x10; a <= 0x1a; a++) names.insert(to_string(static_cast<CmAttribute>(a)));
    EXPECT_EQ(names, (std::set<std::string>{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ",
                                            "SIDR_REP", "LAP", "APR"}));
    EXPECT_STREQ(to_string(CmAttribute::class_port_info), "CLASS_PORT_INFO");
    EXPECT_STREQ(to_string(static_cast<CmAttribute>(0x1b)), "unknown");
}

}  // namespace
}  // namespace verbena::wire
