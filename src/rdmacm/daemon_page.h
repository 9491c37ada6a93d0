// The page that this process shares with the daemon (host/program_page.h), from the second time that somebody
// wants it: who makes one connection would gain nothing.
//
// Thread safety: all calls.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <mutex>

#include "host/program_page.h"
#include "rdmacm/daemon_call.h"

namespace verbena::rdmacm {

class DaemonPage {
   public:
    // A port that the daemon has lent, for whoever says so to the daemon of that generation
    // (host::generation()); 0: there is none.
    std::uint16_t take_port(std::uint32_t generation) {
        std::lock_guard lock(mutex_);
        return has(generation) ? page().ports.take() : std::uint16_t{0};
    }
    // Of an id that its program has destroyed, and for which no event can come. False: it has to be told.
    bool leave(std::uint32_t generation, cm::IdNumber id) {
        std::lock_guard lock(mutex_);
        return has(generation) && page().departures.leave(id);
    }

   private:
    host::ProgramPage& page() const { return page_.as<host::ProgramPage>(); }

    bool has(std::uint32_t generation) {
        if (generation_ != generation) {
            page_ = {};
            wanted_ = 0;
            generation_ = generation;
        }
        if (wanted_ < 2 && ++wanted_ == 2) share();
        return bool(page_);
    }

    void share() {
        int fd = -1;
        SharedPage fresh = SharedPage::make("verbena-page", fd);
        host::Empty nothing;
        if (fd >= 0 && host::call(host::Command::share_page, nothing, nothing, fd) == 0)
            page_ = std::move(fresh);
        if (fd >= 0) close(fd);
    }

    std::mutex mutex_;
    SharedPage page_;
    std::uint32_t generation_ = 0;
    unsigned wanted_ = 0;  // times, until there is one
};

}  // namespace verbena::rdmacm
