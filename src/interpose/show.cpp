#include "interpose/show.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cinttypes>
#include <cstring>

#include "interpose/fields.h"
#include "interpose/words.h"

namespace verbena::interpose {
namespace {

constexpr int kMostRequests = 16;        // of a list
constexpr int kMostSges = 8;             // of a request
constexpr std::size_t kMostBytes = 256;  // all private data

void show_sge(Line& line, const ibv_sge& sge) {
    line.open('{');
    hex_field(line, "addr", sge.addr);
    field(line, "length", sge.length);
    hex_field(line, "lkey", sge.lkey);
    line.close('}');
}

void show_sges(Line& line, const ibv_sge* list, int count) {
    line.key("sg_list").open('[');
    for (int i = 0; list && i < count && i < kMostSges; i++) show_sge(line, list[i]);
    line.close(']');
    if (count > kMostSges) field(line, "num_sge", static_cast<std::uint64_t>(count));
}

// Lists are cut, and say so.
template <class Request, class Each>
void show_list(Line& line, const Request* list, Each each) {
    line.open('[');
    int count = 0;
    for (; list && count < kMostRequests; list = list->next, count++) each(*list);
    if (list) line.text("...");
    line.close(']');
}

bool has_immediate(int opcode) {
    return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool is_atomic(int opcode) {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool is_one_sided(int opcode) {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
           opcode == IBV_WR_RDMA_READ || opcode == 15 /* IBV_WR_ATOMIC_WRITE */ || is_atomic(opcode);
}

// What is no enumerator stays the number that it is.
unsigned mtu_bytes(unsigned mtu) { return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : mtu; }

void show_caps(Line& line, const ibv_qp_cap& cap) {
    line.key("cap").open('{');
    field(line, "max_send_wr", cap.max_send_wr);
    field(line, "max_recv_wr", cap.max_recv_wr);
    field(line, "max_send_sge", cap.max_send_sge);
    field(line, "max_recv_sge", cap.max_recv_sge);
    field(line, "max_inline_data", cap.max_inline_data);
    line.close('}');
}

template <class Attributes>
void show_qp_basics(Line& line, const Attributes& a) {
    show_named(line.key("qp_type"), qp_type_name(a.qp_type), a.qp_type);
    object_field(line, "send_cq", a.send_cq);
    object_field(line, "recv_cq", a.recv_cq);
    object_field(line, "srq", a.srq);
    show_caps(line, a.cap);
    field(line, "sq_sig_all", static_cast<unsigned>(a.sq_sig_all));
}

}  // namespace

void show_bytes(Line& line, const void* bytes, std::size_t size) {
    line.begin_text();
    for (std::size_t i = 0; i < size && i < kMostBytes; i++)
        line.format("%02x", static_cast<const unsigned char*>(bytes)[i]);
    if (size > kMostBytes) line.format("... (%zu bytes)", size);
    line.end_text();
}

void show(Line& line, const sockaddr* address) {
    if (!address) return line.null();
    char text[INET6_ADDRSTRLEN] = "";
    line.begin_text();
    if (address->sa_family == AF_INET) {
        sockaddr_in in;
        std::memcpy(&in, address, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
        line.format("%s:%u", text, ntohs(in.sin_port));
    } else if (address->sa_family == AF_INET6) {
        sockaddr_in6 in;
        std::memcpy(&in, address, sizeof in);
        inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
        line.format("[%s]:%u", text, ntohs(in.sin6_port));
    } else {
        line.format("family %u", address->sa_family);
    }
    line.end_text();
}

void show(Line& line, const ibv_gid* gid) {
    if (!gid) return line.null();
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, gid->raw, text, sizeof text);
    line.text(text);
}

void show(Line& line, const SendRequest& r) {
    line.open('{');
    hex_field(line, "wr_id", r.wr_id);
    show_named(line.key("opcode"), wr_opcode_name(r.opcode), r.opcode);
    show_send_flags(line.key("send_flags"), r.flags);
    if (has_immediate(r.opcode)) hex_field(line, "imm_data", ntohl(r.immediate));
    if (r.opcode == IBV_WR_SEND_WITH_INV || r.opcode == IBV_WR_LOCAL_INV)
        hex_field(line, "invalidate_rkey", r.immediate);
    if (is_one_sided(r.opcode)) {
        hex_field(line, "remote_addr", r.remote_address);
        hex_field(line, "rkey", r.rkey);
    }
    if (is_atomic(r.opcode)) hex_field(line, "compare_add", r.compare_add);
    if (r.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) hex_field(line, "swap", r.swap);
    if (r.ah) {
        object_field(line, "ah", r.ah);
        hex_field(line, "remote_qpn", r.remote_qpn);
        hex_field(line, "remote_qkey", r.remote_qkey);
    }
    if (r.remote_srqn) field(line, "remote_srqn", r.remote_srqn);
    object_field(line, "mw", r.mw);
    if (r.inline_length)
        field(line, "inline_length", r.inline_length);
    else if (!r.sges.empty())
        show_sges(line, r.sges.data(), static_cast<int>(r.sges.size()));
    line.close('}');
}

SendRequest request_of(const ibv_send_wr& wr) {
    SendRequest request;
    request.wr_id = wr.wr_id;
    request.opcode = wr.opcode;
    request.flags = wr.send_flags;
    request.immediate = wr.imm_data;
    if (is_atomic(wr.opcode)) {
        request.remote_address = wr.wr.atomic.remote_addr;
        request.rkey = wr.wr.atomic.rkey;
        request.compare_add = wr.wr.atomic.compare_add;
        request.swap = wr.wr.atomic.swap;
    } else if (is_one_sided(wr.opcode)) {
        request.remote_address = wr.wr.rdma.remote_addr;
        request.rkey = wr.wr.rdma.rkey;
    } else if (wr.opcode == IBV_WR_BIND_MW) {
        request.mw = wr.bind_mw.mw;
    } else if (knows_object(Kind::ah, wr.wr.ud.ah)) {
        request.ah = wr.wr.ud.ah;
        request.remote_qpn = wr.wr.ud.remote_qpn;
        request.remote_qkey = wr.wr.ud.remote_qkey;
    }
    if (wr.sg_list && wr.num_sge > 0) request.sges.assign(wr.sg_list, wr.sg_list + wr.num_sge);
    return request;
}

void show(Line& line, const ibv_send_wr* list) {
    show_list(line, list, [&](const ibv_send_wr& wr) { show(line, request_of(wr)); });
}

void show(Line& line, const ibv_recv_wr* list) {
    show_list(line, list, [&](const ibv_recv_wr& wr) {
        line.open('{');
        hex_field(line, "wr_id", wr.wr_id);
        show_sges(line, wr.sg_list, wr.num_sge);
        line.close('}');
    });
}

void show(Line& line, const ibv_qp_init_attr* attributes) {
    object(line, attributes, [&](const ibv_qp_init_attr& a) { show_qp_basics(line, a); });
}

void show(Line& line, const ibv_qp_init_attr_ex* attributes) {
    object(line, attributes, [&](const ibv_qp_init_attr_ex& a) {
        show_qp_basics(line, a);
        hex_field(line, "comp_mask", a.comp_mask);
        if (a.comp_mask & IBV_QP_INIT_ATTR_PD) object_field(line, "pd", a.pd);
        if (a.comp_mask & IBV_QP_INIT_ATTR_XRCD) object_field(line, "xrcd", a.xrcd);
        if (a.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) hex_field(line, "create_flags", a.create_flags);
        if (a.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
            hex_field(line, "send_ops_flags", a.send_ops_flags);
    });
}

void show(Line& line, const ibv_cq_init_attr_ex* attributes) {
    object(line, attributes, [&](const ibv_cq_init_attr_ex& a) {
        field(line, "cqe", a.cqe);
        object_field(line, "channel", a.channel);
        field(line, "comp_vector", a.comp_vector);
        hex_field(line, "wc_flags", a.wc_flags);
        if (a.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) hex_field(line, "flags", a.flags);
    });
}

void show(Line& line, const ibv_srq_attr* attributes) {
    object(line, attributes, [&](const ibv_srq_attr& a) {
        field(line, "max_wr", a.max_wr);
        field(line, "max_sge", a.max_sge);
        field(line, "srq_limit", a.srq_limit);
    });
}

void show(Line& line, const ibv_srq_init_attr* attributes) {
    show(line, attributes ? &attributes->attr : nullptr);
}

void show(Line& line, const ibv_srq_init_attr_ex* attributes) {
    object(line, attributes, [&](const ibv_srq_init_attr_ex& a) {
        show(line.key("attr"), &a.attr);
        if (a.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) field(line, "srq_type", a.srq_type);
        if (a.comp_mask & IBV_SRQ_INIT_ATTR_PD) object_field(line, "pd", a.pd);
        if (a.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) object_field(line, "xrcd", a.xrcd);
        if (a.comp_mask & IBV_SRQ_INIT_ATTR_CQ) object_field(line, "cq", a.cq);
    });
}

void show(Line& line, const ibv_ah_attr* attributes) {
    object(line, attributes, [&](const ibv_ah_attr& a) {
        field(line, "is_global", a.is_global);
        if (a.is_global) {
            show(line.key("dgid"), &a.grh.dgid);
            field(line, "sgid_index", a.grh.sgid_index);
            field(line, "hop_limit", a.grh.hop_limit);
            field_unless_0(line, "traffic_class", a.grh.traffic_class);
            field_unless_0(line, "flow_label", a.grh.flow_label);
        }
        field_unless_0(line, "dlid", a.dlid);
        field_unless_0(line, "sl", a.sl);
        field_unless_0(line, "static_rate", a.static_rate);
        field(line, "port_num", a.port_num);
    });
}

void show(Line& line, const ibv_qp_open_attr* attributes) {
    object(line, attributes, [&](const ibv_qp_open_attr& a) {
        hex_field(line, "qp_num", a.qp_num);
        object_field(line, "xrcd", a.xrcd);
        show_named(line.key("qp_type"), qp_type_name(a.qp_type), a.qp_type);
    });
}

void show(Line& line, const ibv_xrcd_init_attr* attributes) {
    object(line, attributes, [&](const ibv_xrcd_init_attr& a) {
        line.key("fd").number(a.fd);
        hex_field(line, "oflags", static_cast<unsigned>(a.oflags));
    });
}

void show(Line& line, const ibv_alloc_dm_attr* attributes) {
    object(line, attributes, [&](const ibv_alloc_dm_attr& a) {
        field(line, "length", a.length);
        field(line, "log_align_req", a.log_align_req);
    });
}

void show(Line& line, const ibv_mw_bind* bind) {
    object(line, bind, [&](const ibv_mw_bind& b) {
        hex_field(line, "wr_id", b.wr_id);
        show_send_flags(line.key("send_flags"), b.send_flags);
        object_field(line, "mr", b.bind_info.mr);
        hex_field(line, "addr", b.bind_info.addr);
        field(line, "length", b.bind_info.length);
        show_access(line.key("mw_access_flags"), b.bind_info.mw_access_flags);
    });
}

void show(Line& line, const ibv_modify_cq_attr* attributes) {
    object(line, attributes, [&](const ibv_modify_cq_attr& a) {
        field(line, "cq_count", a.moderate.cq_count);
        field(line, "cq_period", a.moderate.cq_period);
    });
}

void show(Line& line, const ibv_wc* completion) {
    object(line, completion, [&](const ibv_wc& wc) {
        hex_field(line, "qp_num", wc.qp_num);
        hex_field(line, "src_qp", wc.src_qp);
        field(line, "byte_len", wc.byte_len);
        show_wc_flags(line.key("wc_flags"), wc.wc_flags);
    });
}

void show(Line& line, const ibv_qp_attr* attributes, int mask) {
    object(line, attributes, [&](const ibv_qp_attr& a) {
        if (mask & IBV_QP_STATE) show_named(line.key("qp_state"), qp_state_name(a.qp_state), a.qp_state);
        if (mask & IBV_QP_CUR_STATE)
            show_named(line.key("cur_qp_state"), qp_state_name(a.cur_qp_state), a.cur_qp_state);
        if (mask & IBV_QP_PKEY_INDEX) field(line, "pkey_index", a.pkey_index);
        if (mask & IBV_QP_PORT) field(line, "port_num", a.port_num);
        if (mask & IBV_QP_ACCESS_FLAGS) show_access(line.key("qp_access_flags"), a.qp_access_flags);
        if (mask & IBV_QP_QKEY) hex_field(line, "qkey", a.qkey);
        if (mask & IBV_QP_PATH_MTU) field(line, "path_mtu", mtu_bytes(a.path_mtu));
        if (mask & IBV_QP_DEST_QPN) hex_field(line, "dest_qp_num", a.dest_qp_num);
        if (mask & IBV_QP_RQ_PSN) field(line, "rq_psn", a.rq_psn);
        if (mask & IBV_QP_SQ_PSN) field(line, "sq_psn", a.sq_psn);
        if (mask & IBV_QP_AV) show(line.key("ah_attr"), &a.ah_attr);
        if (mask & IBV_QP_ALT_PATH) show(line.key("alt_ah_attr"), &a.alt_ah_attr);
        if (mask & IBV_QP_TIMEOUT) field(line, "timeout", a.timeout);
        if (mask & IBV_QP_RETRY_CNT) field(line, "retry_cnt", a.retry_cnt);
        if (mask & IBV_QP_RNR_RETRY) field(line, "rnr_retry", a.rnr_retry);
        if (mask & IBV_QP_MIN_RNR_TIMER) field(line, "min_rnr_timer", a.min_rnr_timer);
        if (mask & IBV_QP_MAX_QP_RD_ATOMIC) field(line, "max_rd_atomic", a.max_rd_atomic);
        if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) field(line, "max_dest_rd_atomic", a.max_dest_rd_atomic);
        if (mask & IBV_QP_CAP) show_caps(line, a.cap);
        if (mask & IBV_QP_RATE_LIMIT) field(line, "rate_limit", a.rate_limit);
    });
}

void show(Line& line, const ibv_device_attr* attributes) {
    object(line, attributes, [&](const ibv_device_attr& a) {
        field(line, "max_qp", static_cast<unsigned>(a.max_qp));
        field(line, "max_qp_wr", static_cast<unsigned>(a.max_qp_wr));
        field(line, "max_sge", static_cast<unsigned>(a.max_sge));
        field(line, "max_cqe", static_cast<unsigned>(a.max_cqe));
        hex_field(line, "max_mr_size", a.max_mr_size);
        field(line, "phys_port_cnt", a.phys_port_cnt);
    });
}

void show(Line& line, const ibv_port_attr* attributes) {
    object(line, attributes, [&](const ibv_port_attr& a) {
        field(line, "state", a.state);
        field(line, "active_mtu", mtu_bytes(a.active_mtu));
        field(line, "gid_tbl_len", static_cast<unsigned>(a.gid_tbl_len));
        field(line, "lid", a.lid);
        field(line, "link_layer", a.link_layer);
    });
}

void show_number(Line& line, const char* name, std::int64_t value) {
    const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
    if (is("access"))
        show_access(line, static_cast<std::uint64_t>(value));
    else if (is("attr_mask"))
        show_qp_mask(line, static_cast<std::uint64_t>(value));
    else if (is("ps"))
        show_named(line, port_space_name(static_cast<int>(value)), value);
    else if (is("cm_event"))
        show_named(line, cm_event_name(static_cast<int>(value)), value);
    else if (is("async_event"))
        show_named(line, async_event_name(static_cast<int>(value)), value);
    else if (is("lkey") || is("rkey") || is("iova") || is("flags"))
        line.hex(static_cast<std::uint64_t>(value));
    else
        line.number(value);
}

}  // namespace verbena::interpose
