#include "wire/opcode.h"

#include <array>

namespace verbena::wire {
namespace {

enum class Place { first, middle, last, only };
enum Extension : unsigned {
    kNothing = 0,
    kDeth = 1,
    kReth = 2,
    kAtomicEth = 4,
    kAeth = 8,
    kAtomicAck = 16,
    kImmDt = 32,
    kIeth = 64,
    kFeth = 128,
    kPayload = 256,
};

using Table = std::array<OpcodeInfo, 256>;

constexpr bool is_response(Operation operation) {
    return operation == Operation::read_response || operation == Operation::acknowledge ||
           operation == Operation::atomic_acknowledge;
}

constexpr void add(Table& table, Opcode opcode, const char* name, Operation operation, Place place,
                   unsigned extensions) {
    OpcodeInfo& entry = table[static_cast<std::uint8_t>(opcode)];
    entry.name = name;
    entry.service = static_cast<Service>(static_cast<unsigned>(opcode) >> 5);
    entry.operation = operation;
    entry.valid = true;
    entry.response = is_response(operation);
    entry.request = !entry.response && operation != Operation::cnp;
    entry.first = place == Place::first;
    entry.middle = place == Place::middle;
    entry.last = place == Place::last;
    entry.only = place == Place::only;
    entry.has_deth = extensions & kDeth;
    // Every request of XRC names its shared receive queue, responses do not (annex A14).
    entry.has_xrceth = entry.service == Service::xrc && entry.request;
    entry.has_reth = extensions & kReth;
    entry.has_atomic_eth = extensions & kAtomicEth;
    entry.has_aeth = extensions & kAeth;
    entry.has_atomic_ack = extensions & kAtomicAck;
    entry.has_immdt = extensions & kImmDt;
    entry.has_ieth = extensions & kIeth;
    entry.has_feth = extensions & kFeth;
    entry.may_have_payload = extensions & kPayload;
    entry.header_length = static_cast<std::uint8_t>(
        kBthLength + (entry.has_deth ? kDethLength : 0) + (entry.has_xrceth ? kXrcEthLength : 0) +
        (entry.has_reth ? kRethLength : 0) + (entry.has_atomic_eth ? kAtomicEthLength : 0) +
        (entry.has_aeth ? kAethLength : 0) + (entry.has_atomic_ack ? kAtomicAckLength : 0) +
        (entry.has_immdt ? kImmDtLength : 0) + (entry.has_ieth ? kIethLength : 0) +
        (entry.has_feth ? kFethLength : 0));
}

struct Row {
    Opcode like;  // the RC opcode; other services share its low five bits
    Operation operation;
    Place place;
    unsigned extensions;
    const char* rc_name;
    const char* uc_name;   // nullptr: UC does not have it
    const char* xrc_name;  // nullptr: XRC does not have it
};

// IBA 9.2.1; annex A14 for XRC, annex A19 for the last two.
constexpr Row kRows[] = {
    {Opcode::rc_send_first, Operation::send, Place::first, kPayload, "rc_send_first", "uc_send_first",
     "xrc_send_first"},
    {Opcode::rc_send_middle, Operation::send, Place::middle, kPayload, "rc_send_middle", "uc_send_middle",
     "xrc_send_middle"},
    {Opcode::rc_send_last, Operation::send, Place::last, kPayload, "rc_send_last", "uc_send_last",
     "xrc_send_last"},
    {Opcode::rc_send_last_immediate, Operation::send, Place::last, kPayload | kImmDt,
     "rc_send_last_immediate", "uc_send_last_immediate", "xrc_send_last_immediate"},
    {Opcode::rc_send_only, Operation::send, Place::only, kPayload, "rc_send_only", "uc_send_only",
     "xrc_send_only"},
    {Opcode::rc_send_only_immediate, Operation::send, Place::only, kPayload | kImmDt,
     "rc_send_only_immediate", "uc_send_only_immediate", "xrc_send_only_immediate"},
    {Opcode::rc_write_first, Operation::write, Place::first, kPayload | kReth, "rc_write_first",
     "uc_write_first", "xrc_write_first"},
    {Opcode::rc_write_middle, Operation::write, Place::middle, kPayload, "rc_write_middle", "uc_write_middle",
     "xrc_write_middle"},
    {Opcode::rc_write_last, Operation::write, Place::last, kPayload, "rc_write_last", "uc_write_last",
     "xrc_write_last"},
    {Opcode::rc_write_last_immediate, Operation::write, Place::last, kPayload | kImmDt,
     "rc_write_last_immediate", "uc_write_last_immediate", "xrc_write_last_immediate"},
    {Opcode::rc_write_only, Operation::write, Place::only, kPayload | kReth, "rc_write_only", "uc_write_only",
     "xrc_write_only"},
    {Opcode::rc_write_only_immediate, Operation::write, Place::only, kPayload | kReth | kImmDt,
     "rc_write_only_immediate", "uc_write_only_immediate", "xrc_write_only_immediate"},
    {Opcode::rc_read_request, Operation::read_request, Place::only, kReth, "rc_read_request", nullptr,
     "xrc_read_request"},
    {Opcode::rc_read_response_first, Operation::read_response, Place::first, kPayload | kAeth,
     "rc_read_response_first", nullptr, "xrc_read_response_first"},
    {Opcode::rc_read_response_middle, Operation::read_response, Place::middle, kPayload,
     "rc_read_response_middle", nullptr, "xrc_read_response_middle"},
    {Opcode::rc_read_response_last, Operation::read_response, Place::last, kPayload | kAeth,
     "rc_read_response_last", nullptr, "xrc_read_response_last"},
    {Opcode::rc_read_response_only, Operation::read_response, Place::only, kPayload | kAeth,
     "rc_read_response_only", nullptr, "xrc_read_response_only"},
    {Opcode::rc_ack, Operation::acknowledge, Place::only, kAeth, "rc_ack", nullptr, "xrc_ack"},
    {Opcode::rc_atomic_ack, Operation::atomic_acknowledge, Place::only, kAeth | kAtomicAck, "rc_atomic_ack",
     nullptr, "xrc_atomic_ack"},
    {Opcode::rc_compare_swap, Operation::compare_swap, Place::only, kAtomicEth, "rc_compare_swap", nullptr,
     "xrc_compare_swap"},
    {Opcode::rc_fetch_add, Operation::fetch_add, Place::only, kAtomicEth, "rc_fetch_add", nullptr,
     "xrc_fetch_add"},
    {Opcode::rc_send_last_invalidate, Operation::send, Place::last, kPayload | kIeth,
     "rc_send_last_invalidate", nullptr, "xrc_send_last_invalidate"},
    {Opcode::rc_send_only_invalidate, Operation::send, Place::only, kPayload | kIeth,
     "rc_send_only_invalidate", nullptr, "xrc_send_only_invalidate"},
    {Opcode::rc_flush, Operation::flush, Place::only, kFeth | kReth, "rc_flush", nullptr, "xrc_flush"},
    {Opcode::rc_atomic_write, Operation::atomic_write, Place::only, kPayload | kReth, "rc_atomic_write",
     nullptr, "xrc_atomic_write"},
};

constexpr Table make_table() {
    Table table{};
    for (const Row& row : kRows) {
        add(table, row.like, row.rc_name, row.operation, row.place, row.extensions);
        if (row.uc_name)
            add(table, with_service(row.like, Service::uc), row.uc_name, row.operation, row.place,
                row.extensions);
        if (row.xrc_name)
            add(table, with_service(row.like, Service::xrc), row.xrc_name, row.operation, row.place,
                row.extensions);
    }
    add(table, Opcode::ud_send_only, "ud_send_only", Operation::send, Place::only, kPayload | kDeth);
    add(table, Opcode::ud_send_only_immediate, "ud_send_only_immediate", Operation::send, Place::only,
        kPayload | kDeth | kImmDt);
    add(table, Opcode::cnp, "cnp", Operation::cnp, Place::only, kPayload);
    return table;
}

constexpr Table kTable = make_table();

constexpr bool longest_is_kMaxHeaderLength() {
    unsigned longest = 0;
    for (const OpcodeInfo& entry : kTable)
        if (entry.header_length > longest) longest = entry.header_length;
    return longest == kMaxHeaderLength;
}
static_assert(longest_is_kMaxHeaderLength());

}  // namespace

const OpcodeInfo& info(Opcode opcode) { return kTable[static_cast<std::uint8_t>(opcode)]; }

}  // namespace verbena::wire
