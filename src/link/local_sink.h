// One thread's way out: local packets are copied into the peer's ring at once and published by flush();
// others go to a sink of the wire's. The peer's lock is held from the first packet to it to the flush, or to
// a packet that goes elsewhere: nothing else is locked meanwhile.
//
// Thread safety: who has borrowed it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "link/hooks.h"
#include "link/local_link.h"
#include "link/local_reference.h"
#include "link/unsent.h"
#include "wire/opcode.h"

namespace verbena::link {

class LocalLink::Sink final : public wire::PacketSink {
   public:
    explicit Sink(LocalLink& link) : link_(link) {}

    void send(const wire::OutPacket& packet) override {
        const std::uint32_t qp_number = packet.destination_qp();
        // IBA 9.2: the service is in the opcode's upper bits.
        const auto service = static_cast<wire::Service>(packet.header[0] >> 5);
        const bool connected = service != wire::Service::ud;
        // The acknowledgement and the request behind it, a message's packets: the same peer again.
        if (!is_chosen(packet.path->destination, qp_number) || !connected) {
            publish();
            const bool run = packet.aside.psns > 1;  // longest_run() said that it goes by the wire
            if (!connected || run || !choose(packet.path->destination, qp_number)) return by_wire(packet);
        }
        append(packet);
        if (unpublished_ > kPublishEvery) publish();
    }

    bool go_on(const wire::ShortPacket& packet) override { return !peer_ && wire_ && wire_->go_on(packet); }

    bool copy_short(const wire::ShortPacket& packet) override {
        if (packets_wanted() || !is_chosen(packet.path->destination, packet.destination_qp) ||
            !peer_->append(packet)) [[unlikely]]
            return false;
        wrote(wire::kMaxHeaderLength + packet.length);
        return true;
    }

    bool copy(const wire::OutPacket& packet) override {
        const std::uint32_t qp_number = packet.destination_qp();
        if (packets_wanted()) [[unlikely]]
            return false;
        if (!is_chosen(packet.path->destination, qp_number)) {
            publish();
            if (!choose(packet.path->destination, qp_number, false)) return false;
        }
        if (!peer_->append(packet)) return false;
        wrote(wire::kMaxHeaderLength + (packet.payload.empty() ? 0 : packet.payload[0].iov_len));
        return true;
    }

    bool is_full(const wire::Path& path, std::uint32_t qp_number) override {
        const LocalPeer* peer = link_.peers_.find(path.destination, qp_number);
        return peer && peer->spilled.load(std::memory_order_relaxed);
    }

    std::size_t largest_payload(const wire::Path& path, std::uint32_t qp_number, bool stays) override {
        if (packets_wanted()) [[unlikely]]
            return 0;
        if (!is_chosen(path.destination, qp_number)) {
            publish();
            if (!choose(path.destination, qp_number)) return 0;
        }
        return stays && peer_->out && peer_->out->fetches() ? kLargestFetched : kLargestCopied;
    }

    unsigned longest_run(const wire::Path& path, std::uint32_t qp_number) override {
        if (is_chosen(path.destination, qp_number)) return 1;
        publish();
        return choose(path.destination, qp_number) ? 1 : wire().longest_run(path, qp_number);
    }

    std::size_t pause() override {
        publish();
        return wire_ ? wire_->pause() : 0;
    }

    void flush() override {
        publish();
        if (wire_) {
            wire_->flush();
            link_.wire_.return_sink(*wire_);
            wire_ = nullptr;
        }
    }

    std::atomic<bool> busy{false};

   private:
    static constexpr unsigned kPieces = 64;
    static constexpr std::size_t kPublishEvery = 32 << 10;  // bytes

