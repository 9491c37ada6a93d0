// What a stock program costs by itself: loaded in front of libibverbs, this makes posting and polling work on
// a bare ring in shared memory once a queue pair is ready. SENDs of 8 bytes lie in it, those of others are
// fetched from the sender's memory by a bare process_vm_readv; WRITEs of 8 bytes are bare pwrite calls of
// the peer's /proc/PID/mem, others bare process_vm_writev calls, READs process_vm_readv. No key, no bound, no
// lock: one queue pair, one thread. For figures that ours are held against.
//
//     BARE_RING=FILE BARE_SIDE=0|1 LD_PRELOAD=libbare_provider.so ib_send_lat ...
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr std::uint64_t kSlots = 4096;
constexpr std::size_t kMessage = 8;  // bytes

struct alignas(64) Slot {
    std::atomic<std::uint64_t> number;  // of the message that is in it, from 1 on
    std::uint32_t length;
    std::uint64_t address;  // of the sender's, where the length is another
    std::array<std::byte, kMessage> bytes;
};
struct Way {
    std::array<Slot, kSlots> slots;
    alignas(64) std::atomic<std::uint64_t> taken;  // by the other side
    alignas(64) std::atomic<pid_t> writer;
};

struct Receive {
    std::uint64_t wr_id;
    void* place;
};

Way* out = nullptr;
Way* in = nullptr;
ibv_qp* ready = nullptr;
int peer_memory = -1;                                  // open for writing
ibv_wc_opcode what = IBV_WC_SEND;                      // is completed; of all else nobody takes anything
bool fetched = false;                                  // what is sent stays where it is until it was taken
std::uint64_t sent = 0, received = 0;                  // messages
std::uint64_t signaled = 0, completed = 0;             // send requests
std::uint64_t receives_posted = 0, receives_used = 0;  // receive requests
struct Send {
    std::uint64_t wr_id;
    std::uint64_t number;
};
std::array<Send, kSlots> sends;
std::array<Receive, kSlots> receives;

[[noreturn]] void give_up(const char* what) {
    std::fprintf(stderr, "bare_provider: %s: %s\n", what, std::strerror(errno));
    std::_Exit(1);
}

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

void open_peer() {
    const std::string name = "/proc/" + std::to_string(in->writer.load()) + "/mem";
    peer_memory = open(name.c_str(), O_RDWR | O_CLOEXEC);
    if (peer_memory < 0) give_up(name.c_str());
}

void execute(const ibv_send_wr& wr, const ibv_sge& sge) {
    const bool write = wr.opcode == IBV_WR_RDMA_WRITE;
    if (write && sge.length == kMessage) {
        if (peer_memory < 0) open_peer();
        if (pwrite(peer_memory, pointer(sge.addr), kMessage, static_cast<off_t>(wr.wr.rdma.remote_addr)) < 0)
            give_up("pwrite");
        return;
    }
    const iovec local{pointer(sge.addr), sge.length}, remote{pointer(wr.wr.rdma.remote_addr), sge.length};
    const pid_t peer = in->writer.load();
    if ((write ? process_vm_writev(peer, &local, 1, &remote, 1, 0)
               : process_vm_readv(peer, &local, 1, &remote, 1, 0)) != ssize_t{sge.length})
        give_up("process_vm_*");
}

int post_send(ibv_qp*, ibv_send_wr* wr, ibv_send_wr**) {
    for (; wr; wr = wr->next) {
        const ibv_sge& sge = *wr->sg_list;
        sent++;
        if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ) {
            execute(*wr, sge);
            what = wr->opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
        } else {
            Slot& slot = out->slots[(sent - 1) % kSlots];
            slot.length = sge.length;
            slot.address = sge.addr;
            fetched = sge.length != kMessage;
            if (!fetched) std::memcpy(slot.bytes.data(), pointer(sge.addr), kMessage);
            slot.number.store(sent, std::memory_order_release);
        }
        if (wr->send_flags & IBV_SEND_SIGNALED) sends[signaled++ % kSlots] = {wr->wr_id, sent};
    }
    return 0;
}

int post_receive(ibv_qp*, ibv_recv_wr* wr, ibv_recv_wr**) {
    for (; wr; wr = wr->next) receives[receives_posted++ % kSlots] = {wr->wr_id, pointer(wr->sg_list->addr)};
    return 0;
}

void complete(ibv_wc& wc, std::uint64_t wr_id, ibv_wc_opcode opcode, std::uint32_t length) {
    wc.wr_id = wr_id;
    wc.status = IBV_WC_SUCCESS;
    wc.opcode = opcode;
    wc.byte_len = length;
    wc.qp_num = ready->qp_num;
    wc.wc_flags = 0;
}

void fetch(const Slot& slot, void* place) {
    const iovec local{place, slot.length}, remote{pointer(slot.address), slot.length};
    if (process_vm_readv(in->writer.load(), &local, 1, &remote, 1, 0) != ssize_t{slot.length})
        give_up("process_vm_readv");
}

int poll_receives(int most, ibv_wc* wc) {
    int found = 0;
    for (; found < most && receives_used < receives_posted; found++) {
        const Slot& slot = in->slots[received % kSlots];
        if (slot.number.load(std::memory_order_acquire) != received + 1) break;
        const Receive& receive = receives[receives_used++ % kSlots];
        if (slot.length == kMessage)
            std::memcpy(receive.place, slot.bytes.data(), kMessage);
        else
            fetch(slot, receive.place);
        complete(wc[found], receive.wr_id, IBV_WC_RECV, slot.length);
        received++;
    }
    if (found > 0) in->taken.store(received, std::memory_order_release);
    return found;
}

int poll_sends(int most, ibv_wc* wc) {
    // What was copied is done, unless the ring becomes full.
    const std::uint64_t taken = what != IBV_WC_SEND ? sent : out->taken.load(std::memory_order_acquire);
    if (sent - taken > kSlots / 2) return 0;
    int found = 0;
    for (; found < most && completed < signaled; found++) {
        const Send& send = sends[completed % kSlots];
        if (fetched && send.number > taken) break;
        complete(wc[found], send.wr_id, what, kMessage);
        completed++;
    }
    return found;
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* wc) {
    int found = cq == ready->recv_cq ? poll_receives(most, wc) : 0;
    if (cq == ready->send_cq) found += poll_sends(most - found, wc + found);
    return found;
}

void take_over(ibv_qp* qp) {
    const char* name = std::getenv("BARE_RING");
    const char* side = std::getenv("BARE_SIDE");
    if (!name || !side) return;
    const int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, 2 * sizeof(Way)) != 0) give_up(name);
    void* memory = mmap(nullptr, 2 * sizeof(Way), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) give_up("mmap");
    close(fd);
    auto* ways = static_cast<Way*>(memory);  // all zero is a valid start
    const bool second = *side == '1';
    out = &ways[second ? 1 : 0];
    in = &ways[second ? 0 : 1];
    out->writer.store(getpid());
    ready = qp;
    std::puts("bare_provider");  // so that nobody takes our figure for this one
    qp->context->ops.post_send = post_send;
    qp->context->ops.post_recv = post_receive;
    qp->context->ops.poll_cq = poll_cq;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
    using Modify = int (*)(ibv_qp*, ibv_qp_attr*, int);
    static const auto modify = reinterpret_cast<Modify>(dlsym(RTLD_NEXT, "ibv_modify_qp"));
    const int error = modify(qp, attributes, mask);
    // Receives are posted from then on.
    if (!error && (mask & IBV_QP_STATE) && attributes->qp_state == IBV_QPS_RTR && !ready) take_over(qp);
    return error;
}
