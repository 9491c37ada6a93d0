// The daemon's side of the pages that programs share (host/program_page.h): which ports are lent to whom, and
// which ids were left.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/shared_page.h"
#include "cm/manager.h"
#include "daemon/files.h"
#include "host/program_page.h"

namespace verbena::daemon {

class ProgramPages {
   public:
    explicit ProgramPages(cm::Manager& manager) : manager_(manager) {}

    // 0 or an errno with a reason: it is no such page, or the program has one.
    int share(SessionNumber session, int fd);
    void ended(SessionNumber session);

    // The program says that it took that port: it is free for the id that it was taken for. False: it was not
    // lent to that program.
    bool taken(SessionNumber session, std::uint16_t port);
    // In place of what it took or what was recalled; once the id has its port, or that one might be lent
    // again.
    void lend_more(SessionNumber session);
    // Somebody else wants that port, or any: it is free, unless its program has just taken it.
    void recall(std::uint16_t port);
    void recall_all();

    // gone(session, id) for each id that the program has left since it was heard last.
    template <class Gone>
    void hear(SessionNumber session, Gone gone) {
        if (const auto found = shared_.find(session); found != shared_.end())
            hear(session, found->second, gone);
    }
    template <class Gone>
    void hear_all(Gone gone) {
        for (auto& [session, shared] : shared_) hear(session, shared, gone);
    }

   private:
    struct Shared {
        SharedPage page;
        cm::IdNumber first_holder = 0;
        std::array<std::uint16_t, host::LentPorts::kPlaces> ports{};  // 0: none
        std::uint32_t heard = 0;
        host::ProgramPage& shared() const { return page.as<host::ProgramPage>(); }
        cm::IdNumber holder(std::size_t place) const {
            return first_holder + static_cast<cm::IdNumber>(place);
        }
    };
    template <class Gone>
    static void hear(SessionNumber session, Shared& from, Gone& gone) {
        // What a program writes there costs the others no more than that.
        for (std::uint32_t i = 0; i < host::Departures::kMost; i++) {
            const auto id = from.shared().departures.hear(from.heard);
            if (!id) return;
            gone(session, *id);
        }
    }
    void fill(Shared& to);
    void take_back(Shared& from, std::size_t place);
    void end_loan(Shared& to, std::size_t place);

    cm::Manager& manager_;
    std::map<SessionNumber, Shared> shared_;
};

}  // namespace verbena::daemon
