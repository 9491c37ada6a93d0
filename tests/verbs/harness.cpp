#include "harness.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>

namespace verbena::verbs_test {
namespace {

testing::AssertionResult judge(int seen, int error, const std::string& reason) {
    if (seen != error)
        return testing::AssertionFailure()
               << "error " << seen << " (" << std::strerror(seen) << ") instead of " << error << " ("
               << std::strerror(error) << "): " << reason;
    // "verbena: ibv_call(QP 0x000102): why"
    const std::size_t named = reason.find("verbena: ibv_");
    if (named == std::string::npos || reason.find(": ", named + 9) == std::string::npos)
        return testing::AssertionFailure() << "no reason that names the call in the log: '" << reason << "'";
    return testing::AssertionSuccess() << reason;
}

}  // namespace

std::string& log_path() {
    static std::string path;
    return path;
}

std::string new_log() {
    static std::streamoff seen = 0;
    std::ifstream file(log_path(), std::ios::binary);
    if (!file) return {};
    file.seekg(seen);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    seen += static_cast<std::streamoff>(text.size());
    return text;
}

testing::AssertionResult refused(int error, const std::function<int()>& call) {
    new_log();
    const int seen = call();
    return judge(seen, error, new_log());
}

testing::AssertionResult refused_null(int error, const std::function<const void*()>& call) {
    return refused(error, [&] {
        errno = 0;
        return call() ? 0 : errno;
    });
}

testing::AssertionResult refused_minus_one(int error, const std::function<int()>& call) {
    return refused(error, [&] {
        errno = 0;
        return call() == -1 ? errno : 0;
    });
}

ibv_context* open_device(const char* name) {
    ibv_device** list = ibv_get_device_list(nullptr);
    ibv_context* context = nullptr;
    for (ibv_device** entry = list; entry && *entry && !context; entry++)
        if (std::strcmp(ibv_get_device_name(*entry), name) == 0) context = ibv_open_device(*entry);
    ibv_free_device_list(list);
    return context;
}

ibv_context* open_loopback() {
    ibv_context* context = open_device("verbena_lo");
    if (!context) {
        ADD_FAILURE() << "no loopback device";
        std::abort();
    }
    return context;
}

bool wait_until(const std::function<bool()>& done, int milliseconds) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (!done()) {
        if (Clock::now() >= deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

bool readable(int fd, int milliseconds) {
    pollfd waiting{fd, POLLIN, 0};
    return poll(&waiting, 1, milliseconds) == 1;
}

bool next_event(ibv_context* context, ibv_async_event& event) {
    if (!readable(context->async_fd, kPatienceMs) || ibv_get_async_event(context, &event) != 0) return false;
    ibv_ack_async_event(&event);
    return true;
}

Memory::Memory(ibv_pd* pd, std::size_t bytes, int access) : size(bytes), words_(bytes / 8 + 1) {
    mr = ibv_reg_mr(pd, words_.data(), bytes, access);
    if (!mr) ADD_FAILURE() << "ibv_reg_mr: " << std::strerror(errno);
}

Memory::~Memory() {
    if (mr) {
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
}

namespace {
std::uint8_t pattern(std::uint8_t seed, std::size_t i) {
    return static_cast<std::uint8_t>(seed + i * 7 + (i >> 8) * 3 + (i >> 16));
}
}  // namespace

void Memory::fill(std::uint8_t seed, std::size_t offset, std::size_t length) {
    for (std::size_t i = 0; i < length; i++) data()[offset + i] = pattern(seed, i);
}

bool Memory::holds(std::uint8_t seed, std::size_t length, std::size_t offset) {
    for (std::size_t i = 0; i < length; i++)
        if (data()[offset + i] != pattern(seed, i)) return false;
    return true;
}

void Memory::set_all(std::uint8_t byte) { std::memset(data(), byte, size); }

Side::Side(const Options& wanted, ibv_context* opened)
    : options(wanted), context(opened ? opened : open_loopback()), pd(ibv_alloc_pd(context)) {
    if (options.with_channel) channel = ibv_create_comp_channel(context);
    send_cq = ibv_create_cq(context, options.cqe, this, channel, 0);
    receive_cq = ibv_create_cq(context, options.cqe, this, channel, 0);
    if (options.shared_receives) {
        ibv_srq_init_attr shared{};
        shared.attr.max_wr = options.shared_receives;
        shared.attr.max_sge = options.cap.max_recv_sge;
        srq = ibv_create_srq(pd, &shared);
        EXPECT_NE(srq, nullptr) << std::strerror(errno);
    }
    ibv_qp_init_attr attributes = setup();
    qp = ibv_create_qp(pd, &attributes);
    if (!qp) {
        ADD_FAILURE() << "ibv_create_qp: " << std::strerror(errno);
        std::abort();
    }
}

Side::~Side() {
    if (qp) {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    if (srq) {
        EXPECT_EQ(ibv_destroy_srq(srq), 0);
    }
    EXPECT_EQ(ibv_destroy_cq(send_cq), 0);
    if (receive_cq) {
        EXPECT_EQ(ibv_destroy_cq(receive_cq), 0);
    }
    if (channel) {
        EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    }
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
}

ibv_qp_init_attr Side::setup() const {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = send_cq;
    attributes.recv_cq = receive_cq;
    attributes.cap = options.cap;
    attributes.qp_type = options.type;
    attributes.srq = srq;
    attributes.sq_sig_all = options.signal_all;
    return attributes;
}

int Side::to_init() {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags = kAllAccess;
    return ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int Side::to_rtr(const ibv_gid& gid, std::uint32_t number) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = options.mtu;
    to.dest_qp_num = number;
    to.rq_psn = 0xfffff0;  // so that it wraps
    to.max_dest_rd_atomic = options.depth;
    to.min_rnr_timer = options.min_rnr_timer;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.grh.dgid = gid;
    to.ah_attr.grh.hop_limit = 64;
    const int connected = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (options.type == IBV_QPT_UC) return ibv_modify_qp(qp, &to, connected);
    return ibv_modify_qp(qp, &to, connected | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int Side::to_rts() {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTS;
    to.timeout = options.timeout;
    to.retry_cnt = options.retries;
    to.rnr_retry = options.rnr_retry;
    to.sq_psn = 0xfffff0;
    to.max_rd_atomic = options.depth;
    if (options.type == IBV_QPT_UC) return ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN);
    return ibv_modify_qp(qp, &to,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

ibv_gid Side::gid() const {
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
    return gid;
}

int Side::to_state(ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return ibv_modify_qp(qp, &attributes, IBV_QP_STATE);
}

ibv_qp_state Side::state() const {
    ibv_qp_attr attributes;
    ibv_qp_init_attr setup;
    EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &setup), 0);
    return attributes.qp_state;
}

int Side::post_receive(std::uint64_t wr_id, ibv_sge* sges, int count) {
    ibv_recv_wr request{}, *bad;
    request.wr_id = wr_id;
    request.sg_list = sges;
    request.num_sge = count;
    return srq ? ibv_post_srq_recv(srq, &request, &bad) : ibv_post_recv(qp, &request, &bad);
}

Pair::Pair(const Options& options) : a(options), b(options) {
    if (options.connect) connect(a, b);
}

void connect(Side& a, Side& b) {
    Side* sides[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(sides[i]->to_init(), 0);
        EXPECT_EQ(sides[i]->to_rtr(sides[1 - i]->gid(), sides[1 - i]->qp->qp_num), 0);
        EXPECT_EQ(sides[i]->to_rts(), 0);
    }
}

Request::Request(std::uint64_t id, ibv_wr_opcode operation, ibv_sge* sges, int count, unsigned flags)
    : ibv_send_wr{} {
    wr_id = id;
    opcode = operation;
    sg_list = sges;
    num_sge = count;
    send_flags = flags;
}

Request& Request::to(Memory& memory, std::size_t offset) {
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.atomic.remote_addr = memory.address(offset);
        wr.atomic.rkey = memory.mr->rkey;
    } else {
        wr.rdma.remote_addr = memory.address(offset);
        wr.rdma.rkey = memory.mr->rkey;
    }
    return *this;
}

int Request::post(ibv_qp* qp) { return ibv_post_send(qp, this, &bad); }

int start_datagrams(ibv_qp* qp, std::uint32_t qkey) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qkey = qkey;
    if (int error = ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
        return error;
    to.qp_state = IBV_QPS_RTR;
    if (int error = ibv_modify_qp(qp, &to, IBV_QP_STATE)) return error;
    to.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

ibv_ah* address_handle(ibv_pd* pd, const ibv_gid& gid) {
    ibv_ah_attr vector{};
    vector.is_global = 1;
    vector.port_num = 1;
    vector.grh.dgid = gid;
    vector.grh.hop_limit = 64;
    return ibv_create_ah(pd, &vector);
}

ibv_wc completion(ibv_cq* cq) {
    ibv_wc result{};
    int count = 0;
    if (!wait_until([&] { return (count = ibv_poll_cq(cq, 1, &result)) != 0; }) || count < 0) {
        ADD_FAILURE() << "no completion (" << count << ")";
        result.status = IBV_WC_GENERAL_ERR;
    }
    return result;
}

ibv_wc success(ibv_cq* cq) {
    ibv_wc result = completion(cq);
    EXPECT_EQ(result.status, IBV_WC_SUCCESS) << ibv_wc_status_str(result.status);
    return result;
}

bool empty(ibv_cq* cq) {
    ibv_wc extra;
    return ibv_poll_cq(cq, 1, &extra) == 0;
}

void exchange_message(Pair& pair) {
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    ASSERT_EQ(pair.b.post_receive(5, remote.sge(0, 64)), 0);
    ibv_sge sge = local.sge(0, 64);
    ASSERT_EQ(Request(4, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
    EXPECT_EQ(success(pair.a.send_cq).wr_id, 4u);
    EXPECT_EQ(success(pair.b.receive_cq).wr_id, 5u);
}

void in_child(const std::function<void()>& work) {
    std::fflush(stdout);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        work();
        std::fflush(stdout);
        _exit(testing::Test::HasFailure());
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace verbena::verbs_test
