#include "rsocket/datagram_port.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/reason.h"
#include "rsocket/connection.h"

namespace verbena::rsocket {
namespace {

constexpr std::uint32_t kRouteHeader = 40;  // the GRH's place in front of every UD message (IBA 11.4.1.2)
constexpr std::uint32_t kReceiveSlot = kRouteHeader + kSlot;
constexpr int kResolveMs = 2'000;

std::optional<ibv_gid_entry> find_gid(const rdma_cm_id& id) {
    const ibv_gid& wanted = id.route.addr.addr.ibaddr.sgid;
    ibv_port_attr attributes{};
    if (ibv_query_port(id.verbs, id.port_num, &attributes) != 0) return {};
    for (int i = 0; i < attributes.gid_tbl_len; i++) {
        ibv_gid_entry entry{};
        if (ibv_query_gid_ex(id.verbs, id.port_num, static_cast<std::uint32_t>(i), &entry, 0) == 0 &&
            std::memcmp(&entry.gid, &wanted, sizeof wanted) == 0)
            return entry;
    }
    return {};
}

int no_gid() { return fail(EADDRNOTAVAIL, "the source address is no GID of the device any more"); }

}  // namespace

DatagramPort::~DatagramPort() {
    if (!id_) return;
    if (id_->qp) rdma_destroy_qp(id_);
    completions_.destroy();
    send_memory_.release();
    receive_memory_.release();
    rdma_destroy_id(id_);
}

// By the way from the address to itself, so that nobody in the network has to answer.
int DatagramPort::find_device() {
    if (rdma_create_id(nullptr, &id_, nullptr, RDMA_PS_UDP) != 0) return errno;
    Address from(source_), to(source_);
    if (rdma_resolve_addr(id_, from.get(), to.get(), kResolveMs) != 0) return errno;
    const auto gid = find_gid(*id_);
    if (!gid) return no_gid();
    interface_ = gid->ndev_ifindex;
    return 0;
}

int DatagramPort::create(const Settings& settings) {
    if (int error = find_device()) return error;
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

int DatagramPort::reach(const Address& destination, Peer& peer) {
    const auto source = find_gid(*id_);
    if (!source) return no_gid();
    ibv_port_attr port{};
    if (int error = ibv_query_port(id_->verbs, id_->port_num, &port)) return error;
    ibv_ah_attr attributes{};
    attributes.is_global = 1;
    attributes.port_num = id_->port_num;
    const Gid gid = destination.gid();
    std::memcpy(&attributes.grh.dgid, gid.bytes.data(), gid.bytes.size());
    attributes.grh.sgid_index = static_cast<std::uint8_t>(source->gid_index);
    attributes.grh.hop_limit = 64;
    peer.handle.reset(ibv_create_ah(id_->pd, &attributes));
    if (!peer.handle) return errno;
    peer.port = this;
    peer.largest = std::min<std::uint32_t>(kSlot, 128u << port.active_mtu);
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
