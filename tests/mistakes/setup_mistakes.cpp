// Objects and attributes that are refused.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "mistake.h"

namespace verbena::mistakes {
namespace {

// ibv_modify_qp from INIT to RTR with one thing wrong.
template <class Spoil>
std::string spoilt_rtr(int error, Spoil spoil) {
    Side side;
    EXPECT_EQ(side.to_init(), 0);
    ibv_qp_attr to = right_rtr(side);
    int mask = kRtrMask;
    spoil(to, mask);
    expect_errno(error, ibv_modify_qp(side.qp, &to, mask));
    return {};
}

// From RTR to RTS.
template <class Spoil>
std::string spoilt_rts(int error, Spoil spoil) {
    Side side;
    EXPECT_EQ(side.to_init(), 0);
    ibv_qp_attr to = right_rtr(side);
    EXPECT_EQ(ibv_modify_qp(side.qp, &to, kRtrMask), 0);
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 14;
    to.retry_cnt = to.rnr_retry = 7;
    to.max_rd_atomic = 4;
    int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC;
    spoil(to, mask);
    expect_errno(error, ibv_modify_qp(side.qp, &to, mask));
    return {};
}

template <class Spoil>
std::string spoilt_init(int error, Spoil spoil) {
    Side side;
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    spoil(to, mask);
    expect_errno(error, ibv_modify_qp(side.qp, &to, mask));
    return {};
}

template <class Spoil>
std::string spoilt_qp(int error, Spoil spoil) {
    Side side;
    ibv_qp_init_attr attributes = side.setup();
    spoil(attributes);
    expect_null(error, ibv_create_qp(side.pd, &attributes));
    return {};
}

std::string spoilt_cq(int error, int cqe) {
    Side side;
    expect_null(error, ibv_create_cq(side.context, cqe, nullptr, nullptr, 0));
    return {};
}

// Of the first GID that is an IPv4 address.
int ipv4_gid_index(const Side& side) {
    ibv_gid gid;
    for (int index = 0; ibv_query_gid(side.context, 1, index, &gid) == 0; index++)
        if (gid.raw[10] == 0xff && gid.raw[11] == 0xff) return index;
    return -1;
}

std::string other_family() {
    Side side;
    ibv_gid v6{};
    v6.raw[15] = 1;  // ::1
    const int index = ipv4_gid_index(side);
    EXPECT_GE(index, 0);
    EXPECT_EQ(side.to_init(), 0);
    ibv_qp_attr to = right_rtr(side);
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(index);
    to.ah_attr.grh.dgid = v6;
    expect_errno(EINVAL, ibv_modify_qp(side.qp, &to, kRtrMask));
    return {};
}

std::string spoilt_region(int error, void* address, int access) {
    Side side;
    expect_null(error, ibv_reg_mr(side.pd, address, 4096, access));
    return {};
}

std::string read_only_region() {
    void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    spoilt_region(EFAULT, page, IBV_ACCESS_LOCAL_WRITE);
    munmap(page, 4096);
    return {};
}

std::string unmapped_region() {
    void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page, 4096);
    return spoilt_region(EFAULT, page, 0);
}

char words[4096];

// The child's exit status says whether the call failed as it must; the log is one file.
std::string inherited() {
    Pair pair;
    Memory memory(pair.a.pd, 64);
    const pid_t child = fork();
    if (child == 0) {
        ibv_sge sge = memory.sge(0, 8);
        _exit(Request(1, IBV_WR_SEND, &sge, 1).post(pair.a.qp) == EIO ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return {};
}

std::string without_grh() {
    Side side;
    ibv_ah_attr attributes{};
    attributes.port_num = 1;
    expect_null(EINVAL, ibv_create_ah(side.pd, &attributes));
    return {};
}

std::string attached(bool group, ibv_qp_type type) {
    Options options;
    options.type = type;
    Side side(options);
    ibv_gid gid = side.gid();
    if (group) gid.raw[0] = 0xff;
    expect_errno(EINVAL, ibv_attach_mcast(side.qp, &gid, 0));
    return {};
}

std::string limit_above_size() {
    Options options;
    options.shared_receives = 8;
    Side side(options);
    ibv_srq_attr attributes{};
    attributes.srq_limit = 9000;
    expect_errno(EINVAL, ibv_modify_srq(side.srq, &attributes, IBV_SRQ_LIMIT));
    return {};
}

std::string in_use(bool pd) {
    Side side;
    expect_errno(EBUSY, pd ? ibv_dealloc_pd(side.pd) : ibv_destroy_cq(side.send_cq));
    return {};
}

std::string gid_out_of_range() {
    Side side;
    ibv_gid gid;
    expect_errno(EINVAL, ibv_query_gid(side.context, 1, 5000, &gid));
    return {};
}

std::string windows_left() {
    Side side;
    Memory memory(side.pd, 64, kAllAccess | IBV_ACCESS_MW_BIND);
    EXPECT_EQ(side.to_init(), 0);
    ibv_qp_attr to = right_rtr(side);
    EXPECT_EQ(ibv_modify_qp(side.qp, &to, kRtrMask), 0);
    EXPECT_EQ(side.to_rts(), 0);
    ibv_mw* window = ibv_alloc_mw(side.pd, IBV_MW_TYPE_1);
    ibv_mw_bind bind{};
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {memory.mr, memory.address(), 64, IBV_ACCESS_REMOTE_READ};
    EXPECT_EQ(ibv_bind_mw(side.qp, window, &bind), 0);
    success(side.send_cq);
    expect_errno(EBUSY, ibv_dereg_mr(memory.mr));
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
    return {};
}

}  // namespace

const std::vector<Mistake>& setup_mistakes() {
    using A = ibv_qp_attr;
    using I = ibv_qp_init_attr;
    static const std::vector<Mistake> table = {
        {"is_global_missing", From::call,
         [] { return spoilt_rtr(EINVAL, [](A& a, int&) { a.ah_attr.is_global = 0; }); },
         "ah_attr.is_global is 0; RoCE needs a GRH \\(is_global=1, grh.dgid, grh.sgid_index\\)",
         "https://github.com/madsys-dev/smart/issues/2",
         "The reporter had Invalid argument at INIT->RTR, and a maintainer guessed after a day; the field is "
         "named."},
        {"sgid_index_empty", From::call,
         [] { return spoilt_rtr(EINVAL, [](A& a, int&) { a.ah_attr.grh.sgid_index = 200; }); },
         "grh.sgid_index 200 is empty; verbena_lo has GIDs 0 to [0-9]+",
         "https://github.com/SymbioticLab/Justitia/issues/3",
         "sgid_index was not what the RoCE device needs: the sentence names it and the indices that exist."},
        {"gid_of_other_family", From::call, other_family,
         "grh.sgid_index [0-9]+ is [0-9.]+ but grh.dgid is .*; choose a GID of the same family",
         "https://github.com/kvcache-ai/Mooncake/issues/204",
         "A program that took GID index 1 on two cards and was told to check mtu, gid, lid and QPN; here the "
         "two GIDs "
         "stand side by side."},
        {"dgid_zero", From::call,
         [] { return spoilt_rtr(EINVAL, [](A& a, int&) { a.ah_attr.grh.dgid = {}; }); }, "grh.dgid is zero",
         "https://github.com/datenlord/rdma-sys/issues/24",
         "Invalid argument (os error 22) at RTR with an address vector that was never filled in: the field "
         "is named."},
        {"attribute_missing_at_rtr", From::call,
         [] { return spoilt_rtr(EINVAL, [](A&, int& mask) { mask &= ~IBV_QP_RQ_PSN; }); },
         "INIT->RTR of an RC QP needs .*IBV_QP_RQ_PSN"},
        {"attribute_missing_at_rts", From::call,
         [] { return spoilt_rts(EINVAL, [](A&, int& mask) { mask &= ~IBV_QP_MAX_QP_RD_ATOMIC; }); },
         "RTR->RTS of an RC QP needs .*IBV_QP_MAX_QP_RD_ATOMIC",
         "https://github.com/waltligon/orangefs/issues/43",
         "Invalid argument at RTR -> RTS on one vendor's cards only; the sentence lists the attributes that "
         "are missing."},
        {"state_skipped", From::call,
         [] {
             Side side;
             ibv_qp_attr to = right_rtr(side);
             expect_errno(EINVAL, ibv_modify_qp(side.qp, &to, kRtrMask));
             return std::string();
         },
         "RESET->RTR is no transition of an RC QP"},
        {"qpn_too_long", From::call,
         [] { return spoilt_rtr(EINVAL, [](A& a, int&) { a.dest_qp_num = 0x12345678; }); },
         "dest_qp_num is 0x12345678; QP numbers have 24 bits"},
        {"mtu_in_bytes", From::call,
         [] { return spoilt_rtr(EINVAL, [](A& a, int&) { a.path_mtu = static_cast<ibv_mtu>(1024); }); },
         "path_mtu is 1024; enum ibv_mtu is 1 \\(256 bytes\\) to 5 \\(4096\\)"},
        {"ah_port_zero", From::call,
         [] { return spoilt_rtr(EINVAL, [](A& a, int&) { a.ah_attr.port_num = 0; }); },
         "ah_attr.port_num is 0; the device has port 1 only"},
        {"reads_above_limit", From::call,
         [] { return spoilt_rtr(EINVAL, [](A& a, int&) { a.max_dest_rd_atomic = 255; }); },
         "max_dest_rd_atomic is 255; at most [0-9]+"},
        {"rnr_timer_too_large", From::call,
         [] { return spoilt_rtr(EINVAL, [](A& a, int&) { a.min_rnr_timer = 32; }); },
         "min_rnr_timer is 32; at most 31"},
        {"timeout_too_large", From::call,
         [] { return spoilt_rts(EINVAL, [](A& a, int&) { a.timeout = 32; }); }, "timeout is 32; at most 31"},
        {"retries_too_many", From::call,
         [] { return spoilt_rts(EINVAL, [](A& a, int&) { a.retry_cnt = 8; }); },
         "retry_cnt is 8; (at most|the limit is) 7"},
        {"rnr_retry_too_large", From::call,
         [] { return spoilt_rts(EINVAL, [](A& a, int&) { a.rnr_retry = 255; }); },
         "rnr_retry is 255; (at most|the limit is) 7"},
        {"initiator_depth_too_large", From::call,
         [] { return spoilt_rts(EINVAL, [](A& a, int&) { a.max_rd_atomic = 255; }); },
         "max_rd_atomic is 255; at most [0-9]+"},
        {"port_two", From::call, [] { return spoilt_init(EINVAL, [](A& a, int&) { a.port_num = 2; }); },
         "port_num is 2; the device has port 1 only"},
        {"pkey_index_one", From::call,
         [] { return spoilt_init(EINVAL, [](A& a, int&) { a.pkey_index = 1; }); },
         "pkey_index is 1; the table has entry 0 only"},
        {"unknown_access_bits", From::call,
         [] { return spoilt_init(EINVAL, [](A& a, int&) { a.qp_access_flags = 0x8000'0000; }); },
         "qp_access_flags 0x80000000 contain unknown bits"},
        {"alternate_path", From::call,
         [] { return spoilt_rtr(EOPNOTSUPP, [](A&, int& mask) { mask |= IBV_QP_ALT_PATH; }); },
         "automatic path migration is not supported"},
        {"inline_above_limit", From::call,
         [] { return spoilt_qp(EINVAL, [](I& i) { i.cap.max_inline_data = 100'000; }); },
         "cap.max_inline_data is 100000; the device's limit is [0-9]+",
         "https://github.com/linux-rdma/perftest/issues/139",
         "perftest could only say that no QP was created, and its maintainer listed nine possible causes; "
         "here is the one."},
        {"send_queue_above_limit", From::call,
         [] { return spoilt_qp(EINVAL, [](I& i) { i.cap.max_send_wr = 1'000'000; }); },
         "cap.max_send_wr is 1000000; the device's limit is [0-9]+"},
        {"too_many_elements_asked", From::call,
         [] { return spoilt_qp(EINVAL, [](I& i) { i.cap.max_send_sge = 1000; }); },
         "cap.max_send_sge is 1000; the device's limit is [0-9]+"},
        {"no_receive_cq", From::call, [] { return spoilt_qp(EINVAL, [](I& i) { i.recv_cq = nullptr; }); },
         "a queue pair needs a send_cq and a recv_cq"},
        {"cq_of_no_places", From::call, [] { return spoilt_cq(EINVAL, 0); },
         "cqe is 0; 1 to [0-9]+ are possible"},
        {"cq_above_limit", From::call, [] { return spoilt_cq(EINVAL, 1 << 30); },
         "cqe is 1073741824; 1 to [0-9]+ are possible", "https://github.com/ofiwg/libfabric/issues/8256",
         "ibv_create_cq failed with Invalid argument for a size above the device's; the sentence has size "
         "and limit."},
        {"region_unmapped", From::call, unmapped_region, "4096 bytes is not mapped memory of this process"},
        {"region_read_only", From::call, read_only_region,
         "4096 bytes cannot be written, and IBV_ACCESS_LOCAL_WRITE is asked for"},
        {"remote_write_without_local", From::call,
         [] { return spoilt_region(EINVAL, words, IBV_ACCESS_REMOTE_WRITE); },
         "access flags 0x2: remote write and remote atomic need local write \\(IBV_ACCESS_LOCAL_WRITE\\)"},
        {"region_with_windows", From::call, windows_left, "1 memory windows are bound to it"},
        {"pd_in_use", From::call, [] { return in_use(true); },
         "[0-9]+ regions, queue pairs, domains or address handles still use it"},
        {"cq_in_use", From::call, [] { return in_use(false); },
         "[0-9]+ queue pairs still use the completion queue"},
        {"gid_index_out_of_range", From::call, gid_out_of_range,
         "GID index 5000; the table has [0-9]+ entries"},
        {"address_handle_without_grh", From::call, without_grh, "ah_attr.is_global is 0; RoCE needs a GRH"},
        {"group_for_connected_qp", From::call, [] { return attached(true, IBV_QPT_RC); },
         "QP 0x[0-9a-f]+ is no UD QP; only those receive multicast"},
        {"group_is_no_group", From::call, [] { return attached(false, IBV_QPT_UD); },
         "is no multicast GID \\(ff00::/8"},
        {"srq_limit_above_size", From::call, limit_above_size,
         "srq_limit is 9000; the queue takes [0-9]+ requests"},
        {"inherited_by_fork", From::log, inherited,
         "ibv_post_send.*this object was made before fork\\(\\); the child has to open the device itself"},
    };
    return table;
}

}  // namespace verbena::mistakes
