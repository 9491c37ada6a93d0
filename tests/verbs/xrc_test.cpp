// XRC (annex A14) as programs see it: domains, the two kinds of queue pairs, receive queues, several handles.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>
#include <string>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

ibv_xrcd* open_domain(ibv_context* context, int fd = -1, int flags = O_CREAT,
                      std::uint32_t mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS) {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = mask;
    attr.fd = fd;
    attr.oflags = flags;
    return ibv_open_xrcd(context, &attr);
}

// An initiator in one context, a target with its receive queue in another.
struct XrcPair {
    XrcPair()
        : from(ibv_alloc_pd(a)),
          to(ibv_alloc_pd(b)),
          domain(open_domain(b)),
          send_cq(cq(a)),
          receive_cq(cq(b)) {
        srq = queue(to);
        sender = initiator();
        receiver = target(domain);
        connect(sender, receiver);
    }
    ~XrcPair() {
        EXPECT_EQ(ibv_destroy_qp(sender), 0);
        if (receiver) {
            EXPECT_EQ(ibv_destroy_qp(receiver), 0);
        }
        EXPECT_EQ(ibv_destroy_srq(srq), 0);
        EXPECT_EQ(ibv_close_xrcd(domain), 0);
        for (ibv_cq* each : {send_cq, receive_cq}) EXPECT_EQ(ibv_destroy_cq(each), 0);
        for (ibv_pd* each : {from, to}) EXPECT_EQ(ibv_dealloc_pd(each), 0);
        for (ibv_context* each : {a, b}) EXPECT_EQ(ibv_close_device(each), 0);
    }
    static ibv_cq* cq(ibv_context* context) { return ibv_create_cq(context, 64, nullptr, nullptr, 0); }
    ibv_srq* queue(ibv_pd* pd) {
        ibv_srq_init_attr_ex attr{};
        attr.attr.max_wr = 16;
        attr.attr.max_sge = 2;
        attr.comp_mask =
            IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
        attr.srq_type = IBV_SRQT_XRC;
        attr.pd = pd;
        attr.xrcd = domain;
        attr.cq = receive_cq;
        return ibv_create_srq_ex(b, &attr);
    }
    ibv_qp* initiator() {
        ibv_qp_init_attr attr{};
        attr.qp_type = IBV_QPT_XRC_SEND;
        attr.send_cq = send_cq;
        attr.cap = {32, 0, 2, 0, 64};
        attr.sq_sig_all = 1;
        return ibv_create_qp(from, &attr);
    }
    ibv_qp* target(ibv_xrcd* xrcd) {
        ibv_qp_init_attr_ex attr{};
        attr.qp_type = IBV_QPT_XRC_RECV;
        attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        attr.xrcd = xrcd;
        return ibv_create_qp_ex(b, &attr);
    }
    void connect(ibv_qp* one, ibv_qp* other) {
        ibv_qp* qps[2] = {one, other};
        for (int i = 0; i < 2; i++) {
            ibv_qp_attr to_state{};
            to_state.qp_state = IBV_QPS_INIT;
            to_state.port_num = 1;
            to_state.qp_access_flags = kAllAccess;
            ASSERT_EQ(ibv_modify_qp(qps[i], &to_state,
                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
                      0);
            to_state = {};
            to_state.qp_state = IBV_QPS_RTR;
            to_state.path_mtu = IBV_MTU_4096;
            to_state.dest_qp_num = qps[1 - i]->qp_num;
            to_state.max_dest_rd_atomic = 4;
            to_state.min_rnr_timer = 1;
            to_state.ah_attr.is_global = 1;
            to_state.ah_attr.port_num = 1;
            ASSERT_EQ(ibv_query_gid(a, 1, 0, &to_state.ah_attr.grh.dgid), 0);
            int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;  // ignored by the initiator
            ASSERT_EQ(ibv_modify_qp(qps[i], &to_state, mask), 0);
            to_state = {};
            to_state.qp_state = IBV_QPS_RTS;
            to_state.timeout = 14;
            to_state.retry_cnt = to_state.rnr_retry = 7;
            to_state.max_rd_atomic = 4;
            mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
            mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;  // by the target
            ASSERT_EQ(ibv_modify_qp(qps[i], &to_state, mask), 0);
        }
    }
    std::uint32_t number(ibv_srq* of) {
        std::uint32_t n = 0;
        EXPECT_EQ(ibv_get_srq_num(of, &n), 0);
        return n;
    }
    int post_receive(ibv_srq* into, std::uint64_t wr_id, ibv_sge sge) {
        ibv_recv_wr request{}, *bad;
        request.wr_id = wr_id;
        request.sg_list = &sge;
        request.num_sge = 1;
        return ibv_post_srq_recv(into, &request, &bad);
    }
    int post(ibv_wr_opcode operation, ibv_sge& sge, Memory& remote, std::uint32_t srq_number) {
        Request request(1, operation, &sge, 1);
        request.to(remote);
        request.qp_type.xrc.remote_srqn = srq_number;
        return request.post(sender);
    }
    ibv_qp* open(ibv_xrcd* xrcd, std::uint32_t qp_number, int type = IBV_QPT_XRC_RECV,
                 std::uint32_t mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE) {
        ibv_qp_open_attr attr{};
        attr.comp_mask = mask;
        attr.qp_num = qp_number;
        attr.xrcd = xrcd;
        attr.qp_type = static_cast<ibv_qp_type>(type);
        return ibv_open_qp(b, &attr);
    }

    ibv_context* a = open_loopback();
    ibv_context* b = open_loopback();
    ibv_pd *from, *to;
    ibv_xrcd* domain;
    ibv_cq *send_cq, *receive_cq;
    ibv_srq* srq;
    ibv_qp *sender, *receiver;
};

TEST(XrcDomain, OpeningRefuses) {
    ibv_context* context = open_loopback();
    EXPECT_TRUE(refused_null(EINVAL, [&] { return open_domain(context, -1, O_CREAT, 0); }));
    EXPECT_TRUE(
        refused_null(EINVAL, [&] { return open_domain(context, -1, O_CREAT, IBV_XRCD_INIT_ATTR_FD); }));
    EXPECT_TRUE(refused_null(EOPNOTSUPP, [&] { return open_domain(context, -1, O_CREAT, 1 << 7); }));
    EXPECT_TRUE(refused_null(EBADF, [&] { return open_domain(context, 9999, O_CREAT); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return open_domain(context, -1, O_RDWR); }));
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(XrcDomain, BelongsToAFile) {
    ibv_context* context = open_loopback();
    const int fd = memfd_create("xrc", 0);
    ASSERT_GE(fd, 0);
    EXPECT_TRUE(refused_null(EAGAIN, [&] { return open_domain(context, fd, 0); }));
    ibv_xrcd* first = open_domain(context, fd, O_CREAT | O_EXCL);
    ASSERT_NE(first, nullptr);
    EXPECT_TRUE(refused_null(EINVAL, [&] { return open_domain(context, fd, O_CREAT | O_EXCL); }));
    ibv_xrcd* second = open_domain(context, fd, 0);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(ibv_close_xrcd(first), 0);
    EXPECT_EQ(ibv_close_xrcd(second), 0);
    EXPECT_TRUE(refused_null(EAGAIN, [&] { return open_domain(context, fd, 0); }));
    close(fd);
    EXPECT_EQ(ibv_close_device(context), 0);
}

// And not to one that has got the inode's number since. (Not every file system gives them out again.)
TEST(XrcDomain, DoesNotBelongToTheNextFile) {
    ibv_context* context = open_loopback();
    const std::string path = testing::TempDir() + "xrc-domain-" + std::to_string(getpid());
    ibv_xrcd* domains[4] = {};
    for (ibv_xrcd*& domain : domains) {
        const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        ASSERT_GE(fd, 0);
        domain = open_domain(context, fd, O_CREAT | O_EXCL);
        ASSERT_NE(domain, nullptr) << new_log();
        close(fd);
        unlink(path.c_str());
    }
    for (ibv_xrcd* domain : domains) EXPECT_EQ(ibv_close_xrcd(domain), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
}

// What keeps the file takes none of the program's locks along, neither before its end nor at it.
TEST(XrcDomain, LeavesLocksAlone) {
    ibv_context* context = open_loopback();
    const std::string path = testing::TempDir() + "xrc-lock-" + std::to_string(getpid());
    const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    const int other = open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_TRUE(fd >= 0 && other >= 0);
    struct flock whole {};
    whole.l_type = F_WRLCK;
    ASSERT_EQ(fcntl(other, F_SETLK, &whole), 0);
    ASSERT_EQ(flock(fd, LOCK_EX), 0);
    ibv_xrcd* domain = open_domain(context, fd);
    ASSERT_NE(domain, nullptr) << new_log();
    EXPECT_EQ(ibv_close_xrcd(domain), 0);
    in_child([&] { EXPECT_EQ(fcntl(other, F_SETLK, &whole), -1) << "the parent has it"; });
    domain = open_domain(context, fd);
    close(fd);
    EXPECT_EQ(flock(other, LOCK_EX | LOCK_NB), 0) << std::strerror(errno);
    EXPECT_EQ(ibv_close_xrcd(domain), 0);
    close(other);
    unlink(path.c_str());
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(XrcDomain, EndsWithItsContext) {
    ibv_context *context = open_loopback(), *closed = open_loopback();
    const int fd = memfd_create("xrc", 0);
    ASSERT_GE(fd, 0);
    ASSERT_NE(open_domain(closed, fd, O_CREAT), nullptr);
    EXPECT_EQ(ibv_close_device(closed), 0);
    ibv_xrcd* domain = open_domain(context, fd, O_CREAT | O_EXCL);
    ASSERT_NE(domain, nullptr) << new_log();
    EXPECT_EQ(ibv_close_xrcd(domain), 0);
    close(fd);
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Xrc, TheDeviceSaysSo) {
    ibv_context* context = open_loopback();
    ibv_device_attr device;
    ASSERT_EQ(ibv_query_device(context, &device), 0);
    EXPECT_TRUE(device.device_cap_flags & IBV_DEVICE_XRC);
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Xrc, MovesDataToTheQueueThatTheRequestNames) {
    XrcPair pair;
    Memory source(pair.from, 1 << 16), target(pair.to, 1 << 16);
    ibv_srq* other = pair.queue(pair.to);
    ASSERT_NE(other, nullptr);
    std::uint8_t seed = 0;
    for (ibv_srq* srq : {pair.srq, other, pair.srq}) {
        source.fill(++seed);
        ASSERT_EQ(pair.post_receive(srq, seed, target.sge(0, 1 << 16)), 0);
        ibv_sge sge = source.sge(0, 20'000);
        ASSERT_EQ(pair.post(IBV_WR_SEND, sge, target, pair.number(srq)), 0);
        success(pair.send_cq);
        const ibv_wc wc = success(pair.receive_cq);
        EXPECT_EQ(wc.wr_id, seed);
        EXPECT_EQ(wc.qp_num, pair.receiver->qp_num);
        EXPECT_TRUE(target.holds(seed, 20'000));
    }
    EXPECT_NE(pair.number(pair.srq), pair.number(other));
    for (const ibv_wr_opcode operation : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        ibv_sge sge = source.sge(0, operation == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 9000);
        ASSERT_EQ(pair.post(operation, sge, target, pair.number(other)), 0);
        success(pair.send_cq);
    }
    EXPECT_EQ(ibv_destroy_srq(other), 0);
}

TEST(Xrc, AnUnknownQueueEndsInAnInvalidRequest) {
    XrcPair pair;
    Memory source(pair.from, 64), target(pair.to, 64);
    ibv_sge sge = source.sge(0, 8);
    ASSERT_EQ(pair.post(IBV_WR_SEND, sge, target, 0x7ffff), 0);
    EXPECT_EQ(completion(pair.send_cq).status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(Xrc, AQueueOfAnotherDomainEndsInAnInvalidRequest) {
    XrcPair pair;
    Memory source(pair.from, 64), target(pair.to, 64);
    ibv_xrcd* domain = pair.domain;
    pair.domain = open_domain(pair.b);
    ibv_srq* other = pair.queue(pair.to);
    ASSERT_NE(other, nullptr);
    ibv_sge sge = source.sge(0, 8);
    ASSERT_EQ(pair.post(IBV_WR_SEND, sge, target, pair.number(other)), 0);
    EXPECT_EQ(completion(pair.send_cq).status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_close_xrcd(pair.domain); }));
    EXPECT_EQ(ibv_destroy_srq(other), 0);
    EXPECT_EQ(ibv_close_xrcd(pair.domain), 0);
    pair.domain = domain;
}

TEST(Xrc, DestructionInTheWrongOrderIsRefused) {
    XrcPair pair;
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_close_xrcd(pair.domain); }));
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_destroy_cq(pair.receive_cq); }));
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(pair.to); }));
}

