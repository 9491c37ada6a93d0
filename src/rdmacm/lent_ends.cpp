#include "rdmacm/lent_ends.h"

#include <sys/socket.h>

#include <new>

namespace verbena::rdmacm {

void LentEnds::End::shut() const {
    if (is_ours()) shutdown(fd, SHUT_WR);
}

LentEnds::~LentEnds() {
    for (const auto& [channel, end] : ends_)
        if (end.is_ours()) close(end.fd);
}

bool LentEnds::has(const Channel& channel) const {
    std::lock_guard lock(mutex_);
    return ends_.contains(&channel);
}

bool LentEnds::keep(const Channel& channel, std::uint32_t generation, int fd) {
    const int high = out_of_the_way(fd);
    const End end{generation, high, FileIdentity::of(high)};
    std::lock_guard lock(mutex_);
    try {
        const auto [place, added] = ends_.try_emplace(&channel, end);
        if (!added) close(end.fd);  // another thread was faster
        if (generation <= last_ended_) place->second.shut();
        return true;
    } catch (const std::bad_alloc&) {
        close(end.fd);
        return false;
    }
}

void LentEnds::give_back(const Channel& channel) {
    std::lock_guard lock(mutex_);
    const auto found = ends_.find(&channel);
    if (found == ends_.end()) return;
    if (found->second.is_ours()) close(found->second.fd);
    ends_.erase(found);
}

bool LentEnds::write(const Channel& channel, const cm::Event& event) {
    std::lock_guard lock(mutex_);
    const auto found = ends_.find(&channel);
    return found != ends_.end() && found->second.is_ours() &&
           send(found->second.fd, &event, sizeof event, MSG_DONTWAIT | MSG_NOSIGNAL) == ssize_t{sizeof event};
}

void LentEnds::daemon_ended(std::uint32_t generation) {
    std::lock_guard lock(mutex_);
    last_ended_ = generation;
    for (const auto& [channel, end] : ends_)
        if (end.generation <= generation) end.shut();
}

}  // namespace verbena::rdmacm
