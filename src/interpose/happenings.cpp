#include "interpose/happenings.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include "interpose/events.h"
#include "interpose/strict_requests.h"
#include "interpose/words.h"

namespace verbena::interpose {
namespace {

// Writes one event, unless nobody wants any.
template <class Body>
void tell(const char* kind, Body body) {
    if (!tracing()) return;
    Line line;
    line.take();
    begin_event(line, kind, wall_clock());
    body(line);
    write_event(line);
    line.give_back();
}

bool has_path(const rdma_cm_id* id) { return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB; }

// What a completion says that is defined: all of it only if it succeeded.
struct Completion {
    std::uint64_t wr_id;
    ibv_wc_status status;
    std::uint32_t qp_num, vendor_err;
    bool knows_qp = true;
};

template <class More>
void tell_completion(const ibv_cq* cq, const Completion& c, More more) {
    if (c.status == IBV_WC_SUCCESS && !tracing_data()) return;
    tell("wc", [&](Line& line) {
        show_object(line.key("cq"), cq);
        if (c.knows_qp) line.key("qp").unsigned_number(c.qp_num);
        line.key("wr_id").hex(c.wr_id);
        show_named(line.key("status"), wc_status_name(c.status), c.status);
        if (c.status == IBV_WC_SUCCESS) return more(line);
        line.key("vendor_err").unsigned_number(c.vendor_err);
        if (const char* reason = reason_of_completion(c.qp_num, c.wr_id, c.status, c.vendor_err); *reason)
            line.key("reason").text(reason);
    });
}

void show_success(Line& line, int opcode, unsigned flags, std::uint32_t immediate) {
    show_named(line.key("opcode"), wc_opcode_name(opcode), opcode);
    if (flags & IBV_WC_WITH_IMM) line.key("imm").hex(ntohl(immediate));
    if (flags & IBV_WC_WITH_INV) line.key("invalidated_rkey").hex(immediate);
    if (flags) show_wc_flags(line.key("wc_flags"), flags);
}

bool has_length(int opcode) { return opcode & IBV_WC_RECV || opcode == IBV_WC_RDMA_READ; }

}  // namespace

void blocks_on(Call& call, int fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && flags & O_NONBLOCK) call.may_block = false;
}

void completed(const ibv_cq* cq, const ibv_wc& wc) {
    tell_completion(cq, {wc.wr_id, wc.status, wc.qp_num, wc.vendor_err}, [&](Line& line) {
        show_success(line, wc.opcode, wc.wc_flags, wc.imm_data);
        if (has_length(wc.opcode)) line.key("byte_len").unsigned_number(wc.byte_len);
        if (wc.opcode & IBV_WC_RECV && wc.wc_flags & IBV_WC_GRH)
            line.key("src_qp").unsigned_number(wc.src_qp);
    });
}

void completed(ibv_cq_ex* cq, const ibv_cq_ex& f, std::uint64_t began) {
    const bool success = cq->status == IBV_WC_SUCCESS;
    if (strict())
        strict_mode::completed(ibv_cq_ex_to_cq(cq),
                               {f.read_qp_num ? f.read_qp_num(cq) : Requests::kAnyQueuePair, cq->wr_id,
                                success, success && f.read_opcode(cq) & IBV_WC_RECV},
                               began);
    if (!tracing()) return;
    const auto read = [&](auto* function) -> std::uint32_t { return function ? function(cq) : 0; };
    tell_completion(ibv_cq_ex_to_cq(cq),
                    {cq->wr_id, cq->status, read(f.read_qp_num), success ? 0 : read(f.read_vendor_err),
                     f.read_qp_num != nullptr},
                    [&](Line& line) {
                        const int opcode = f.read_opcode(cq);
                        const unsigned flags = read(f.read_wc_flags);
                        show_success(line, opcode, flags,
                                     flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV) ? read(f.read_imm_data) : 0);
                        if (has_length(opcode) && f.read_byte_len)
                            line.key("byte_len").unsigned_number(f.read_byte_len(cq));
                        if (opcode & IBV_WC_RECV && flags & IBV_WC_GRH && f.read_src_qp)
                            line.key("src_qp").unsigned_number(f.read_src_qp(cq));
                    });
}

