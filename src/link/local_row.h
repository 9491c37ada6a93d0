// What gathers acknowledgements for a peer of this host in a row (ack_row.h), until it is full, one goes
// elsewhere, or leave(). No lock is held meanwhile: who owes them is locked one after the other.
//
// Thread safety: the thread in receive().
#pragma once

#include <mutex>
#include <utility>

#include "link/ack_row.h"
#include "link/hooks.h"
#include "link/local_link.h"

namespace verbena::link {

class LocalLink::Row final : public wire::PacketCopier {
   public:
    explicit Row(LocalLink& link) : link_(link) {}

    bool copy(const wire::OutPacket& packet) override {
        if (packets_wanted() || !AckRow::suits(packet)) [[unlikely]]
            return link_.copy(packet);
        LocalPeer* const peer = link_.peers_.find(packet.path->destination, packet.destination_qp());
        if (!peer) [[unlikely]]
            return false;
        if (peer != peer_ || packet.path->source != path_.source ||
            packet.path->destination != path_.destination) {
            leave();
            peer_ = peer;
            path_ = *packet.path;
        }
        row_.add(packet);
        if (row_.full()) leave();
        return true;
    }

    void leave() {
        if (row_.empty()) return;
        std::lock_guard guard(peer_->lock);
        if (peer_->out && peer_->state.load() == LocalPeer::State::met) {
            const std::span<std::uint8_t> bytes = row_.bytes();
            const iovec piece{bytes.data(), bytes.size()};
            peer_->append(path_, {&piece, 1}, {}, LocalRing::Form::row);
            link_.publish(*peer_);
        }
        row_.clear();
        peer_ = nullptr;
    }

   private:
    LocalLink& link_;
    LocalPeer* peer_ = nullptr;  // that the row goes to, if it is not empty
    wire::Path path_;
    AckRow row_;
};

}  // namespace verbena::link
