#include "side.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

namespace table {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kVerbenaVendor = 0x025642;
constexpr std::uint32_t kUnknownKey = 0x7fffff42;
constexpr std::uint32_t kFollower = 100;  // bytes
constexpr int kSettleMs = 3000;           // for what follows a completion on the other side

[[noreturn]] void fail(const std::string& what, int error = errno) {
    throw Trouble(what + ": " + std::strerror(error));
}

void check(int error, const char* what) {
    if (error) fail(what, error);
}

// Waits, sleeping, until done() or the time is up.
template <class Done>
bool wait_until(int milliseconds, Done done) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (!done()) {
        if (Clock::now() >= deadline) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
}

bool is_rdma(ibv_wr_opcode opcode) {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_RDMA_READ;
}

}  // namespace

int listen_on(std::uint16_t& port) {
    const int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    socklen_t size = sizeof address;
    auto* generic = static_cast<sockaddr*>(static_cast<void*>(&address));
    if (bind(socket_, generic, size) != 0 || listen(socket_, 1) != 0 ||
        getsockname(socket_, generic, &size) != 0)
        return -1;
    port = ntohs(address.sin_port);
    return socket_;
}

int connect_to(const char* host, std::uint16_t port) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host, std::to_string(port).c_str(), &hints, &found) != 0) return -1;
    const int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int result = connect(socket_, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return result == 0 ? socket_ : -1;
}

Wire::~Wire() { close(socket_); }

