#include "rsocket/datagram_port.h"

#include <algorithm>
#include <cerrno>

#include "rsocket/connection.h"

namespace verbena::rsocket {
namespace {

constexpr std::uint32_t kRouteHeader = 40;  // the GRH's place in front of every UD message (IBA 11.4.1.2)
constexpr std::uint32_t kReceiveSlot = kRouteHeader + kSlot;

}  // namespace

DatagramPort::~DatagramPort() {
    if (id_->qp) rdma_destroy_qp(id_);
    completions_.destroy();
    send_memory_.release();
    receive_memory_.release();
    rdma_destroy_id(id_);
}

int DatagramPort::create(const Settings& settings) {
    sends_ = std::clamp<std::uint32_t>(settings.send_queue, 1, std::max(settings.send_buffer / kSlot, 1u));
    const auto receives =
        std::clamp<std::uint32_t>(settings.receive_queue, 1, std::max(settings.receive_buffer / kSlot, 1u));
    if (int error = completions_.create(id_->verbs, sends_ + receives)) return error;
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = completions_.queue();
    attributes.qp_type = IBV_QPT_UD;
    attributes.sq_sig_all = 1;
    attributes.cap = {sends_, receives, 1, 1, settings.inline_data};
    if (rdma_create_qp(id_, nullptr, &attributes) != 0) return errno;
    inline_limit_ = std::min<std::uint32_t>(attributes.cap.max_inline_data, settings.inline_data);
    if (int error = send_memory_.create(id_->pd, std::size_t{sends_} * kSlot, IBV_ACCESS_LOCAL_WRITE))
        return error;
    if (int error =
            receive_memory_.create(id_->pd, std::size_t{receives} * kReceiveSlot, IBV_ACCESS_LOCAL_WRITE))
        return error;
    for (std::uint32_t slot = 0; slot < sends_; slot++) free_.push_back(slot);
    for (std::uint32_t slot = 0; slot < receives; slot++)
        if (int error = post_receive(slot)) return error;
    return 0;
}

std::uint8_t* DatagramPort::send_slot() {
    return free_.empty() ? nullptr : send_memory_.data() + std::size_t{free_.back()} * kSlot;
}

int DatagramPort::post_send(std::uint8_t* slot, std::uint32_t size, ibv_ah* handle, std::uint32_t qpn) {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(slot), size, send_memory_.lkey()};
    ibv_send_wr request{};
    request.wr_id = work_id(Work::data, free_.back());
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = size <= inline_limit_ ? IBV_SEND_INLINE : 0;
    request.wr.ud = {handle, qpn, RDMA_UDP_QKEY};
    ibv_send_wr* bad;
    if (int error = ibv_post_send(id_->qp, &request, &bad)) return error;
    free_.pop_back();
    return 0;
}

int DatagramPort::post_receive(std::uint32_t slot) {
    ibv_sge piece{receive_memory_.address() + std::uint64_t{slot} * kReceiveSlot, kReceiveSlot,
                  receive_memory_.lkey()};
    ibv_recv_wr request{work_id(Work::receive, slot), nullptr, &piece, 1};
    ibv_recv_wr* bad;
    return ibv_post_recv(id_->qp, &request, &bad);
}

void DatagramPort::repost(std::uint32_t slot) {
    // A queue pair in error receives nothing more; senders find out, as with any datagram.
    [[maybe_unused]] const int error = post_receive(slot);
}

void DatagramPort::poll(std::vector<Received>& received) {
    ibv_wc completions[16];
    for (int count; (count = completions_.poll(completions)) > 0;)
        for (int i = 0; i < count; i++) {
            const ibv_wc& completion = completions[i];
            const std::uint32_t slot = amount_of(completion.wr_id);
            if (work_of(completion.wr_id) == Work::data)
                free_.push_back(slot);
            else if (completion.status == IBV_WC_SUCCESS && completion.byte_len > kRouteHeader)
                received.push_back({slot, completion.byte_len - kRouteHeader});
            else if (completion.status == IBV_WC_SUCCESS)
                repost(slot);
        }
}

std::span<const std::uint8_t> DatagramPort::bytes(const Received& received) const {
    return {receive_memory_.data() + std::size_t{received.slot} * kReceiveSlot + kRouteHeader, received.size};
}

}  // namespace verbena::rsocket
