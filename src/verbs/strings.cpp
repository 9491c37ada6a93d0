// Names of enumeration values (ibv_wc_status_str(3) and its relatives).

#include <infiniband/verbs.h>

namespace {

template <std::size_t size>
const char* name_of(const char* const (&names)[size], long value) {
    return value >= 0 && static_cast<std::size_t>(value) < size && names[value] ? names[value] : "unknown";
}

}  // namespace

extern "C" {

const char* ibv_wc_status_str(enum ibv_wc_status status) {
    static constexpr const char* kNames[] = {
        "success",
        "local length error",
        "local QP operation error",
        "local EE context operation error",
        "local protection error",
        "Work Request Flushed Error",
        "memory management operation error",
        "bad response error",
        "local access error",
        "remote invalid request error",
        "remote access error",
        "remote operation error",
        "transport retry counter exceeded",
        "RNR retry counter exceeded",
        "local RDD violation error",
        "remote invalid RD request",
        "aborted error",
        "invalid EE context number",
        "invalid EE context state",
        "fatal error",
        "response timeout error",
        "general error",
        "TM error",
        "TM software rendezvous",
    };
    return name_of(kNames, status);
}

const char* ibv_node_type_str(enum ibv_node_type type) {
    static constexpr const char* kNames[] = {nullptr,
                                             "InfiniBand channel adapter",
                                             "InfiniBand switch",
                                             "InfiniBand router",
                                             "iWARP NIC",
                                             "usNIC",
                                             "usNIC UDP",
                                             "unspecified"};
    return name_of(kNames, type);
}

const char* ibv_port_state_str(enum ibv_port_state state) {
    static constexpr const char* kNames[] = {"no state change (NOP)", "down", "init", "armed", "active",
                                             "active defer"};
    return name_of(kNames, state);
}

const char* ibv_event_type_str(enum ibv_event_type event) {
    static constexpr const char* kNames[] = {
        "CQ error",
        "local work queue catastrophic error",
        "invalid request local work queue error",
        "local access violation work queue error",
        "communication established",
        "send queue drained",
        "path migrated",
        "path migration request error",
        "local catastrophic error",
        "port active",
        "port error",
        "LID change",
        "P_Key change",
        "SM change",
        "SRQ catastrophic error",
        "SRQ limit reached",
        "last WQE reached",
        "client reregistration",
        "GID table change",
        "WQ fatal",
        "Device link speed change",
    };
    return name_of(kNames, event);
}

const char* ibv_wr_opcode_str(enum ibv_wr_opcode opcode) {
    static constexpr const char* kNames[] = {
        "IBV_WR_RDMA_WRITE",
        "IBV_WR_RDMA_WRITE_WITH_IMM",
        "IBV_WR_SEND",
        "IBV_WR_SEND_WITH_IMM",
        "IBV_WR_RDMA_READ",
        "IBV_WR_ATOMIC_CMP_AND_SWP",
        "IBV_WR_ATOMIC_FETCH_AND_ADD",
        "IBV_WR_LOCAL_INV",
        "IBV_WR_BIND_MW",
        "IBV_WR_SEND_WITH_INV",
        "IBV_WR_TSO",
        "IBV_WR_DRIVER1",
        nullptr,
        nullptr,
        "IBV_WR_FLUSH",
        "IBV_WR_ATOMIC_WRITE",
    };
    return name_of(kNames, opcode);
}

}  // extern "C"
