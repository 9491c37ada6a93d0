#include "daemon/program_pages.h"

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
        loans_[port] = {&to, place};
        to.shared().ports.lend(place, port);
    }
}

void ProgramPages::end_loan(Shared& to, std::size_t place) {
    const std::uint16_t port = std::exchange(to.ports[place], std::uint16_t{0});
    if (port == 0) return;
    loans_.erase(port);
    manager_.end_loan(to.holder(place), port);
}

bool ProgramPages::taken(SessionNumber session, std::uint16_t port) {
    const auto found = loans_.find(port);
    const auto sharing = shared_.find(session);
    if (found == loans_.end() || sharing == shared_.end() || found->second.to != &sharing->second)
        return false;
    end_loan(sharing->second, found->second.place);
    return true;
}

void ProgramPages::lend_more(SessionNumber session) {
    if (const auto found = shared_.find(session); found != shared_.end()) fill(found->second);
}

void ProgramPages::recall(std::uint16_t port) {
    const auto found = loans_.find(port);
    if (found == loans_.end()) return;
    const Loan loan = found->second;
    if (loan.to->shared().ports.take_back(loan.place, port)) end_loan(*loan.to, loan.place);
}

}  // namespace verbena::daemon
