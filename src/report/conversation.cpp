#include "report/conversation.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "wire/cm_messages.h"
#include "wire/psn.h"

namespace verbena::report {
namespace {

using Address = std::array<std::uint8_t, 16>;

template <class Message>
Message read(const wire::Packet& packet) {
    Message message;
    wire::decode(wire::cm_message(packet.payload.first<wire::kMadLength>()), message);
    return message;
}

class Finder {
   public:
    Finder(const Recording& recording, std::vector<ViewedPacket>& views)
        : recording_(recording), views_(views) {}

    std::vector<Conversation> run() {
        know_peers();
        views_.resize(recording_.packets.size());
        for (std::size_t i = 0; i < views_.size(); i++) {
            const link::CapturedPacket& captured = recording_.packets[i].captured;
            ViewedPacket& view = views_[i];
            view.valid = wire::parse(captured.bytes, view.parsed) == wire::ParseError::none;
            if (!view.valid) continue;
            const wire::Bth& bth = view.parsed.headers.bth;
            if (bth.destination_qp == wire::kQp1 && view.parsed.payload.size() == wire::kMadLength)
                take_mad(captured, view);
            else
                take_data(captured, view);
            if (view.conversation == kNone) continue;
            Conversation& conversation = all_[view.conversation];
            conversation.packets.push_back(i);
            if (!view.cm) conversation.data_packets++;
        }
        return std::move(all_);
    }

   private:
    using QpKey = std::pair<Address, std::uint32_t>;

    // ---- messages of the connection manager

    void take_mad(const link::CapturedPacket& captured, ViewedPacket& view) {
        wire::MadHeader header;
        wire::decode(wire::mad_header(view.parsed.payload.first<wire::kMadLength>()), header);
        if (!wire::is_cm(header)) return;
        view.cm = true;
        switch (header.attribute_id) {
            case wire::CmAttribute::req:
                return request(captured, view, read<wire::Req>(view.parsed));
            case wire::CmAttribute::rep:
                return reply(captured, view, read<wire::Rep>(view.parsed));
            case wire::CmAttribute::sidr_req:
                return sidr_request(captured, view, read<wire::SidrReq>(view.parsed));
            case wire::CmAttribute::sidr_rep:
                return sidr_reply(captured, view, read<wire::SidrRep>(view.parsed));
            case wire::CmAttribute::rtu:
                return with_ids(captured, view, header, read<wire::Rtu>(view.parsed));
            case wire::CmAttribute::mra:
                return with_ids(captured, view, header, read<wire::Mra>(view.parsed));
            case wire::CmAttribute::rej:
                return with_ids(captured, view, header, read<wire::Rej>(view.parsed));
            case wire::CmAttribute::dreq:
                return with_ids(captured, view, header, read<wire::Dreq>(view.parsed));
            case wire::CmAttribute::drep:
                return with_ids(captured, view, header, read<wire::Drep>(view.parsed));
            case wire::CmAttribute::lap:
                return with_ids(captured, view, header, read<wire::Lap>(view.parsed));
            case wire::CmAttribute::apr:
                return with_ids(captured, view, header, read<wire::Apr>(view.parsed));
            case wire::CmAttribute::class_port_info:
                return;
        }
    }

    static void name_ends(Conversation& conversation, const link::CapturedPacket& captured,
                          std::uint64_t service, std::span<const std::uint8_t> private_data) {
        conversation.service_id = service;
        conversation.ends[kLeft].address = captured.path.source;
        conversation.ends[kRight].address = captured.path.destination;
        conversation.ends[kRight].port = wire::service_port(service);
        wire::CmaHeader addresses;
        if (wire::is_ip_service(service) &&
            wire::decode(private_data.first<wire::kCmaHeaderLength>(), addresses)) {
            conversation.ends[kLeft].port = addresses.port;
            conversation.ends[kLeft].address = addresses.source_gid();
            conversation.ends[kRight].address = addresses.destination_gid();
        }
    }

    Conversation& add(Kind kind) {
        Conversation& added = all_.emplace_back();
        added.kind = kind;
        return added;
    }

    void belongs(ViewedPacket& view, std::size_t index, int side) {
        view.conversation = index;
        view.side = side;
    }

