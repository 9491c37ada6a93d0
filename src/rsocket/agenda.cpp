#include "rsocket/agenda.h"

#include <utility>

namespace verbena::rsocket {

void Agenda::queue(Entry& entry) {
    if (!std::exchange(entry.queued_, true)) queue_.splice(queue_.end(), entry.place_);
}

void Agenda::unqueue(Entry& entry) {
    if (std::exchange(entry.queued_, false)) entry.place_.splice(entry.place_.end(), queue_, entry.link_);
}

// Rung also where it rings already: a forked child may have silenced it.
void Agenda::put(Entry& entry) {
    std::lock_guard lock(mutex_);
    queue(entry);
    ringing_ = true;
    bell_.wake();
}

void Agenda::put_quietly(Entry& entry) {
    std::lock_guard lock(mutex_);
    queue(entry);
}

Agenda::Entry* Agenda::take() {
    std::lock_guard lock(mutex_);
    if (queue_.empty()) return nullptr;
    Entry* const first = queue_.front();
    unqueue(*first);
    return first;
}

std::size_t Agenda::size() const {
    std::lock_guard lock(mutex_);
    return queue_.size();
}

void Agenda::hush(bool heard) {
    std::lock_guard lock(mutex_);
    if (std::exchange(ringing_, false) || heard) bell_.drain();
}

void Agenda::ring() {
    std::lock_guard lock(mutex_);
    if (queue_.empty() || std::exchange(ringing_, true)) return;
    bell_.wake();
}

void Agenda::remove(Entry& entry) {
    std::lock_guard lock(mutex_);
    unqueue(entry);
}

}  // namespace verbena::rsocket
