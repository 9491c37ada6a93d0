#include "lane.h"

#include <fcntl.h>

namespace verbena::verbs_test {
namespace {

using transport::Operation;
using transport::Service;

constexpr int kFlushAccess = 1 << 8;  // IBV_ACCESS_FLUSH_GLOBAL of newer headers

Options options_of(Service service) {
    Options options;
    options.connect = false;
    options.with_channel = true;
    options.cap.max_inline_data = Lane::kInline;
    options.type = service == Service::xrc_send ? IBV_QPT_RC : static_cast<ibv_qp_type>(service);
    return options;
}

// IBV_QP_EX_WITH_...
std::uint64_t send_op(Operation operation) {
    if (operation == Operation::flush) return 1u << 11;
    if (operation == Operation::atomic_write) return IBV_QP_EX_WITH_ATOMIC_WRITE;
    return std::uint64_t{1} << static_cast<unsigned>(operation);
}

std::uint64_t all_send_ops(Service service) {
    std::uint64_t all = 0;
    for (const transport::OperationRule& rule : transport::kOperations)
        if (transport::allowed(service, rule, false) == 0) all |= send_op(rule.operation);
    return all;
}

ibv_qp_init_attr_ex sender_setup(const Side& side, Service service) {
    const ibv_qp_init_attr basic = side.setup();
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = static_cast<ibv_qp_type>(service);
    attributes.send_cq = basic.send_cq;
    attributes.recv_cq = service == Service::xrc_send ? nullptr : basic.recv_cq;
    attributes.cap = basic.cap;
    if (service == Service::xrc_send) attributes.cap.max_recv_wr = attributes.cap.max_recv_sge = 0;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
    attributes.pd = side.pd;
    return attributes;
}

void must(int error, const char* what) { EXPECT_EQ(error, 0) << what << ": " << std::strerror(error); }

void to_init(Side& side) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags = kAllAccess | kFlushAccess;
    must(ibv_modify_qp(side.qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "INIT");
}

template <class T>
T* must(T* object, const char* what) {
    if (object) return object;
    ADD_FAILURE() << what << ": " << std::strerror(errno);
    std::abort();
}

}  // namespace

int Lane::creatable(Service service, Operation operation) {
    Side side(options_of(Service::rc));
    ibv_qp_init_attr_ex attributes = sender_setup(side, service);
    attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.send_ops_flags = send_op(operation);
    ibv_qp* qp = ibv_create_qp_ex(side.context, &attributes);
    if (!qp) return errno;
    must(ibv_destroy_qp(qp), "ibv_destroy_qp");
    return 0;
}

Lane::Lane(Service service, Interface interface)
    : service_(service),
      interface_(interface),
      a_(options_of(service)),
      b_(options_of(service)),
      local_(a_.pd, kBytes, kAllAccess | IBV_ACCESS_MW_BIND | kFlushAccess),
      remote_(b_.pd, kBytes, kAllAccess | IBV_ACCESS_MW_BIND | kFlushAccess) {
    must(ibv_destroy_qp(a_.qp), "ibv_destroy_qp");
    ibv_qp_init_attr_ex attributes = sender_setup(a_, service);
    if (interface == Interface::functions) {
        attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attributes.send_ops_flags = all_send_ops(service);
    }
    a_.qp = must(ibv_create_qp_ex(a_.context, &attributes), "ibv_create_qp_ex");
    if (service == Service::ud)
        connect_datagrams();
    else if (service == Service::xrc_send)
        connect_shared_domains();
    else
        connect();
}

void Lane::connect() {
    Side* sides[2] = {&a_, &b_};
    for (int i = 0; i < 2; i++) {
        to_init(*sides[i]);
        must(sides[i]->to_rtr(sides[1 - i]->gid(), sides[1 - i]->qp->qp_num), "RTR");
        must(sides[i]->to_rts(), "RTS");
    }
}

Lane::~Lane() {
    for (ibv_mw* window : windows_) must(ibv_dealloc_mw(window), "ibv_dealloc_mw");
    if (ah_) must(ibv_destroy_ah(ah_), "ibv_destroy_ah");
    if (!xrcd_) return;
    must(ibv_destroy_qp(b_.qp), "ibv_destroy_qp");
    b_.qp = nullptr;
    must(ibv_destroy_srq(xrc_srq_), "ibv_destroy_srq");
    must(ibv_destroy_cq(xrc_cq_), "ibv_destroy_cq");
    must(ibv_close_xrcd(xrcd_), "ibv_close_xrcd");
}

void Lane::connect_datagrams() {
    for (Side* side : {&a_, &b_}) must(start_datagrams(side->qp, kQkey), "RTS");
    ah_ = must(address_handle(a_.pd, b_.gid()), "ibv_create_ah");
}

void Lane::connect_shared_domains() {
    ibv_xrcd_init_attr domain{};
    domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    domain.fd = -1;
    domain.oflags = O_CREAT;
    xrcd_ = must(ibv_open_xrcd(b_.context, &domain), "ibv_open_xrcd");
    xrc_cq_ = must(ibv_create_cq(b_.context, 512, nullptr, b_.channel, 0), "ibv_create_cq");
    ibv_srq_init_attr_ex shared{};
    shared.attr.max_wr = 128;
    shared.attr.max_sge = 4;
    shared.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    shared.srq_type = IBV_SRQT_XRC;
    shared.pd = b_.pd;
    shared.xrcd = xrcd_;
    shared.cq = xrc_cq_;
    xrc_srq_ = must(ibv_create_srq_ex(b_.context, &shared), "ibv_create_srq_ex");
    must(ibv_get_srq_num(xrc_srq_, &xrc_srqn_), "ibv_get_srq_num");
    must(ibv_destroy_qp(b_.qp), "ibv_destroy_qp");
    ibv_qp_init_attr_ex target{};
    target.qp_type = IBV_QPT_XRC_RECV;
    target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    target.xrcd = xrcd_;
    b_.qp = must(ibv_create_qp_ex(b_.context, &target), "ibv_create_qp_ex");
    Side* sides[2] = {&a_, &b_};
    for (int i = 0; i < 2; i++) {
        Side &side = *sides[i], &other = *sides[1 - i];
        to_init(side);
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_RTR;
        to.path_mtu = IBV_MTU_4096;
        to.dest_qp_num = other.qp->qp_num;
        to.max_dest_rd_atomic = to.max_rd_atomic = 16;
        to.min_rnr_timer = 1;
        to.timeout = 14;
        to.retry_cnt = to.rnr_retry = 7;
        to.ah_attr.is_global = to.ah_attr.port_num = 1;
        to.ah_attr.grh.dgid = other.gid();
        to.ah_attr.grh.hop_limit = 64;
        const int both = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        const bool sends = i == 0;
        must(ibv_modify_qp(side.qp, &to,
                           both | (sends ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)),
             "RTR");
        to.qp_state = IBV_QPS_RTS;
        must(ibv_modify_qp(side.qp, &to,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN |
                               (sends ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)),
             "RTS");
    }
}

int Lane::post_receive(std::uint64_t wr_id, std::size_t length) {
    ibv_sge sge = remote_.sge(0, length);
    ibv_recv_wr request{}, *bad;
    request.wr_id = wr_id;
    request.sg_list = &sge;
    request.num_sge = 1;
    return xrc_srq_ ? ibv_post_srq_recv(xrc_srq_, &request, &bad) : ibv_post_recv(b_.qp, &request, &bad);
}

int Lane::post(const Move& move) {
    return interface_ == Interface::functions ? post_functions(move) : post_work_request(move);
}

int Lane::post_work_request(const Move& move) {
    ibv_sge sge = local_.sge(0, move.length);
    Request request(move.wr_id, static_cast<ibv_wr_opcode>(move.operation), &sge, 1, move.flags);
    request.imm_data = htobe32(kImmediate);
    switch (move.operation) {
        case Operation::send_with_invalidate:
        case Operation::local_invalidate:
            request.invalidate_rkey = move.key;
            if (move.operation == Operation::local_invalidate) request.num_sge = 0;
            break;
        case Operation::bind_window:
            request.num_sge = 0;
            request.bind_mw.mw = new_window(a_);
            request.bind_mw.rkey = request.bind_mw.mw ? ibv_inc_rkey(request.bind_mw.mw->rkey) : 0;
            request.bind_mw.bind_info = {local_.mr, local_.address(), 64, IBV_ACCESS_REMOTE_WRITE};
            break;
        default:
            request.to(remote_);
            request.wr.atomic.compare_add = request.wr.atomic.swap = kAddend;
            if (move.operation != Operation::compare_swap && move.operation != Operation::fetch_add)
                request.to(remote_);
    }
    if (is_datagram()) {
        request.wr.ud.ah = ah_;
        request.wr.ud.remote_qpn = b_.qp->qp_num;
        request.wr.ud.remote_qkey = kQkey;
    }
    request.qp_type.xrc.remote_srqn = xrc_srqn_;
    return request.post(a_.qp);
}

int Lane::post_functions(const Move& move) {
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(a_.qp);
    const std::uint32_t rkey = remote_.mr->rkey;
    const std::uint64_t address = remote_.address();
    ibv_mw* window = move.operation == Operation::bind_window ? new_window(a_) : nullptr;
    ibv_wr_start(qp);
    qp->wr_id = move.wr_id;
    qp->wr_flags = move.flags & ~unsigned{IBV_SEND_INLINE};
    bool data = true;
    switch (move.operation) {
        case Operation::send:
            ibv_wr_send(qp);
            break;
        case Operation::send_with_immediate:
            ibv_wr_send_imm(qp, htobe32(kImmediate));
            break;
        case Operation::send_with_invalidate:
            ibv_wr_send_inv(qp, move.key);
            break;
        case Operation::rdma_write:
            ibv_wr_rdma_write(qp, rkey, address);
            break;
        case Operation::rdma_write_with_immediate:
            ibv_wr_rdma_write_imm(qp, rkey, address, htobe32(kImmediate));
            break;
        case Operation::rdma_read:
            ibv_wr_rdma_read(qp, rkey, address);
            break;
        case Operation::compare_swap:
            ibv_wr_atomic_cmp_swp(qp, rkey, address, kAddend, kAddend);
            break;
        case Operation::fetch_add:
            ibv_wr_atomic_fetch_add(qp, rkey, address, kAddend);
            break;
        case Operation::local_invalidate:
            ibv_wr_local_inv(qp, move.key);
            data = false;
            break;
        case Operation::bind_window: {
            const ibv_mw_bind_info info{local_.mr, local_.address(), 64, IBV_ACCESS_REMOTE_WRITE};
            ibv_wr_bind_mw(qp, window, window ? ibv_inc_rkey(window->rkey) : 0, &info);
            data = false;
            break;
        }
        case Operation::atomic_write:
            ibv_wr_atomic_write(qp, rkey, address, local_.data());
            data = false;
            break;
        case Operation::flush: {
            constexpr std::uint8_t kGlobal = 1, kRange = 0;
            auto* newest = reinterpret_cast<abi::QpEx*>(qp);
            newest->wr_flush(qp, rkey, address, 64, kGlobal, kRange);
            data = false;
            break;
        }
        case Operation::tso:
        case Operation::driver1:
            ibv_wr_abort(qp);
            return EOPNOTSUPP;
    }
    if (move.flags & IBV_SEND_INLINE)
        ibv_wr_set_inline_data(qp, local_.data(), move.length);
    else if (data)
        ibv_wr_set_sge(qp, local_.mr->lkey, local_.address(), static_cast<std::uint32_t>(move.length));
    if (ah_) ibv_wr_set_ud_addr(qp, ah_, b_.qp->qp_num, kQkey);
    if (xrc_srq_) ibv_wr_set_xrc_srqn(qp, xrc_srqn_);
    return ibv_wr_complete(qp);
}

ibv_mw* Lane::new_window(Side& side) {
    ibv_mw* window = ibv_alloc_mw(side.pd, IBV_MW_TYPE_2);
    if (window) windows_.push_back(window);
    return window;
}

std::uint32_t Lane::bound_window(bool of_receiver) {
    Side& side = of_receiver ? b_ : a_;
    Memory& memory = of_receiver ? remote_ : local_;
    ibv_mw* window = must(new_window(side), "ibv_alloc_mw");
    Request bind(0, IBV_WR_BIND_MW, nullptr, 0);
    bind.bind_mw.mw = window;
    bind.bind_mw.rkey = ibv_inc_rkey(window->rkey);
    bind.bind_mw.bind_info = {memory.mr, memory.address(), 64, IBV_ACCESS_REMOTE_WRITE};
    must(bind.post(side.qp), "IBV_WR_BIND_MW");
    success(side.send_cq);
    return bind.bind_mw.rkey;
}

}  // namespace verbena::verbs_test
