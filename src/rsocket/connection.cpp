#include "rsocket/connection.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/reason.h"

namespace verbena::rsocket {
namespace {

constexpr std::uint16_t kLeastQueue = 16;
constexpr std::uint16_t kMostQueue = 0xfffe;
// Receives beyond those that the peer may use for data: what it says besides (grants for all that was sent,
// that it shuts down and closes, a keepalive) arrives although the program does not read.
constexpr std::uint16_t kSpareReceives = 8;
constexpr unsigned kSmallSlots = 64;  // more than control messages and mappings can be under way
constexpr std::size_t kSmallSize = sizeof(MappedTarget);

}  // namespace

int Connection::create(rdma_cm_id* id, Settings& settings) {
    id_ = id;
    ibv_device_attr device{};
    if (int error = ibv_query_device(id->verbs, &device)) return error;
    const auto most = static_cast<std::uint16_t>(std::min<int>(device.max_qp_wr, kMostQueue));
    settings.send_queue = std::clamp(settings.send_queue, kLeastQueue, most);
    settings.receive_queue = std::clamp<std::uint16_t>(settings.receive_queue, kLeastQueue,
                                                       static_cast<std::uint16_t>(most - kSpareReceives));
    const unsigned receives = settings.receive_queue + kSpareReceives;
    settings.receive_buffer &= ~1u;

    if (int error = completions_.create(id->verbs, settings.send_queue + receives)) return error;

    ibv_qp_init_attr attributes{};
    attributes.qp_context = this;
    attributes.send_cq = attributes.recv_cq = completions_.queue();
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 1;
    attributes.cap = {settings.send_queue, receives, 1, 1, settings.inline_data};
    if (rdma_create_qp(id, nullptr, &attributes) != 0) return errno;
    inline_limit_ = std::min<std::uint32_t>(attributes.cap.max_inline_data, settings.inline_data);
    credits_ = settings.receive_queue;
    map_entries_ = settings.map_entries;

    constexpr int kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    const std::size_t lists = kTargets * sizeof(Target) + map_entries_ * sizeof(MappedTarget);
    if (int error = send_ring_.create(id->pd, settings.send_buffer, IBV_ACCESS_LOCAL_WRITE)) return error;
    if (int error = receive_buffer_.create(id->pd, settings.receive_buffer, kRemote)) return error;
    if (int error = lists_.create(id->pd, lists, kRemote)) return error;
    if (inline_limit_ < kSmallSize)
        if (int error = small_.create(id->pd, kSmallSlots * kSmallSize, IBV_ACCESS_LOCAL_WRITE)) return error;
    return post_receives(receives);
}

void Connection::destroy() {
    if (id_ && id_->qp) rdma_destroy_qp(id_);
    completions_.destroy();
    send_ring_.release();
    receive_buffer_.release();
    lists_.release();
    small_.release();
    id_ = nullptr;
}

Hello Connection::hello() const {
    Hello hello;
    hello.credits = credits_;
    hello.map_entries = map_entries_;
    hello.list = {lists_.address(), lists_.rkey(), kTargets};
    hello.buffer = {receive_buffer_.address(), receive_buffer_.rkey(),
                    static_cast<std::uint32_t>(receive_buffer_.size() / 2)};
    return hello;
}

void Connection::meet(const Hello& peer) {
    peer_ = peer;
    grant_slot_ = peer.list.length > 1 ? 1 : 0;
}

int Connection::post_receives(unsigned count) {
    constexpr unsigned kBatch = 32;
    ibv_recv_wr requests[kBatch];
    while (count > 0) {
        const unsigned batch = std::min(count, kBatch);
        for (unsigned i = 0; i < batch; i++)
            requests[i] = {work_id(Work::receive, 0), i + 1 < batch ? &requests[i + 1] : nullptr, nullptr, 0};
        ibv_recv_wr* bad;
        if (int error = ibv_post_recv(id_->qp, requests, &bad)) return error;
        count -= batch;
    }
    return 0;
}

int Connection::post(std::uint64_t wr_id, ibv_wr_opcode opcode, const void* data, const Target& to,
                     std::uint32_t imm, bool inlined) {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(data), to.length, 0};
    if (!inlined && data) {
        const auto* at = static_cast<const std::uint8_t*>(data);
        const bool small = small_.data() && at >= small_.data() && at < small_.data() + small_.size();
        piece.lkey = small ? small_.lkey() : send_ring_.lkey();
    }
    ibv_send_wr request{};
    request.wr_id = wr_id;
    request.sg_list = &piece;
    request.num_sge = to.length > 0 ? 1 : 0;
    request.opcode = opcode;
    request.send_flags = inlined && to.length > 0 ? IBV_SEND_INLINE : 0;
    request.imm_data = htobe32(imm);
    request.wr.rdma.remote_addr = to.address;
    request.wr.rdma.rkey = to.key;
    ibv_send_wr* bad;
    return ibv_post_send(id_->qp, &request, &bad);
}

int Connection::post_small(std::uint64_t wr_id, const void* data, const Target& to, std::uint32_t imm) {
    const bool inlined = to.length <= inline_limit_;
    if (!inlined) {
        std::uint8_t* slot = small_.data() + kSmallSize * (small_next_++ % kSmallSlots);
        std::memcpy(slot, data, to.length);
        data = slot;
    }
    return post(wr_id, IBV_WR_RDMA_WRITE_WITH_IMM, data, to, imm, inlined);
}

int Connection::post_data(const void* data, const Target& to, bool inlined) {
    return post(work_id(Work::data, inlined ? 0 : to.length), IBV_WR_RDMA_WRITE_WITH_IMM, data, to,
                message(Kind::data, to.length), inlined);
}

int Connection::post_direct(const void* data, const Target& to, bool inlined) {
    return post(work_id(Work::direct, inlined ? 0 : to.length), IBV_WR_RDMA_WRITE, data, to, 0, inlined);
}

int Connection::post_control(Control control) {
    return post(work_id(Work::control, 0), IBV_WR_RDMA_WRITE_WITH_IMM, nullptr, {},
                message(Kind::control, static_cast<std::uint32_t>(control)), true);
}

int Connection::post_grant(const ReceiveWindow::Grant& grant) {
    const std::uint32_t imm = message(Kind::credit, grant.limit);
    if (!grant.buffer)
        return post(work_id(Work::grant, 0), IBV_WR_RDMA_WRITE_WITH_IMM, nullptr, {}, imm, true);
    Target granted{receive_buffer_.address() + grant.buffer->offset, receive_buffer_.rkey(),
                   grant.buffer->length};
    if (peer_.big_endian != kBigEndian) granted = swapped(granted);
    const Target slot{peer_.list.address + grant_slot_ * sizeof(Target), peer_.list.key, sizeof(Target)};
    if (++grant_slot_ >= peer_.list.length) grant_slot_ = 0;
    return post_small(work_id(Work::grant, 0), &granted, slot, imm);
}

int Connection::post_map(unsigned index, const MappedTarget& entry) {
    const MappedTarget sent = peer_.big_endian != kBigEndian ? swapped(entry) : entry;
    const Target slot{peer_.list.address + peer_.list.length * sizeof(Target) + index * sizeof(MappedTarget),
                      peer_.list.key, sizeof(MappedTarget)};
    return post_small(work_id(Work::map, 0), &sent, slot, message(Kind::map, index));
}

}  // namespace verbena::rsocket
