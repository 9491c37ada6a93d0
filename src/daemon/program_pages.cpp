#include "daemon/program_pages.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/reason.h"

namespace verbena::daemon {

int ProgramPages::share(SessionNumber session, int fd) {
    if (shared_.contains(session)) return fail(EEXIST, "the process shares a page already");
    Shared fresh;
    if (int error = SharedPage::open(fd, fresh.page)) return error;
    fresh.first_holder = manager_.reserve_ids(host::LentPorts::kPlaces);
    fill(shared_.emplace(session, std::move(fresh)).first->second);
    return 0;
}

void ProgramPages::ended(SessionNumber session) {
    const auto found = shared_.find(session);
    if (found == shared_.end()) return;
    for (std::size_t place = 0; place < host::LentPorts::kPlaces; place++) end_loan(found->second, place);
    shared_.erase(found);
}

// As far as there are ports to spare.
void ProgramPages::fill(Shared& to) {
    for (std::size_t place = 0; place < host::LentPorts::kPlaces; place++) {
        std::uint16_t& port = to.ports[place];
        if (port != 0) continue;
        if (manager_.lend_port(to.holder(place), port) != 0) return;
        to.shared().ports.lend(place, port);
    }
}

void ProgramPages::end_loan(Shared& to, std::size_t place) {
    if (const std::uint16_t port = std::exchange(to.ports[place], std::uint16_t{0}); port != 0)
        manager_.end_loan(to.holder(place), port);
}

bool ProgramPages::taken(SessionNumber session, std::uint16_t port) {
    const auto found = shared_.find(session);
    if (found == shared_.end()) return false;
    const auto& ports = found->second.ports;
    const auto lent = std::find(ports.begin(), ports.end(), port);
    if (lent == ports.end()) return false;
    end_loan(found->second, static_cast<std::size_t>(lent - ports.begin()));
    return true;
}

void ProgramPages::lend_more(SessionNumber session) {
    if (const auto found = shared_.find(session); found != shared_.end()) fill(found->second);
}

void ProgramPages::take_back(Shared& from, std::size_t place) {
    if (from.shared().ports.take_back(place, from.ports[place])) end_loan(from, place);
}

void ProgramPages::recall(std::uint16_t port) {
    for (auto& [session, shared] : shared_)
        for (std::size_t place = 0; place < host::LentPorts::kPlaces; place++)
            if (shared.ports[place] == port) return take_back(shared, place);
}

void ProgramPages::recall_all() {
    for (auto& [session, shared] : shared_)
        for (std::size_t place = 0; place < host::LentPorts::kPlaces; place++)
            if (shared.ports[place] != 0) take_back(shared, place);
}

}  // namespace verbena::daemon
