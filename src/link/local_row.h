// What gathers acknowledgements for a peer of this host in a row (ack_row.h), until it is full, one goes
// elsewhere, or leave(). The peer is locked meanwhile, so that nothing that a queue pair sends overtakes what
// it has said here: whoever goes on to lock something else that a sender may hold has the row leave first.
// (The peer stays the one that it is, since its place is given up in receive() only.)
//
// Thread safety: who makes progress, one at a time.
#pragma once

#include <array>
#include <mutex>
#include <span>
#include <utility>

#include "link/ack_row.h"
#include "link/hooks.h"
#include "link/local_link.h"

namespace verbena::link {

class LocalLink::Row final : public wire::PacketCopier {
   public:
    explicit Row(LocalLink& link) : link_(link) {}

    bool copy(const wire::OutPacket& packet) override {
        if (packets_wanted() || !AckRow::suits(packet)) [[unlikely]] {
            leave();
            return link_.copy(packet);
        }
        LocalPeer* const peer = link_.peers_.find(packet.path->destination, packet.destination_qp());
        if (!peer) [[unlikely]]
            return false;
        if (peer != peer_ || packet.path->source != path_.source ||
            packet.path->destination != path_.destination) {
            leave();
            peer->lock.lock();
            peer_ = peer;
            path_ = *packet.path;
        }
        row_.add(packet);
        if (row_.full()) leave();
        return true;
    }

    void leave() {
        if (!peer_) return;
        LocalPeer& peer = *std::exchange(peer_, nullptr);
        const std::unique_lock guard(peer.lock, std::adopt_lock);
        const std::span<std::uint8_t> bytes = row_.take();
        if (!peer.out || peer.state.load() != LocalPeer::State::met) return;
        if (AckRow::size(bytes) == 1) {
            std::array<std::uint8_t, AckRow::kHeaders> packet;
            AckRow::read(bytes, 0, packet.data());
            append(peer, packet, LocalRing::Form::packet);
        } else {
            append(peer, bytes, LocalRing::Form::row);
        }
        link_.publish(peer);
    }

   private:
    void append(LocalPeer& peer, std::span<std::uint8_t> bytes, LocalRing::Form form) {
        const iovec piece{bytes.data(), bytes.size()};
        peer.append(path_, {&piece, 1}, {}, form);
    }

    LocalLink& link_;
    LocalPeer* peer_ = nullptr;  // that the row goes to, whose lock is held; nullptr: it is empty
    wire::Path path_;
    AckRow row_;
};

}  // namespace verbena::link
