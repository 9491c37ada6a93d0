#include "faults/words.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "wire/cm_messages.h"
#include "wire/mad.h"
#include "wire/opcode.h"
#include "wire/packet.h"

namespace verbena::faults {
namespace {

std::string lower(std::string_view word) {
    std::string out(word);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

// rc_rdma_write_only, as the specification has it, is our rc_write_only.
std::string plain_opcode(std::string_view word) {
    std::string out = lower(word);
    if (const std::size_t at = out.find("rdma_"); at != std::string::npos) out.erase(at, 5);
    return out;
}

bool is_of(wire::Operation operation, std::string_view kind) {
    using wire::Operation;
    if (kind == "send") return operation == Operation::send;
    if (kind == "write") return operation == Operation::write;
    if (kind == "read") return operation == Operation::read_request;
    if (kind == "read_response") return operation == Operation::read_response;
    if (kind == "ack") return operation == Operation::acknowledge;
    if (kind == "atomic")
        return operation == Operation::compare_swap || operation == Operation::fetch_add ||
               operation == Operation::atomic_write;
    return false;
}

constexpr wire::CmAttribute kMessages[] = {
    wire::CmAttribute::req,  wire::CmAttribute::mra,      wire::CmAttribute::rej,
    wire::CmAttribute::rep,  wire::CmAttribute::rtu,      wire::CmAttribute::dreq,
    wire::CmAttribute::drep, wire::CmAttribute::sidr_req, wire::CmAttribute::sidr_rep,
    wire::CmAttribute::lap,  wire::CmAttribute::apr,
};

constexpr int kMaxErrno = 133;
constexpr std::int32_t kMaxReject = 0xffff;

}  // namespace

std::optional<std::uint64_t> number_of(std::string_view word) {
    int base = 10;
    if (word.size() > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X')) {
        base = 16;
        word.remove_prefix(2);
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (word.empty() || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return value;
}

std::optional<Duration> duration_of(std::string_view word) {
    double value = 0;
    const auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), value, std::chars_format::fixed);
    if (error != std::errc() || !(value >= 0)) return std::nullopt;
    const std::string_view unit = word.substr(static_cast<std::size_t>(end - word.data()));
    const Duration scale = unit == "ns"   ? 1
                           : unit == "us" ? kMicrosecond
                           : unit == "ms" ? kMillisecond
                           : unit == "s"  ? kSecond
                                          : 0;
    constexpr double kLongest = 1e9 * 86400;
    if (scale == 0 || value * static_cast<double>(scale) > kLongest) return std::nullopt;
    return static_cast<Duration>(value * static_cast<double>(scale));
}

bool add_opcodes(std::string_view word, std::array<std::uint64_t, 4>& opcodes) {
    std::string name = plain_opcode(word);
    const std::optional<std::uint64_t> number = number_of(name);
    const bool begins = !name.empty() && name.back() == '*';
    if (begins) name.pop_back();
    bool any = false;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const wire::OpcodeInfo& info = wire::info(static_cast<wire::Opcode>(opcode));
        const bool meant = number   ? opcode == *number
                           : begins ? info.valid && std::string_view(info.name).substr(0, name.size()) == name
                                    : info.valid && (name == info.name || is_of(info.operation, name));
        if (!meant) continue;
        opcodes[opcode >> 6] |= 1ull << (opcode & 63);
        any = true;
    }
    return any;
}

std::optional<std::uint32_t> message_of(std::string_view word) {
    const std::string name = lower(word);
    for (const wire::CmAttribute attribute : kMessages)
        if (name == lower(wire::to_string(attribute))) return 1u << (static_cast<unsigned>(attribute) - 0x10);
    return std::nullopt;
}

std::optional<std::int32_t> nak_of(std::string_view word) {
    constexpr std::string_view kNames[] = {"psn_sequence", "invalid_request", "remote_access",
                                           "remote_operational", "invalid_rd"};
    const std::string name = lower(word);
    for (std::size_t code = 0; code < std::size(kNames); code++)
        if (name == kNames[code]) return static_cast<std::int32_t>(code);
    return std::nullopt;
}

std::optional<std::int32_t> errno_of(std::string_view word) {
    if (const auto number = number_of(word))
        return *number >= 1 && *number <= kMaxErrno ? std::optional(static_cast<std::int32_t>(*number))
                                                    : std::nullopt;
    for (int error = 1; error <= kMaxErrno; error++) {
        const char* name = strerrorname_np(error);
        if (name && word == name) return error;
    }
    if (word == "EWOULDBLOCK") return EAGAIN;
    if (word == "ENOTSUP") return EOPNOTSUPP;
    return std::nullopt;
}

std::optional<std::int32_t> signal_of(std::string_view word) {
    constexpr int kLast = 31;
    if (const auto number = number_of(word))
        return *number >= 1 && *number <= kLast ? std::optional(static_cast<std::int32_t>(*number))
                                                : std::nullopt;
    if (word.substr(0, 3) == "SIG") word.remove_prefix(3);
    for (int number = 1; number <= kLast; number++) {
        const char* name = sigabbrev_np(number);
        if (name && word == name) return number;
    }
    return std::nullopt;
}

std::optional<std::int32_t> reject_of(std::string_view word) {
    if (const auto number = number_of(word))
        return *number >= 1 && *number <= kMaxReject ? std::optional(static_cast<std::int32_t>(*number))
                                                     : std::nullopt;
    std::string name = lower(word);
    std::replace(name.begin(), name.end(), '_', ' ');
    constexpr std::int32_t kLastNamed = 40;
    for (std::int32_t reason = 1; reason <= kLastNamed; reason++)
        if (name == lower(wire::to_string(static_cast<wire::RejReason>(reason)))) return reason;
    return std::nullopt;
}

}  // namespace verbena::faults
