// The daemon's side of a listener's page (host/backlog.h).
#pragma once

#include <cstdint>
#include <utility>

#include "base/shared_page.h"
#include "cm/manager.h"
#include "host/backlog.h"

namespace verbena::daemon {

class SharedBacklog final : public cm::TakenRequests {
   public:
    explicit SharedBacklog(SharedPage page) : page_(std::move(page)), seen_(shared().taken.load()) {}

    std::uint32_t news() override {
        const std::uint32_t taken = shared().taken.load();
        return taken - std::exchange(seen_, taken);
    }
    void tell_each() override { shared().tell.store(1); }

   private:
    host::Backlog& shared() const { return page_.as<host::Backlog>(); }
    const SharedPage page_;
    std::uint32_t seen_;
};

}  // namespace verbena::daemon