    bool is_chosen(const Gid& destination, std::uint32_t qp_number) const {
        return peer_ && block_of(qp_number) == block_ && destination == destination_;
    }
    bool choose(const Gid& destination, std::uint32_t qp_number, bool asks = true) {
        const std::uint32_t block = block_of(qp_number);
        const bool again =
            last_ && block == block_ && destination == destination_ && link_.peers_.owns(block, *last_);
        if (!again)
            last_ = asks ? link_.peers_.find_or_ask(destination, qp_number)
                         : link_.peers_.find(destination, qp_number);
        if (!last_) return false;
        block_ = block;
        destination_ = destination;
        last_->lock.lock();
        peer_ = last_;
        return true;
    }

    wire::PacketSink& wire() {
        if (!wire_) wire_ = &link_.wire_.borrow_sink();
        return *wire_;
    }
    void by_wire(const wire::OutPacket& packet) {
        link_.wire_busy_.store(kBusyFor, std::memory_order_relaxed);
        wire().send(packet);
    }

    // A packet to a peer that has just died is lost; the next one leaves by the wire, which nobody answers.
    void append(const wire::OutPacket& packet) {
        static constexpr std::uint8_t kPad[4] = {};
        std::array<iovec, kPieces> pieces;
        if (packet.payload.size() + 2 > kPieces) return;  // more elements than any queue pair may have
        unsigned count = 0;
        pieces[count++] = {const_cast<std::uint8_t*>(packet.header.data()), packet.header_length};
        std::size_t length = packet.header_length;
        for (const iovec& piece : packet.payload) {
            pieces[count++] = piece;
            length += piece.iov_len;
        }
        if (packet.pad_count > 0) pieces[count++] = {const_cast<std::uint8_t*>(kPad), packet.pad_count};
        if (PacketObserver* observer = packet_observer()) [[unlikely]]
            show_unsent(*observer, packet);
        if (packet.damaged) return;  // there is no ICRC that could be wrong
        LocalPeer& peer = *peer_;
        if (!peer.out || peer.state.load() != LocalPeer::State::met) return;
        const bool asks = static_cast<wire::Opcode>(packet.header[0]) == wire::Opcode::rc_read_request;
        const bool refers = packet.aside.stays && (asks || length > kFetchedFrom) && peer.out->fetches();
        // The peer has changed its mind since it was asked: a READ's answer brings what it has, anything else
        // is lost, and sent again otherwise.
        if (asks && !refers) {
            count = 1;
            length = packet.header_length;
        }
        if (!refers && length > kLargestCopied + wire::kMaxHeaderLength) return;
        if (refers) {
            for (unsigned i = 0; i < packet.payload.size(); i++)
                references_[i] = {reinterpret_cast<std::uintptr_t>(packet.payload[i].iov_base),
                                  packet.payload[i].iov_len};
            std::size_t references = packet.payload.size();
            if (packet.aside.placed != 0) references_[references++] = {packet.aside.placed, 0};
            pieces[1] = {references_.data(), references * sizeof(LocalReference)};
            count = 2;
            length = packet.header_length + pieces[1].iov_len;
        }
        using Form = LocalRing::Form;
        if (peer.append(*packet.path, {pieces.data(), count}, packet.aside,
                        refers ? Form::reference : Form::packet))
            unpublished_ += length;
    }

    void wrote(std::size_t bytes) {
        unpublished_ += bytes;
        if (unpublished_ > kPublishEvery) publish();
    }
    void publish() {
        if (!peer_) return;
        if (peer_->out) link_.publish(*peer_);
        peer_->lock.unlock();
        peer_ = nullptr;
        unpublished_ = 0;
    }

    LocalLink& link_;
    LocalPeer* peer_ = nullptr;  // its lock is held
    LocalPeer* last_ = nullptr;  // the one before, that of block_ at destination_
    std::uint32_t block_ = 0;
    Gid destination_;
    std::size_t unpublished_ = 0;
    std::array<LocalReference, kMaxReferences + 1> references_;
    wire::PacketSink* wire_ = nullptr;
};

}  // namespace verbena::link
