// One fault of a plan: what it happens to, when, and what it is. Plain data without pointers, because rules
// lie in memory that several processes share (board.h). docs/faults.md has the language.
#pragma once

#include <string.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace verbena::faults {

enum class Subject : std::uint8_t { packet, cm, call, port };

enum class Action : std::uint8_t {
    drop,
    duplicate,
    reorder,
    delay,
    corrupt,
    nak,
    rnr,
    kill,
    refuse,
    fail,
    link_down,
    device_fatal,
};
const char* to_string(Action action);

enum class Direction : std::uint8_t { out, in };

inline constexpr std::uint32_t kAlways = 0xffffffff;  // of Rule::chance
inline constexpr std::size_t kMaxCallName = 48, kMaxProgramName = 16;

struct Rule {
    Subject subject = Subject::packet;
    Action action = Action::drop;
    Direction direction = Direction::out;

    // Which packets: BTH opcodes (a bit each), queue pair numbers (ours, and the one in the BTH) and PSNs.
    std::array<std::uint64_t, 4> opcodes{~0ull, ~0ull, ~0ull, ~0ull};
    bool has_qp = false, has_destination_qp = false, has_psn = false;
    std::uint32_t qp = 0, destination_qp = 0;
    std::uint32_t first_psn = 0, last_psn = 0;
    // Which CM messages: bit n is attribute 0x10 + n (IBA 16.7.1).
    std::uint32_t messages = 0;
    // Which call, as exported.
    std::array<char, kMaxCallName> call{};
    // Of which program (comm); empty: of any.
    std::array<char, kMaxProgramName> program{};

    // Of a port, with no condition: as soon as the program has the plan.
    bool at_once = false;

    // Which of those: the first to the last (counting from 1), with a chance of chance / 2^32 each (kAlways:
    // all), `times` at most.
    std::uint64_t first = 1, last = UINT64_MAX, times = UINT64_MAX;
    std::uint32_t chance = kAlways;
    std::uint64_t seed = 0;

    // What: how long to hold back or to be down (0 there: for ever); NAK code, RNR timer, reject reason,
    // errno, or signal.
    Duration time = 0;
    std::int32_t code = 0;

    bool takes_opcode(std::uint8_t opcode) const { return opcodes[opcode >> 6] >> (opcode & 63) & 1; }
    bool takes_message(std::uint16_t attribute) const {
        return attribute >= 0x10 && attribute < 0x30 && (messages >> (attribute - 0x10) & 1);
    }
    bool is_of_program(std::string_view name) const {
        return program[0] == '\0' || name.substr(0, kMaxProgramName - 1) == text(program);
    }
    std::string_view call_name() const { return text(call); }

    // Of an array that is filled up with zeros.
    template <std::size_t kSize>
    static std::string_view text(const std::array<char, kSize>& characters) {
        return {characters.data(), strnlen(characters.data(), kSize)};
    }
};

}  // namespace verbena::faults
