// Names of flags and enumerators, without the prefix that all of a kind share unless a name would mean
// nothing without it.
#pragma once

#include <cstdint>

#include "interpose/line.h"

namespace verbena::interpose {

// "LOCAL_WRITE|REMOTE_READ|0x4000"; "0" without any.
void show_access(Line& line, std::uint64_t flags);
void show_send_flags(Line& line, std::uint64_t flags);
void show_qp_mask(Line& line, std::uint64_t mask);
void show_wc_flags(Line& line, std::uint64_t flags);

// The names of values; nullptr for one that has none.
const char* qp_state_name(int state);    // "RTS"
const char* qp_type_name(int type);      // "IBV_QPT_RC"
const char* wr_opcode_name(int opcode);  // "IBV_WR_SEND"
const char* wc_opcode_name(int opcode);  // "IBV_WC_RECV"
const char* wc_status_name(int status);  // "IBV_WC_RETRY_EXC_ERR"; "success"
const char* async_event_name(int event);
const char* cm_event_name(int event);
const char* port_space_name(int space);
const char* error_name(int error);  // "EINVAL"

// The name, or the number.
void show_named(Line& line, const char* name, std::int64_t value);

}  // namespace verbena::interpose