TEST(Xrc, CreationRefuses) {
    XrcPair pair;
    EXPECT_TRUE(refused_null(EINVAL, [&] { return pair.target(nullptr); }));
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_XRC_SEND;
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_create_qp(pair.from, &attr); }));
    attr.send_cq = pair.send_cq;
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_create_qp(pair.to, &attr); }));
    ibv_qp_init_attr rc{};
    rc.qp_type = IBV_QPT_RC;
    rc.send_cq = rc.recv_cq = pair.receive_cq;
    rc.srq = pair.srq;
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_create_qp(pair.to, &rc); }));
}

// ibv_create_qp(3): of its argument only `cap` changes.
TEST(Xrc, CreationLeavesTheRestAlone) {
    XrcPair pair;
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_XRC_SEND;
    attr.send_cq = attr.recv_cq = pair.send_cq;
    attr.cap.max_recv_wr = 4;
    ibv_qp* qp = ibv_create_qp(pair.from, &attr);
    ASSERT_NE(qp, nullptr) << new_log();
    EXPECT_EQ(attr.recv_cq, pair.send_cq);
    EXPECT_EQ(attr.cap.max_recv_wr, 0u);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// Only a target is of an XRC domain (ibv_create_qp_ex(3)), whatever else is given.
TEST(Xrc, OtherQueuePairsHaveNoDomain) {
    XrcPair pair;
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND}) {
        SCOPED_TRACE(type);
        ibv_qp_init_attr_ex attr{};
        attr.qp_type = type;
        attr.send_cq = attr.recv_cq = pair.receive_cq;
        attr.cap = {4, 4, 1, 1, 0};
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD;
        attr.pd = pair.to;
        attr.xrcd = pair.domain;
        ibv_qp* qp = ibv_create_qp_ex(pair.b, &attr);
        ASSERT_NE(qp, nullptr) << new_log();
        EXPECT_TRUE(refused_null(EINVAL, [&] { return pair.open(pair.domain, qp->qp_num); }));
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
}

