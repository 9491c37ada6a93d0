// The words of plans that stand for numbers: opcodes, CM messages, NAK codes, reject reasons, errnos,
// signals, times; and the calls that can be made to fail.
//
// Thread safety: no state.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/time.h"

namespace verbena::faults {

// Decimal or 0x...; nothing else.
std::optional<std::uint64_t> number_of(std::string_view word);
// "20ms": a number, perhaps with a fraction, and ns, us, ms or s.
std::optional<Duration> duration_of(std::string_view word);

// RC_SEND_ONLY, xrc_ack, a number, RC_SEND_* (all that begin so), or send, write, read, read_response, ack,
// atomic of any service. Adds to `opcodes`; false if there is no such opcode.
bool add_opcodes(std::string_view word, std::array<std::uint64_t, 4>& opcodes);

// REQ, SIDR_REP ...: the bit of Rule::messages.
std::optional<std::uint32_t> message_of(std::string_view word);
std::optional<std::int32_t> nak_of(std::string_view word);     // remote_access, remote_operational, ...
std::optional<std::int32_t> errno_of(std::string_view word);   // ENOMEM or a number
std::optional<std::int32_t> signal_of(std::string_view word);  // KILL, SIGTERM or a number
std::optional<std::int32_t> reject_of(std::string_view word);  // consumer_reject, 28, ...

// What `fail call=` can name, sorted; "ibv_reg_mr".
std::span<const std::string_view> failing_calls();
// "" if it is one of them; otherwise what to write instead.
std::string why_not_failing(std::string_view call);

}  // namespace verbena::faults