void queue_pair_made(const ibv_qp& qp) {
    tell("qp", [&](Line& line) {
        line.key("qp").unsigned_number(qp.qp_num);
        line.key("from").text("");
        show_named(line.key("to"), qp_state_name(qp.state), qp.state);
        show_named(line.key("type"), qp_type_name(qp.qp_type), qp.qp_type);
    });
}

void queue_pair_modified(const ibv_qp& qp, int from, const ibv_qp_attr& attributes, int mask) {
    tell("qp", [&](Line& line) {
        line.key("qp").unsigned_number(qp.qp_num);
        show_named(line.key("from"), qp_state_name(from), from);
        const int to = mask & IBV_QP_STATE ? attributes.qp_state : from;
        show_named(line.key("to"), qp_state_name(to), to);
        show(line.key("attr"), &attributes, mask);
    });
}

void queue_pair_gone(std::uint32_t number, int from) {
    tell("qp", [&](Line& line) {
        line.key("qp").unsigned_number(number);
        show_named(line.key("from"), qp_state_name(from), from);
        line.key("to").text("");
    });
}

namespace {

// Calls `of_object(pointer)`, or `of_port()` for what is about a port or the whole device.
template <class OfObject, class OfPort>
void visit_element(const ibv_async_event& event, OfObject of_object, OfPort of_port) {
    switch (event.event_type) {
        case IBV_EVENT_CQ_ERR:
            return of_object(event.element.cq);
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_COMM_EST:
        case IBV_EVENT_SQ_DRAINED:
        case IBV_EVENT_PATH_MIG:
        case IBV_EVENT_PATH_MIG_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            return of_object(event.element.qp);
        case IBV_EVENT_SRQ_ERR:
        case IBV_EVENT_SRQ_LIMIT_REACHED:
            return of_object(event.element.srq);
        case IBV_EVENT_WQ_FATAL:
            return of_object(event.element.wq);
        default:
            return of_port();
    }
}

}  // namespace

void show_async_event(Line& line, const ibv_async_event& event) {
    show_named(line.key("event"), async_event_name(event.event_type), event.event_type);
    visit_element(
        event, [&](const auto* object) { show_object(line.key("element"), object); },
        [&] {
            line.key("element").begin_text();
            line.format("port %d", event.element.port_num);
            line.end_text();
        });
}

const void* object_of(const ibv_async_event& event) {
    const void* found = nullptr;
    visit_element(
        event, [&](const auto* object) { found = object; }, [] {});
    return found;
}

void async_event_happened(const ibv_async_event& event) {
    tell("async_event", [&](Line& line) {
        show_async_event(line, event);
        if (const char* reason = reason_of_async_event(&event); *reason) line.key("reason").text(reason);
    });
}

void show_cm_event(Line& line, const rdma_cm_event& event) {
    show_object(line.key("id"), event.id);
    if (event.listen_id) show_object(line.key("listen_id"), event.listen_id);
    show_named(line.key("event"), cm_event_name(event.event), event.event);
    line.key("status").number(event.status);
}

void cm_event_happened(const rdma_cm_event& event) {
    tell("cm_event", [&](Line& line) {
        show_cm_event(line, event);
        switch (event.event) {
            case RDMA_CM_EVENT_CONNECT_REQUEST:
            case RDMA_CM_EVENT_CONNECT_RESPONSE:
            case RDMA_CM_EVENT_ESTABLISHED:
            case RDMA_CM_EVENT_MULTICAST_JOIN:
                if (has_path(event.id))
                    show(line.key("param"), &event.param.ud);
                else
                    show(line.key("param"), &event.param.conn);
                break;
            case RDMA_CM_EVENT_REJECTED:
                if (!has_path(event.id) && event.param.conn.private_data && event.param.conn.private_data_len)
                    show_bytes(line.key("private_data"), event.param.conn.private_data,
                               event.param.conn.private_data_len);
                break;
            default:
                break;
        }
        if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST || event.event == RDMA_CM_EVENT_ESTABLISHED) {
            show(line.key("src_addr"), &event.id->route.addr.src_addr);
            show(line.key("dst_addr"), &event.id->route.addr.dst_addr);
        }
        if (const char* reason = reason_of_cm_event(&event); *reason) line.key("reason").text(reason);
    });
}

}  // namespace verbena::interpose