    void request(const link::CapturedPacket& captured, ViewedPacket& view, const wire::Req& req) {
        std::size_t index = find(req.local_comm_id, 0, captured);
        view.repeated = index != kNone;
        if (index == kNone) {
            index = all_.size();
            Conversation& conversation = add(Kind::connection);
            name_ends(conversation, captured, req.service_id, req.private_data);
            conversation.ends[kLeft].comm_id = req.local_comm_id;
            set_qpn(index, kLeft, req.local_qpn);
            by_comm_id_[req.local_comm_id].push_back(index);
        }
        belongs(view, index, kLeft);
    }

    void reply(const link::CapturedPacket& captured, ViewedPacket& view, const wire::Rep& rep) {
        const std::size_t index = find(rep.remote_comm_id, rep.local_comm_id, captured);
        if (index == kNone) return;
        End& server = all_[index].ends[kRight];
        view.repeated = server.comm_id != 0;
        if (!server.comm_id) {
            server.comm_id = rep.local_comm_id;
            by_comm_id_[rep.local_comm_id].push_back(index);
            set_qpn(index, kRight, rep.local_qpn);
        }
        belongs(view, index, kRight);
    }

    template <class Message>
    void with_ids(const link::CapturedPacket& captured, ViewedPacket& view, const wire::MadHeader& header,
                  const Message& message) {
        const std::size_t index = find(message.local_comm_id, message.remote_comm_id, captured);
        if (index == kNone) return;
        End(&ends)[2] = all_[index].ends;
        const bool from_client =
            ends[kLeft].comm_id == message.local_comm_id ||
            (message.local_comm_id == 0 && ends[kRight].comm_id == message.remote_comm_id);
        const int side = from_client ? kLeft : kRight;
        if (side == kRight && !ends[kRight].comm_id) ends[kRight].comm_id = message.local_comm_id;
        view.repeated = !sent_.insert({index, side, header.attribute_id, header.transaction_id}).second;
        belongs(view, index, side);
    }

    void sidr_request(const link::CapturedPacket& captured, ViewedPacket& view, const wire::SidrReq& req) {
        std::size_t index = find_service(req.request_id, captured.path.source);
        view.repeated = index != kNone;
        if (index == kNone) {
            index = all_.size();
            Conversation& conversation = add(Kind::service);
            conversation.request_id = req.request_id;
            name_ends(conversation, captured, req.service_id, req.private_data);
            services_[{req.request_id, conversation.ends[kLeft].address.bytes}] = index;
        }
        belongs(view, index, kLeft);
    }

    void sidr_reply(const link::CapturedPacket& captured, ViewedPacket& view, const wire::SidrRep& rep) {
        const std::size_t index = find_service(rep.request_id, captured.path.destination);
        if (index == kNone) return;
        End(&ends)[2] = all_[index].ends;
        view.repeated = ends[kRight].qpn != 0;
        if (rep.qpn && rep.qpn != ends[kRight].qpn) {
            ends[kRight].qpn = rep.qpn;
            expected_[{ends[kLeft].address.bytes, ends[kRight].address.bytes, rep.qpn}].push_back(index);
        }
        belongs(view, index, kRight);
    }

    // The newest conversation with one of the comm ids in its place; 0 is no comm id.
    std::size_t find(std::uint32_t one, std::uint32_t other, const link::CapturedPacket& captured) const {
        std::size_t newest = kNone;
        for (const std::uint32_t id : {one, other}) {
            const auto found = by_comm_id_.find(id);
            if (id == 0 || found == by_comm_id_.end()) continue;
            for (const std::size_t index : found->second) {
                const End(&ends)[2] = all_[index].ends;
                const Gid &source = captured.path.source, &destination = captured.path.destination;
                const bool match = (source == ends[0].address && destination == ends[1].address) ||
                                   (source == ends[1].address && destination == ends[0].address);
                if (match && (newest == kNone || index > newest)) newest = index;
            }
        }
        return newest;
    }

    // The newest one.
    std::size_t find_service(std::uint32_t request, const Gid& client) const {
        const auto found = services_.find({request, client.bytes});
        return found == services_.end() ? kNone : found->second;
    }

    // ---- packets of data