TEST(Xrc, NeitherQueuePairTakesWhatItHasNoQueueFor) {
    XrcPair pair;
    ibv_recv_wr receive{}, *bad_receive;
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_post_recv(pair.sender, &receive, &bad_receive); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_post_recv(pair.receiver, &receive, &bad_receive); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return Request(1, IBV_WR_SEND, nullptr, 0).post(pair.receiver); }));
}

// The queue pair lives as long as one of its handles.
TEST(Xrc, ATargetHasSeveralHandles) {
    XrcPair pair;
    Memory source(pair.from, 64), target(pair.to, 64);
    ibv_qp* second = pair.open(pair.domain, pair.receiver->qp_num);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(second->qp_num, pair.receiver->qp_num);
    EXPECT_EQ(ibv_destroy_qp(pair.receiver), 0);
    pair.receiver = second;
    ASSERT_EQ(pair.post_receive(pair.srq, 1, target.sge(0, 64)), 0);
    ibv_sge sge = source.sge(0, 8);
    ASSERT_EQ(pair.post(IBV_WR_SEND, sge, target, pair.number(pair.srq)), 0);
    success(pair.receive_cq);
    success(pair.send_cq);
}

// The target, by whatever handle, as an RC queue pair whose completion queue has overrun.
TEST(Xrc, AnOverrunOfTheQueuesCompletionQueueIsFatalForTheTarget) {
    XrcPair pair;
    Memory source(pair.from, 64), target(pair.to, 64);
    ibv_qp* second = pair.open(pair.domain, pair.receiver->qp_num);
    ASSERT_NE(second, nullptr);
    ASSERT_EQ(ibv_resize_cq(pair.receive_cq, 4), 0);
    ibv_sge sge = source.sge(0, 8);
    for (std::uint64_t id = 0; id < 5; id++) {
        ASSERT_EQ(pair.post_receive(pair.srq, id, target.sge(0, 64)), 0);
        ASSERT_EQ(pair.post(IBV_WR_SEND, sge, target, pair.number(pair.srq)), 0);
        success(pair.send_cq);
    }
    bool queue_failed = false;
    std::set<ibv_qp*> fatal;
    while (!queue_failed || fatal.size() < 2) {
        ibv_async_event event;
        ASSERT_TRUE(readable(pair.b->async_fd, kPatienceMs));
        ASSERT_EQ(ibv_get_async_event(pair.b, &event), 0);
        if (event.event_type == IBV_EVENT_CQ_ERR) {
            EXPECT_EQ(event.element.cq, pair.receive_cq);
            queue_failed = true;
        } else if (event.event_type == IBV_EVENT_QP_FATAL) {
            fatal.insert(event.element.qp);
        }
        ibv_ack_async_event(&event);
    }
    EXPECT_EQ(fatal, (std::set{pair.receiver, second}));
    ibv_qp_attr state{};
    ibv_qp_init_attr setup{};
    ASSERT_EQ(ibv_query_qp(second, &state, IBV_QP_STATE, &setup), 0);
    EXPECT_EQ(state.qp_state, IBV_QPS_ERR);
    EXPECT_EQ(ibv_destroy_qp(second), 0);
}

TEST(Xrc, OpeningRefuses) {
    XrcPair pair;
    const std::uint32_t number = pair.receiver->qp_num;
    EXPECT_TRUE(refused_null(EINVAL, [&] { return pair.open(pair.domain, number ^ 1); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return pair.open(pair.domain, number, IBV_QPT_RC); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return pair.open(nullptr, number); }));
    EXPECT_TRUE(refused_null(
        EINVAL, [&] { return pair.open(pair.domain, number, IBV_QPT_XRC_RECV, IBV_QP_OPEN_ATTR_NUM); }));
    ibv_xrcd* other = open_domain(pair.b);
    EXPECT_TRUE(refused_null(EINVAL, [&] { return pair.open(other, number); }));
    EXPECT_EQ(ibv_close_xrcd(other), 0);
}

}  // namespace
}  // namespace verbena::verbs_test
