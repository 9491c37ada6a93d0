// For the tests of packets that are read without the tables that serve all opcodes (whole_*.h).
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "wire/bth.h"

namespace verbena::wire {

// Fewer than `most` bytes; those of turn `i` are a packet with that opcode, nearly, or anything.
inline std::vector<std::uint8_t> nearly(std::mt19937& random, unsigned i, unsigned most, unsigned opcode) {
    std::vector<std::uint8_t> bytes(random() % most);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (!bytes.empty() && i % 4 != 0) bytes[0] = static_cast<std::uint8_t>(opcode);
    if (bytes.size() > 1 && i % 3 != 0) bytes[1] &= 0xf0;
    return bytes;
}

inline void expect_same(const BthWords& words, const Bth& bth) {
    EXPECT_EQ(words.opcode(), bth.opcode);
    EXPECT_EQ(words.destination_qp(), bth.destination_qp);
    EXPECT_EQ(words.psn(), bth.psn);
    EXPECT_EQ(words.pkey(), bth.pkey);
    EXPECT_EQ(words.solicited(), bth.solicited);
    EXPECT_EQ(words.ack_request(), bth.ack_request);
}

}  // namespace verbena::wire
