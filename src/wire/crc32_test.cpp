#include "wire/crc32.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "wire/crc32_math.h"

namespace verbena::wire {
namespace {

std::uint32_t bit_by_bit(std::uint32_t state, const std::uint8_t* p, std::size_t size) {
    for (; size > 0; p++, size--) {
        state ^= *p;
        for (int i = 0; i < 8; i++) state = (state & 1) != 0 ? state >> 1 ^ 0xedb88320 : state >> 1;
    }
    return state;
}

std::vector<std::uint8_t> noise(std::size_t size) {
    std::mt19937 random(static_cast<unsigned>(size) + 1);
    std::vector<std::uint8_t> bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    return bytes;
}

void check_version(const Crc32Version& version) {
    std::vector<std::uint8_t> bytes = noise(5000);
    for (std::size_t size = 0; size < 700; size++) {
        const std::uint8_t* const data = bytes.data() + size % 17;
        const std::uint32_t start = 0x9e3779b9u * static_cast<std::uint32_t>(size);
        ASSERT_EQ(version.update(start, data, size), bit_by_bit(start, data, size)) << size;
        const std::uint8_t* const head = bytes.data() + 3000 + size;
        ASSERT_EQ(version.update_headed(start, head, data, size),
                  bit_by_bit(bit_by_bit(start, head, kCrc32Head), data, size))
            << size;
    }
    ASSERT_EQ(version.update(~0u, bytes.data(), 4096), bit_by_bit(~0u, bytes.data(), 4096));
    ASSERT_EQ(version.update(~0u, bytes.data() + 3, 4997), bit_by_bit(~0u, bytes.data() + 3, 4997));
    ASSERT_EQ(version.update_headed(~0u, bytes.data(), bytes.data() + 12, 4988),
              bit_by_bit(~0u, bytes.data(), 5000));
}

TEST(Crc32, CheckValue) {
    EXPECT_EQ(~crc32_update(~0u, "123456789", 9), 0xcbf43926u);
    EXPECT_EQ(~crc32_update_table(~0u, "123456789", 9), 0xcbf43926u);
}

TEST(Crc32, ChosenVersion) { check_version({crc32_update, crc32_update_headed}); }
TEST(Crc32, TableVersion) { check_version(*crc32_table_version()); }
TEST(Crc32, ChorbaVersion) { check_version(*crc32_chorba_version()); }

TEST(Crc32, CarrylessMultiplicationVersion) {
    if (!crc32_pclmul_version()) GTEST_SKIP() << "not on this processor";
    check_version(*crc32_pclmul_version());
}

TEST(Crc32, WideCarrylessMultiplicationVersion) {
    if (!crc32_vpclmul_version()) GTEST_SKIP() << "not on this processor";
    check_version(*crc32_vpclmul_version());
}

TEST(Crc32, Armv8Version) {
    if (!crc32_armv8_version()) GTEST_SKIP() << "not on this processor";
    check_version(*crc32_armv8_version());
}

TEST(Crc32, Pieces) {
    std::vector<std::uint8_t> bytes = noise(1000);
    std::uint32_t whole = crc32_update(~0u, bytes.data(), bytes.size());
    for (std::size_t cut = 0; cut <= bytes.size(); cut++)
        ASSERT_EQ(crc32_update(crc32_update(~0u, bytes.data(), cut), bytes.data() + cut, bytes.size() - cut),
                  whole);
}

TEST(Crc32, RewindUndoesZeros) {
    std::vector<std::uint8_t> zeros(70'000, 0);
    for (std::size_t count :
         {0, 1, 2, 3, 4, 36, 255, 256, 4096, 4351, 4352, 4353, 8704, 8705, 65'535, 70'000}) {
        std::uint32_t state = 0x12345678;
        EXPECT_EQ(crc32_rewind_zeros(crc32_update(state, zeros.data(), count), count), state) << count;
    }
}

TEST(Crc32, Arithmetic) {
    using namespace crc32_math;
    EXPECT_EQ(multiply(kOne, 0xdeadbeef), 0xdeadbeefu);
    EXPECT_EQ(multiply(0xdeadbeef, 0x01234567), multiply(0x01234567, 0xdeadbeef));
    EXPECT_EQ(times_x(1), kCrc32Polynomial) << "x^32 is congruent to the rest of the polynomial";
    EXPECT_EQ(power_of_x(32), kCrc32Polynomial);
    EXPECT_EQ(kPolynomial33, 0x1db710641u);
    EXPECT_EQ(kReciprocal33, 0x1f7011641u);
    std::uint32_t a = 0x13579bdf;
    for (int i = 0; i < 200; i++) {
        EXPECT_EQ(divided_by_x(times_x(a)), a);
        EXPECT_EQ(times_x(divided_by_x(a)), a);
        a = times_x(a);
    }
}

}  // namespace
}  // namespace verbena::wire
