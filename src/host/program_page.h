// What a program and the daemon share beside their messages: what is found here need not be told, and a
// message is two changes of process.
//
// The page (base/shared_page.h) is the program's, and goes along with Command::share_page. The daemon
// believes nothing in it that the program could not also have asked for.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/shared_page.h"
#include "cm/types.h"

namespace verbena::host {

// Ports of PortSpace::tcp that the daemon has lent to the program: one is bound to an id by taking it, and
// ResolveAddressRequest::lent_port says so later. As long as nobody has taken it the daemon may have it back.
class LentPorts {
   public:
    static constexpr std::size_t kPlaces = 8;

    // The program's: a port, which is its own from then on; 0: there is none. Any thread.
    std::uint16_t take() {
        for (std::atomic<std::uint32_t>& place : places_)
            if (const std::uint32_t port = place.load(); port != 0 && clear(place, port))
                return static_cast<std::uint16_t>(port);
        return 0;
    }
    // The daemon's.
    void lend(std::size_t place, std::uint16_t port) { places_[place].store(port); }
    // False: it was taken.
    bool take_back(std::size_t place, std::uint16_t port) { return clear(places_[place], port); }

   private:
    static bool clear(std::atomic<std::uint32_t>& place, std::uint32_t port) {
        return place.compare_exchange_strong(port, 0);
    }
    std::array<std::atomic<std::uint32_t>, kPlaces> places_;  // 0: none
};

// Ids that the program has destroyed and that no event can come for meanwhile. The daemon looks whenever an
// id that has been left could matter to anybody.
class Departures {
   public:
    static constexpr std::uint32_t kMost = 512;  // at a time; a power of two

    // The program's. False: there is no room, so that it has to be told. One thread at a time.
    bool leave(cm::IdNumber id) {
        const std::uint32_t at = left_.load(std::memory_order_relaxed);
        if (at - heard_.load() >= kMost) return false;
        ids_[at % kMost].store(id, std::memory_order_relaxed);
        left_.store(at + 1);
        return true;
    }
    // The daemon's, which keeps for itself how many it has heard, modulo 2^32.
    std::optional<cm::IdNumber> hear(std::uint32_t& heard) {
        const std::uint32_t left = left_.load();
        if (left - heard > kMost) heard = left;  // nonsense
        if (left == heard) return {};
        const cm::IdNumber id = ids_[heard % kMost].load(std::memory_order_relaxed);
        heard_.store(++heard);
        return id;
    }

   private:
    std::atomic<std::uint32_t> left_, heard_;
    std::array<std::atomic<cm::IdNumber>, kMost> ids_;
};

struct ProgramPage {
    LentPorts ports;
    Departures departures;
};
static_assert(std::is_standard_layout_v<ProgramPage> && sizeof(ProgramPage) <= SharedPage::kSize);

}  // namespace verbena::host
