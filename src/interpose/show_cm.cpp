// librdmacm's structures.

#include "interpose/fields.h"
#include "interpose/show.h"
#include "interpose/words.h"

namespace verbena::interpose {
namespace {

void show_private_data(Line& line, const void* data, std::size_t size) {
    if (data && size) show_bytes(line.key("private_data"), data, size);
}

}  // namespace

void show(Line& line, const rdma_conn_param* parameters) {
    object(line, parameters, [&](const rdma_conn_param& p) {
        field(line, "responder_resources", p.responder_resources);
        field(line, "initiator_depth", p.initiator_depth);
        field(line, "flow_control", p.flow_control);
        field(line, "retry_count", p.retry_count);
        field(line, "rnr_retry_count", p.rnr_retry_count);
        field_unless_0(line, "srq", p.srq);
        if (p.qp_num) hex_field(line, "qp_num", p.qp_num);
        show_private_data(line, p.private_data, p.private_data_len);
    });
}

void show(Line& line, const rdma_ud_param* parameters) {
    object(line, parameters, [&](const rdma_ud_param& p) {
        hex_field(line, "qp_num", p.qp_num);
        hex_field(line, "qkey", p.qkey);
        show(line.key("ah_attr"), &p.ah_attr);
        show_private_data(line, p.private_data, p.private_data_len);
    });
}

void show(Line& line, const rdma_addrinfo* info) {
    object(line, info, [&](const rdma_addrinfo& a) {
        hex_field(line, "ai_flags", static_cast<unsigned>(a.ai_flags));
        if (a.ai_qp_type) show_named(line.key("ai_qp_type"), qp_type_name(a.ai_qp_type), a.ai_qp_type);
        if (a.ai_port_space)
            show_named(line.key("ai_port_space"), port_space_name(a.ai_port_space), a.ai_port_space);
        if (a.ai_src_addr) show(line.key("ai_src_addr"), a.ai_src_addr);
        if (a.ai_dst_addr) show(line.key("ai_dst_addr"), a.ai_dst_addr);
    });
}

void show(Line& line, const rdma_cm_join_mc_attr_ex* attributes) {
    object(line, attributes, [&](const rdma_cm_join_mc_attr_ex& a) {
        if (a.comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) show(line.key("addr"), a.addr);
        if (a.comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) field(line, "join_flags", a.join_flags);
    });
}

}  // namespace verbena::interpose
