#include "interpose/words.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include <cinttypes>
#include <iterator>
#include <span>

namespace verbena::interpose {
namespace {

struct Word {
    std::uint32_t value;
    const char* name;
};

#define FLAG(name) \
    { IBV_##name, "IBV_" #name }

constexpr Word kAccess[] = {
    {IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"},
    {IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
    {IBV_ACCESS_REMOTE_READ, "REMOTE_READ"},
    {IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
    {IBV_ACCESS_MW_BIND, "MW_BIND"},
    {IBV_ACCESS_ZERO_BASED, "ZERO_BASED"},
    {IBV_ACCESS_ON_DEMAND, "ON_DEMAND"},
    {IBV_ACCESS_HUGETLB, "HUGETLB"},
    {IBV_ACCESS_RELAXED_ORDERING, "RELAXED_ORDERING"},
};
constexpr Word kSend[] = {
    {IBV_SEND_FENCE, "FENCE"},   {IBV_SEND_SIGNALED, "SIGNALED"}, {IBV_SEND_SOLICITED, "SOLICITED"},
    {IBV_SEND_INLINE, "INLINE"}, {IBV_SEND_IP_CSUM, "IP_CSUM"},
};
constexpr Word kWcFlags[] = {
    {IBV_WC_GRH, "GRH"},
    {IBV_WC_WITH_IMM, "WITH_IMM"},
    {IBV_WC_IP_CSUM_OK, "IP_CSUM_OK"},
    {IBV_WC_WITH_INV, "WITH_INV"},
};
constexpr Word kQpMask[] = {
    {IBV_QP_STATE, "STATE"},
    {IBV_QP_CUR_STATE, "CUR_STATE"},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"},
    {IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
    {IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
    {IBV_QP_PORT, "PORT"},
    {IBV_QP_QKEY, "QKEY"},
    {IBV_QP_AV, "AV"},
    {IBV_QP_PATH_MTU, "PATH_MTU"},
    {IBV_QP_TIMEOUT, "TIMEOUT"},
    {IBV_QP_RETRY_CNT, "RETRY_CNT"},
    {IBV_QP_RNR_RETRY, "RNR_RETRY"},
    {IBV_QP_RQ_PSN, "RQ_PSN"},
    {IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
    {IBV_QP_ALT_PATH, "ALT_PATH"},
    {IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
    {IBV_QP_SQ_PSN, "SQ_PSN"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
    {IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE"},
    {IBV_QP_CAP, "CAP"},
    {IBV_QP_DEST_QPN, "DEST_QPN"},
    {IBV_QP_RATE_LIMIT, "RATE_LIMIT"},
};

constexpr Word kQpStates[] = {
    {IBV_QPS_RESET, "RESET"}, {IBV_QPS_INIT, "INIT"}, {IBV_QPS_RTR, "RTR"}, {IBV_QPS_RTS, "RTS"},
    {IBV_QPS_SQD, "SQD"},     {IBV_QPS_SQE, "SQE"},   {IBV_QPS_ERR, "ERR"}, {IBV_QPS_UNKNOWN, "UNKNOWN"},
};
constexpr Word kQpTypes[] = {
    FLAG(QPT_RC),       FLAG(QPT_UC),       FLAG(QPT_UD),     FLAG(QPT_RAW_PACKET),
    FLAG(QPT_XRC_SEND), FLAG(QPT_XRC_RECV), FLAG(QPT_DRIVER),
};
// The last two are of releases after v44.
constexpr Word kWrOpcodes[] = {
    FLAG(WR_RDMA_WRITE),
    FLAG(WR_RDMA_WRITE_WITH_IMM),
    FLAG(WR_SEND),
    FLAG(WR_SEND_WITH_IMM),
    FLAG(WR_RDMA_READ),
    FLAG(WR_ATOMIC_CMP_AND_SWP),
    FLAG(WR_ATOMIC_FETCH_AND_ADD),
    FLAG(WR_LOCAL_INV),
    FLAG(WR_BIND_MW),
    FLAG(WR_SEND_WITH_INV),
    FLAG(WR_TSO),
    {14, "IBV_WR_FLUSH"},
    {15, "IBV_WR_ATOMIC_WRITE"},
};
constexpr Word kWcOpcodes[] = {
    FLAG(WC_SEND),       FLAG(WC_RDMA_WRITE),        FLAG(WC_RDMA_READ), FLAG(WC_COMP_SWAP),
    FLAG(WC_FETCH_ADD),  FLAG(WC_BIND_MW),           FLAG(WC_LOCAL_INV), FLAG(WC_TSO),
    {8, "IBV_WC_FLUSH"}, {9, "IBV_WC_ATOMIC_WRITE"}, FLAG(WC_RECV),      FLAG(WC_RECV_RDMA_WITH_IMM),
};
constexpr Word kWcStatuses[] = {
    {IBV_WC_SUCCESS, "success"},
    FLAG(WC_LOC_LEN_ERR),
    FLAG(WC_LOC_QP_OP_ERR),
    FLAG(WC_LOC_EEC_OP_ERR),
    FLAG(WC_LOC_PROT_ERR),
    FLAG(WC_WR_FLUSH_ERR),
    FLAG(WC_MW_BIND_ERR),
    FLAG(WC_BAD_RESP_ERR),
    FLAG(WC_LOC_ACCESS_ERR),
    FLAG(WC_REM_INV_REQ_ERR),
    FLAG(WC_REM_ACCESS_ERR),
    FLAG(WC_REM_OP_ERR),
    FLAG(WC_RETRY_EXC_ERR),
    FLAG(WC_RNR_RETRY_EXC_ERR),
    FLAG(WC_LOC_RDD_VIOL_ERR),
    FLAG(WC_REM_INV_RD_REQ_ERR),
    FLAG(WC_REM_ABORT_ERR),
    FLAG(WC_INV_EECN_ERR),
    FLAG(WC_INV_EEC_STATE_ERR),
    FLAG(WC_FATAL_ERR),
    FLAG(WC_RESP_TIMEOUT_ERR),
    FLAG(WC_GENERAL_ERR),
    FLAG(WC_TM_ERR),
    FLAG(WC_TM_RNDV_INCOMPLETE),
};
constexpr Word kAsyncEvents[] = {
    FLAG(EVENT_CQ_ERR),
    FLAG(EVENT_QP_FATAL),
    FLAG(EVENT_QP_REQ_ERR),
    FLAG(EVENT_QP_ACCESS_ERR),
    FLAG(EVENT_COMM_EST),
    FLAG(EVENT_SQ_DRAINED),
    FLAG(EVENT_PATH_MIG),
    FLAG(EVENT_PATH_MIG_ERR),
    FLAG(EVENT_DEVICE_FATAL),
    FLAG(EVENT_PORT_ACTIVE),
    FLAG(EVENT_PORT_ERR),
    FLAG(EVENT_LID_CHANGE),
    FLAG(EVENT_PKEY_CHANGE),
    FLAG(EVENT_SM_CHANGE),
    FLAG(EVENT_SRQ_ERR),
    FLAG(EVENT_SRQ_LIMIT_REACHED),
    FLAG(EVENT_QP_LAST_WQE_REACHED),
    FLAG(EVENT_CLIENT_REREGISTER),
    FLAG(EVENT_GID_CHANGE),
    FLAG(EVENT_WQ_FATAL),
    {20, "IBV_EVENT_DEVICE_SPEED_CHANGE"},  // of release 62 on
};
#undef FLAG
#define CM(name) \
    { RDMA_CM_EVENT_##name, "RDMA_CM_EVENT_" #name }
constexpr Word kCmEvents[] = {
    CM(ADDR_RESOLVED),
    CM(ADDR_ERROR),
    CM(ROUTE_RESOLVED),
    CM(ROUTE_ERROR),
    CM(CONNECT_REQUEST),
    CM(CONNECT_RESPONSE),
    CM(CONNECT_ERROR),
    CM(UNREACHABLE),
    CM(REJECTED),
    CM(ESTABLISHED),
    CM(DISCONNECTED),
    CM(DEVICE_REMOVAL),
    CM(MULTICAST_JOIN),
    CM(MULTICAST_ERROR),
    CM(ADDR_CHANGE),
    CM(TIMEWAIT_EXIT),
    {16, "RDMA_CM_EVENT_ADDRINFO_RESOLVED"},
    {17, "RDMA_CM_EVENT_ADDRINFO_ERROR"},
    {18, "RDMA_CM_EVENT_USER"},
    {19, "RDMA_CM_EVENT_INTERNAL"},
};
#undef CM
constexpr Word kPortSpaces[] = {
    {RDMA_PS_IPOIB, "RDMA_PS_IPOIB"},
    {RDMA_PS_TCP, "RDMA_PS_TCP"},
    {RDMA_PS_UDP, "RDMA_PS_UDP"},
    {RDMA_PS_IB, "RDMA_PS_IB"},
};

const char* find(std::span<const Word> words, int value) {
    for (const Word& word : words)
        if (word.value == static_cast<std::uint32_t>(value)) return word.name;
    return nullptr;
}

void show_flags(Line& line, std::uint64_t flags, std::span<const Word> words) {
    line.begin_text();
    bool first = true;
    for (const Word& word : words)
        if (flags & word.value) {
            if (!first) line.raw("|");
            line.raw(word.name);
            flags &= ~std::uint64_t{word.value};
            first = false;
        }
    if (flags)
        line.format("%s0x%" PRIx64, first ? "" : "|", flags);
    else if (first)
        line.raw("0");
    line.end_text();
}

}  // namespace

void show_access(Line& line, std::uint64_t flags) { show_flags(line, flags, kAccess); }
void show_send_flags(Line& line, std::uint64_t flags) { show_flags(line, flags, kSend); }
void show_qp_mask(Line& line, std::uint64_t mask) { show_flags(line, mask, kQpMask); }
void show_wc_flags(Line& line, std::uint64_t flags) { show_flags(line, flags, kWcFlags); }

const char* qp_state_name(int state) { return find(kQpStates, state); }
const char* qp_type_name(int type) { return find(kQpTypes, type); }
const char* wr_opcode_name(int opcode) { return find(kWrOpcodes, opcode); }
const char* wc_opcode_name(int opcode) { return find(kWcOpcodes, opcode); }
const char* wc_status_name(int status) { return find(kWcStatuses, status); }
const char* async_event_name(int event) { return find(kAsyncEvents, event); }
const char* cm_event_name(int event) { return find(kCmEvents, event); }
const char* port_space_name(int space) { return find(kPortSpaces, space); }
const char* error_name(int error) { return strerrorname_np(error); }

void show_named(Line& line, const char* name, std::int64_t value) {
    if (name)
        line.text(name);
    else
        line.number(value);
}

}  // namespace verbena::interpose