void Wire::send_all(const void* data, std::size_t size) {
    if (send(socket_, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) fail("side channel");
}

void Wire::receive_all(void* data, std::size_t size) {
    ssize_t got = recv(socket_, data, size, MSG_WAITALL);
    if (got != static_cast<ssize_t>(size)) fail("side channel", got < 0 ? errno : ECONNRESET);
}

Device::Device(const std::string& name) {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (!list) fail("ibv_get_device_list");
    for (ibv_device** entry = list; *entry && !context; entry++)
        if (name.empty() || name == ibv_get_device_name(*entry)) context = ibv_open_device(*entry);
    ibv_free_device_list(list);
    if (!context) fail("no device " + name);
    ibv_device_attr device;
    ibv_port_attr port;
    check(ibv_query_device(context, &device), "ibv_query_device");
    check(ibv_query_port(context, 1, &port), "ibv_query_port");
    is_verbena = device.vendor_id == kVerbenaVendor;
    mtu = port.active_mtu;
    const int flags = fcntl(context->async_fd, F_GETFL);
    if (flags < 0 || fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) fail("async_fd");
}

Device::~Device() { ibv_close_device(context); }

Region::Region(ibv_pd* pd, int access) : bytes_(kBuffer / 8, kFilling) {
    mr_ = ibv_reg_mr(pd, bytes_.data(), kBuffer, access);
    if (!mr_) fail("ibv_reg_mr");
    lkey = mr_->lkey;
    rkey = mr_->rkey;
}

Region::~Region() { deregister(); }

std::uint64_t Region::word() const { return *static_cast<const volatile std::uint64_t*>(bytes_.data()); }

void Region::deregister() {
    if (mr_) ibv_dereg_mr(mr_);
    mr_ = nullptr;
}

Ends::Ends(Device& device, unsigned gid_index, const Row& row, bool responds)
    : send_cq(ibv_create_cq(device.context, 16, nullptr, nullptr, 0)),
      receive_cq(ibv_create_cq(device.context, 16, nullptr, nullptr, 0)),
      device_(device),
      gid_index_(gid_index),
      row_(row),
      pd_(ibv_alloc_pd(device.context)),
      other_pd_(ibv_alloc_pd(device.context)),
      data_(pd_, (responds ? row.fault.region_access : row.fault.local_access) |
                     (row.fault.window == Window::none ? 0 : IBV_ACCESS_MW_BIND)),
      foreign_(other_pd_, kAll),
      gone_(pd_, kAll),
      receive_(pd_, row.fault.receive_access),
      psn_(std::random_device{}() & 0xffffff) {
    qp_ = create_qp();
}

ibv_qp* Ends::create_qp() {
    ibv_qp_init_attr setup{};
    setup.send_cq = send_cq;
    setup.recv_cq = receive_cq;
    setup.cap = {8, 4, 1, 1, 0};
    setup.qp_type = IBV_QPT_RC;
    ibv_qp* qp = ibv_create_qp(pd_, &setup);
    if (!qp) fail("ibv_create_qp");
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = static_cast<unsigned>(row_.fault.qp_access);
    check(
        ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        "RESET->INIT");
    return qp;
}

Ends::~Ends() {
    // The window first: soft-RoCE does not let go of a queue pair to which one is bound.
    if (window_) ibv_dealloc_mw(window_);
    destroy_qp();
    if (other_qp_) ibv_destroy_qp(other_qp_);
    for (ibv_cq* cq : {send_cq, receive_cq}) ibv_destroy_cq(cq);
    for (Region* region : {&data_, &foreign_, &gone_, &receive_}) region->deregister();
    for (ibv_pd* pd : {pd_, other_pd_}) ibv_dealloc_pd(pd);
}

void Ends::destroy_qp() {
    if (qp_) ibv_destroy_qp(qp_);
    qp_ = nullptr;
}

Region& Ends::region_for(Key key) {
    return key == Key::foreign_pd ? foreign_ : key == Key::deregistered ? gone_ : data_;
}

Address Ends::address() const {
    Address mine{};
    mine.number = qp_->qp_num;
    mine.psn = psn_;
    mine.lkey = data_.lkey;
    mine.rkey = data_.rkey;
    mine.memory = data_.address();
    if (row_.fault.remote_key == Key::foreign_pd) {
        mine.rkey = foreign_.rkey;
        mine.memory = foreign_.address();
    } else if (row_.fault.remote_key == Key::deregistered) {
        mine.rkey = gone_.rkey;
        mine.memory = gone_.address();
    }
    if (ibv_query_gid(device_.context, 1, static_cast<int>(gid_index_), &mine.gid)) fail("ibv_query_gid");
    mine.mtu = device_.mtu;
    mine.is_verbena = device_.is_verbena;
    return mine;
}

void Ends::connect(const Address& peer, std::uint32_t flow_label) {
    flow_label_ = flow_label;
    bring_up(qp_, peer);
    gone_.deregister();
}

void Ends::bring_up(ibv_qp* qp, const Address& peer) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = std::min(peer.mtu, device_.mtu);
    to.dest_qp_num = peer.number;
    to.rq_psn = peer.psn;
    to.max_dest_rd_atomic = row_.fault.responder_depth;
    to.min_rnr_timer = 12;  // 0.64 ms
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.grh.dgid = peer.gid;
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
    to.ah_attr.grh.flow_label = flow_label_;
    to.ah_attr.grh.hop_limit = 64;
    check(ibv_modify_qp(qp, &to,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "INIT->RTR");
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 14;  // 67 ms
    to.retry_cnt = row_.fault.peer_vanishes ? 1 : 7;
    to.rnr_retry = row_.fault.rnr_retry;
    to.sq_psn = psn_;
    to.max_rd_atomic = 4;
    check(ibv_modify_qp(qp, &to,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC),
          "RTR->RTS");
}

std::uint32_t Ends::window_key(const Address& peer) {
    const Window kind = row_.fault.window;
    if (kind == Window::none) return 0;
    window_ = ibv_alloc_mw(pd_, kind == Window::type_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    if (!window_) fail("ibv_alloc_mw");
    if (kind == Window::type_1) {
        ibv_mw_bind bind{};
        bind.send_flags = IBV_SEND_SIGNALED;
        bind.bind_info = {data_.handle(), data_.address(), kWindow,
                          static_cast<unsigned>(row_.fault.window_access)};
        check(ibv_bind_mw(qp_, window_, &bind), "ibv_bind_mw");
        finish("the bind");
        return window_->rkey;
    }
    const std::uint32_t key = ibv_inc_rkey(window_->rkey);
    if (kind == Window::other_qp) bring_up(other_qp_ = create_qp(), peer);
    bind_window(kind == Window::other_qp ? other_qp_ : qp_, key);
    if (kind == Window::invalidated || kind == Window::rebound) invalidate_window(key);
    if (kind == Window::rebound) bind_window(qp_, ibv_inc_rkey(key));
    return key;
}

void Ends::bind_window(ibv_qp* qp, std::uint32_t key) {
    ibv_send_wr request{}, *bad;
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = IBV_SEND_SIGNALED;
    request.bind_mw.mw = window_;
    request.bind_mw.rkey = key;
    request.bind_mw.bind_info = {data_.handle(), data_.address(), kWindow,
                                 static_cast<unsigned>(row_.fault.window_access)};
    check(ibv_post_send(qp, &request, &bad), "posting the bind");
    finish("the bind");
    window_->rkey = key;  // soft-RoCE's library looks here for the key of before
}

void Ends::invalidate_window(std::uint32_t key) {
    ibv_send_wr request{}, *bad;
    request.opcode = IBV_WR_LOCAL_INV;
    request.send_flags = IBV_SEND_SIGNALED;
    request.invalidate_rkey = key;
    check(ibv_post_send(qp_, &request, &bad), "posting the invalidation");
    finish("the invalidation");
}

// Takes the completion of a request to prepare the row.
void Ends::finish(const char* what) {
    ibv_wc completion;
    if (!next(send_cq, completion)) throw Trouble(std::string(what) + " does not complete");
    if (completion.status != IBV_WC_SUCCESS)
        throw Trouble(std::string(what) + ": " + ibv_wc_status_str(completion.status));
}

void Ends::post_receive() {
    const Fault& fault = row_.fault;
    Region& into = fault.receive_key == Key::good ? receive_ : region_for(fault.receive_key);
    ibv_sge sge{into.address(), fault.receive_length, into.lkey};
    ibv_recv_wr request{}, *bad;
    request.wr_id = 0x1122334455667788;
    request.sg_list = &sge;
    request.num_sge = 1;
    check(ibv_post_recv(qp_, &request, &bad), "ibv_post_recv");
}

int Ends::post_request(const Address& peer, bool followed) {
    const Fault& fault = row_.fault;
    Region& from = region_for(fault.local_key);
    ibv_sge sge{from.address() + fault.local_offset, row_.length, from.lkey};
    if (fault.local_key == Key::unknown) sge.lkey = kUnknownKey & ~1u;
    std::uint32_t rkey = fault.remote_key == Key::unknown      ? kUnknownKey
                         : fault.remote_key == Key::other_kind ? peer.lkey
                                                               : peer.rkey;
    const std::uint64_t remote = peer.memory + static_cast<std::uint64_t>(fault.remote_offset);

    ibv_sge after_sge{data_.address(), kFollower, data_.lkey};
    ibv_send_wr after{}, request{}, *bad = nullptr;
    after.wr_id = 2;
    after.opcode = IBV_WR_SEND;
    after.send_flags = IBV_SEND_SIGNALED;
    after.sg_list = &after_sge;
    after.num_sge = 1;
    request.wr_id = 0xfedcba9876543210;
    request.opcode = row_.opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &sge;
    request.num_sge = 1;
    if (followed) request.next = &after;
    if (is_rdma(row_.opcode)) {
        request.wr.rdma.remote_addr = remote;
        request.wr.rdma.rkey = rkey;
    } else if (row_.opcode == IBV_WR_SEND_WITH_INV) {
        request.invalidate_rkey = rkey;
    } else {
        request.wr.atomic.remote_addr = remote;
        request.wr.atomic.rkey = rkey;
        request.wr.atomic.compare_add = 1;
    }
    std::vector<ibv_send_wr> ahead(fault.ahead, request);
    if (fault.invalidate_first) {
        ahead.push_back(request);
        ahead[0].opcode = IBV_WR_SEND_WITH_INV;
        ahead[0].invalidate_rkey = rkey;
    }
    for (std::size_t i = 0; i < ahead.size(); i++) {
        ahead[i].wr_id = kAhead;
        ahead[i].next = i + 1 < ahead.size() ? &ahead[i + 1] : &request;
    }
    const int error = ibv_post_send(qp_, ahead.empty() ? &request : ahead.data(), &bad);
    if (error && bad != &request) throw Trouble("ibv_post_send refused, and bad_wr is not the request");
    return error;
}

bool Ends::next(ibv_cq* cq, ibv_wc& completion, int milliseconds) {
    int count = 0;
    wait_until(milliseconds, [&] { return (count = ibv_poll_cq(cq, 1, &completion)) != 0; });
    if (count < 0) throw Trouble("ibv_poll_cq failed");
    return count == 1;
}

ibv_qp_state Ends::state(ibv_qp_state expected) {
    ibv_qp_attr now;
    ibv_qp_init_attr setup;
    wait_until(kSettleMs, [&] {
        check(ibv_query_qp(qp_, &now, IBV_QP_STATE, &setup), "ibv_query_qp");
        return now.qp_state == expected;
    });
    return now.qp_state;
}

int Ends::event(int expected) {
    for (;;) {
        pollfd waiting{device_.context->async_fd, POLLIN, 0};
        if (poll(&waiting, 1, expected == kNone ? 0 : kSettleMs) <= 0) return kNone;
        ibv_async_event event;
        if (ibv_get_async_event(device_.context, &event)) fail("ibv_get_async_event");
        const bool ours = event.event_type == IBV_EVENT_QP_REQ_ERR ||
                          event.event_type == IBV_EVENT_QP_ACCESS_ERR ||
                          event.event_type == IBV_EVENT_QP_FATAL;
        if (ours && event.element.qp != qp_) throw Trouble("an event names another queue pair");
        ibv_ack_async_event(&event);
        if (ours) return event.event_type;  // others say that a link or an address changed
    }
}

}  // namespace table
