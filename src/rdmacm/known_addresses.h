// What the daemon has said of addresses of this host: it will say the same again as long as the devices are
// the same, since nobody else has to be asked (cm::Manager::resolve_address).
//
// Thread safety: all calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "cm/types.h"
#include "host/device_table.h"

namespace verbena::rdmacm {

class KnownAddresses {
   public:
    // When a daemon (host::generation()) was asked, as its devices have it.
    class Moment {
       public:
        Moment() = default;  // never
        Moment(std::uint32_t generation, const host::DeviceTable* devices)
            : generation_(generation), devices_(devices), sequence_(devices ? devices->sequence.load() : 0) {}
        bool is_past(std::uint32_t generation) const {
            return generation_ != generation || !devices_ || devices_->sequence.load() != sequence_;
        }

       private:
        std::uint32_t generation_ = 0;
        const host::DeviceTable* devices_ = nullptr;
        std::uint64_t sequence_ = 0;
    };

    // ADDR_RESOLVED of an id that was not bound before, had no options, and asked then.
    // Of several that asked at once the first one's suffices.
    void learn(std::uint32_t generation, const cm::Event& resolved, const Moment& asked) {
        if (asked.is_past(generation)) return;
        const cm::IdInfo& info = resolved.info;
        std::lock_guard lock(mutex_);
        if (look_up(generation, info.remote, info.port_space, info.qp_type)) return;
        Known& oldest = known_[learned_++ % known_.size()];
        oldest.asked = asked;
        oldest.event = resolved;
    }

    // The same for another id, whose parts of it are the caller's to fill in.
    std::optional<cm::Event> find(std::uint32_t generation, const cm::Endpoint& remote,
                                  cm::PortSpace port_space, cm::QpType type) const {
        std::lock_guard lock(mutex_);
        const cm::Event* const known = look_up(generation, remote, port_space, type);
        return known ? std::optional(*known) : std::nullopt;
    }

   private:
    // The mutex is held.
    const cm::Event* look_up(std::uint32_t generation, const cm::Endpoint& remote, cm::PortSpace port_space,
                             cm::QpType type) const {
        for (const Known& each : known_) {
            const cm::IdInfo& info = each.event.info;
            if (info.remote.family == remote.family && info.remote.address == remote.address &&
                info.port_space == port_space && info.qp_type == type && !each.asked.is_past(generation))
                return &each.event;
        }
        return nullptr;
    }

    struct Known {
        Moment asked;
        cm::Event event;
    };
    mutable std::mutex mutex_;
    std::array<Known, 4> known_;
    std::size_t learned_ = 0;
};

}  // namespace verbena::rdmacm