    void set_qpn(std::size_t index, int side, std::uint32_t qpn) {
        all_[index].ends[side].qpn = qpn;
        receivers_[{all_[index].ends[side].address.bytes, qpn}] = {index, side};
    }

    // A queue pair that its program connected itself: the attributes of RTR name the other.
    void know_peers() {
        std::map<std::uint32_t, std::uint32_t> peers;
        for (const Transition& transition : recording_.transitions)
            for (const auto& [name, value] : transition.attributes)
                if (name == "dest_qp_num")
                    peers[transition.qp] =
                        static_cast<std::uint32_t>(std::strtoul(value.c_str(), nullptr, 0));
        for (const auto& [qp, peer] : peers) connected_to_.try_emplace(peer, qp);
    }

    void take_data(const link::CapturedPacket& captured, ViewedPacket& view) {
        const wire::Headers& headers = view.parsed.headers;
        const wire::OpcodeInfo& opcode = wire::info(headers.bth.opcode);
        view.refusal = opcode.has_aeth && (wire::classify(headers.aeth.syndrome) == wire::AethKind::nak ||
                                           wire::classify(headers.aeth.syndrome) == wire::AethKind::rnr_nak);
        if (opcode.has_deth) return take_datagram(captured, view);
        note_repetition(captured, view, opcode);
        const QpKey to{captured.path.destination.bytes, headers.bth.destination_qp};
        auto found = receivers_.find(to);
        if (found == receivers_.end()) {
            const std::uint32_t sender = sender_of(captured, headers.bth, opcode);
            if (const auto other = receivers_.find({captured.path.source.bytes, sender});
                sender && other != receivers_.end() &&
                peer_of(other->second).address == captured.path.destination) {
                set_qpn(other->second.first, 1 - other->second.second, headers.bth.destination_qp);
            } else {
                Conversation& conversation = add(Kind::queue_pairs);
                conversation.ends[kLeft].address = captured.path.source;
                conversation.ends[kRight].address = captured.path.destination;
                set_qpn(all_.size() - 1, kRight, headers.bth.destination_qp);
                if (sender) set_qpn(all_.size() - 1, kLeft, sender);
            }
            found = receivers_.find(to);
        }
        if (opcode.request)
            last_request_[{captured.path.source.bytes, captured.path.destination.bytes, headers.bth.psn}] =
                headers.bth.destination_qp;
        belongs(view, found->second.first, 1 - found->second.second);
    }

    const End& peer_of(const std::pair<std::size_t, int>& end) const {
        return all_[end.first].ends[1 - end.second];
    }

    // The queue pair that a packet of a connected service comes from, which it does not say itself: 0 if
    // unknown.
    std::uint32_t sender_of(const link::CapturedPacket& captured, const wire::Bth& bth,
                            const wire::OpcodeInfo& opcode) const {
        if (const auto known = connected_to_.find(bth.destination_qp); known != connected_to_.end())
            return known->second;
        if (!opcode.response) return 0;
        // An answer has the PSN of its request, which went the other way to the queue pair that answers.
        const auto request =
            last_request_.find({captured.path.destination.bytes, captured.path.source.bytes, bth.psn});
        return request == last_request_.end() ? 0 : request->second;
    }

    void take_datagram(const link::CapturedPacket& captured, ViewedPacket& view) {
        const wire::Headers& headers = view.parsed.headers;
        const std::uint32_t to = headers.bth.destination_qp, from = headers.deth.source_qp;
        const bool multicast = to == wire::kMulticastQp;
        const std::tuple forward(captured.path.source.bytes, from, captured.path.destination.bytes, to);
        const std::tuple backward(captured.path.destination.bytes, to, captured.path.source.bytes, from);
        const auto there = datagrams_.find(forward), back = datagrams_.find(backward);
        const auto of_service = [&](const auto& known) {
            return known != datagrams_.end() && all_[known->second].kind == Kind::service;
        };
        if (!multicast && !of_service(there) && !of_service(back))
            if (const std::size_t index = begun_service(captured, to); index != kNone) {
                all_[index].ends[kLeft].qpn = from;
                datagrams_[forward] = index;
                datagrams_.erase(backward);
                return belongs(view, index, kLeft);
            }
        if (there != datagrams_.end()) return belongs(view, there->second, kLeft);
        if (back != datagrams_.end()) return belongs(view, back->second, kRight);
        Conversation& conversation = add(multicast ? Kind::multicast : Kind::queue_pairs);
        conversation.ends[kLeft] = {captured.path.source, 0, 0, from};
        conversation.ends[kRight] = {captured.path.destination, 0, 0, to};
        datagrams_[forward] = all_.size() - 1;
        belongs(view, all_.size() - 1, kLeft);
    }

    // The oldest service that was looked up there and whose client has not sent yet.
    std::size_t begun_service(const link::CapturedPacket& captured, std::uint32_t to) {
        const auto found = expected_.find({captured.path.source.bytes, captured.path.destination.bytes, to});
        if (found == expected_.end()) return kNone;
        std::deque<std::size_t>& waiting = found->second;
        while (!waiting.empty()) {
            const std::size_t index = waiting.front();
            waiting.pop_front();
            const End(&ends)[2] = all_[index].ends;
            if (ends[kLeft].qpn == 0 && ends[kRight].qpn == to) return index;
        }
        return kNone;
    }

    // Requests, and READ responses, whose PSN is not behind that of the last one.
    void note_repetition(const link::CapturedPacket& captured, ViewedPacket& view,
                         const wire::OpcodeInfo& opcode) {
        const bool read_response = opcode.operation == wire::Operation::read_response;
        if (!opcode.request && !read_response) return;
        const std::uint32_t psn = view.parsed.headers.bth.psn;
        const auto key = std::make_tuple(captured.path.source.bytes, captured.path.destination.bytes,
                                         view.parsed.headers.bth.destination_qp, read_response);
        const auto [last, first_time] = last_psn_.try_emplace(key, psn);
        if (first_time) return;
        if (wire::psn_diff(psn, last->second) <= 0)
            view.repeated = true;
        else
            last->second = psn;
    }

    const Recording& recording_;
    std::vector<ViewedPacket>& views_;
    std::vector<Conversation> all_;
    std::map<std::pair<std::uint32_t, Address>, std::size_t> services_;  // by request, client
    std::map<std::tuple<Address, Address, std::uint32_t>, std::deque<std::size_t>> expected_;
    std::map<std::uint32_t, std::vector<std::size_t>> by_comm_id_;
    std::map<QpKey, std::pair<std::size_t, int>> receivers_;
    std::map<std::uint32_t, std::uint32_t> connected_to_;  // the queue pair that a program connected to this
    std::map<std::tuple<Address, Address, std::uint32_t>, std::uint32_t> last_request_;
    std::map<std::tuple<Address, std::uint32_t, Address, std::uint32_t>, std::size_t> datagrams_;
    std::map<std::tuple<Address, Address, std::uint32_t, bool>, std::uint32_t> last_psn_;
    std::set<std::tuple<std::size_t, int, wire::CmAttribute, std::uint64_t>> sent_;
};

// Programs are found by their queue pairs' numbers; who is left over when there are two of them is the other
// one.
void find_processes(const Recording& recording, std::vector<Conversation>& all) {
    std::map<std::uint32_t, std::set<std::size_t>> owners;
    for (const Transition& transition : recording.transitions)
        owners[transition.qp].insert(transition.process);
    for (const Completion& completion : recording.completions)
        owners[completion.qp].insert(completion.process);
    for (Conversation& conversation : all) {
        End(&ends)[2] = conversation.ends;
        for (int side : {kLeft, kRight}) {
            const auto found = owners.find(ends[side].qpn);
            if (!ends[side].qpn || found == owners.end()) continue;
            for (const std::size_t process : found->second)
                if (ends[side].process == kNone || ends[side].process == ends[1 - side].process)
                    ends[side].process = process;
        }
        if (recording.processes.size() == 2)
            for (int side : {kLeft, kRight})
                if (ends[side].process == kNone && ends[1 - side].process != kNone)
                    ends[side].process = 1 - ends[1 - side].process;
    }
}

}  // namespace

std::vector<Conversation> find_conversations(const Recording& recording, std::vector<ViewedPacket>& views) {
    std::vector<Conversation> all = Finder(recording, views).run();
    find_processes(recording, all);
    return all;
}

}  // namespace verbena::report
