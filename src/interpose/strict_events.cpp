// Events that were not acknowledged when their object is destroyed, which waits for it.
//
// Nobody knows whether another thread is about to acknowledge, however late; so a program of several threads
// has time, and what is acknowledged in its place it may acknowledge later.

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/no_cancellation.h"
#include "base/thread_state.h"
#include "interpose/happenings.h"
#include "interpose/next.h"
#include "interpose/strict.h"
#include "interpose/strict_state.h"
#include "interpose/words.h"

namespace verbena::interpose::strict_mode {
namespace {

constexpr int kAcknowledgeMs = 10'000;  // that other threads have
constexpr int kLookMs = 50;             // between looks whether there are any

// Verbena's own threads acknowledge nothing: the adapter's and the rsockets'.
bool is_helper(pid_t thread) {
    char path[64], name[16] = {};
    std::snprintf(path, sizeof path, "/proc/self/task/%d/comm", static_cast<int>(thread));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t size = read(fd, name, sizeof name);
    close(fd);
    const std::string_view found(name, size > 0 ? static_cast<std::size_t>(size) : 0);
    return found == "verbena\n" || found == "rsockets\n";
}

bool has_other_threads() {
    const std::vector<pid_t> threads = threads_of_process();
    return threads.empty() ||  // nobody knows
           std::any_of(threads.begin(), threads.end(),
                       [](pid_t each) { return each != gettid() && !is_helper(each); });
}

bool pending(const Unacknowledged& events, const void* object) {
    Locked locked(lock);
    return !events.of(object).empty();
}

// How a destroy would go that other threads do not save; empty if they do.
std::string waits(const Unacknowledged& events, const void* object) {
    const NoCancellation no_cancellation;  // nanosleep(2) and what looks for threads are points of it
    for (int waited = 0; pending(events, object); waited++) {
        if (waited % kLookMs == 0 && !has_other_threads()) return "would wait for ever";
        if (waited >= kAcknowledgeMs) return "has waited " + std::to_string(kAcknowledgeMs / 1000) + " s";
        const timespec step{0, 1'000'000};
        nanosleep(&step, nullptr);
    }
    return {};
}

using Events = std::vector<Unacknowledged::Event>;

std::string names_of(const Events& events) {
    std::string names;
    for (const auto& event : events) names.append(names.empty() ? "" : ", ").append(event.name);
    return names;
}

// Ends a destroy's wait, if nobody else does: tells sentence(how it would go, what was not acknowledged), and
// returns what is to be acknowledged in the program's place.
template <class Sentence>
Events end_wait(Unacknowledged State::*ledger, const void* object, Sentence sentence) {
    if (!strict() || !object) return {};
    const std::string how = waits(state().*ledger, object);
    if (how.empty()) return {};
    Locked locked(lock);
    Events events = (state().*ledger).give_up(object);
    if (!events.empty()) tell("unacknowledged", object, sentence(how, events));  // else just now
    return events;
}

// A function of the library behind ours.
template <class... Arguments>
void call(Library library, const char* name, Arguments... arguments) {
    if (void* found = definition(library, name))
        reinterpret_cast<void (*)(Arguments...)>(found)(arguments...);
}

}  // namespace

void completion_event_fetched(const ibv_cq* cq) {
    if (!strict()) return;
    Locked locked(lock);
    state().events.fetched(cq, {nullptr, "ibv_get_cq_event"});
}

bool completion_events_acknowledged(ibv_cq* cq, unsigned count) {
    if (!strict()) return true;
    unsigned new_ones = 0;
    {
        Locked locked(lock);
        new_ones = state().events.acknowledged(cq, count);
    }
    if (new_ones == count) return true;
    if (new_ones > 0) call(Library::verbs, "ibv_ack_cq_events", cq, new_ones);
    return false;
}

void cm_event_fetched(const rdma_cm_event* event) {
    if (!strict()) return;
    const char* name = cm_event_name(event->event);
    Locked locked(lock);
    // A new id of a connection request belongs to nobody yet; its listener waits, too.
    state().events.fetched(
        event->listen_id && event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id,
        {event, name ? name : "an event"});
}

bool cm_event_acknowledged(const rdma_cm_event* event) {
    if (!strict()) return true;
    Locked locked(lock);
    return state().events.acknowledged(event);
}

void async_event_fetched(const ibv_async_event& event) {
    const void* object = object_of(event);
    if (!strict() || !object) return;
    Locked locked(lock);
    state().async_events.fetched(object, {nullptr, async_event_name(event.event_type), event.event_type});
    if (event.event_type == IBV_EVENT_QP_FATAL || event.event_type == IBV_EVENT_QP_REQ_ERR ||
        event.event_type == IBV_EVENT_QP_ACCESS_ERR)
        state().requests.queue_pair_stopped(object, false);
}

bool async_event_acknowledged(const ibv_async_event& event) {
    const void* object = object_of(event);
    if (!strict() || !object) return true;
    Locked locked(lock);
    return state().async_events.acknowledged(object, 1, event.event_type) == 1;
}

void destroys(ibv_cq* cq) {
    const auto events = end_wait(&State::events, cq, [&](const std::string& how, const Events& all) {
        return "ibv_destroy_cq(" + name_of(Kind::cq, cq) + ") " + how + ": " + std::to_string(all.size()) +
               " of its events that ibv_get_cq_event gave were not acknowledged by ibv_ack_cq_events(); "
               "they are now";
    });
    if (!events.empty()) call(Library::verbs, "ibv_ack_cq_events", cq, static_cast<unsigned>(events.size()));
}

void destroys(rdma_cm_id* id) {
    const auto events = end_wait(&State::events, id, [&](const std::string& how, const Events& all) {
        return "rdma_destroy_id(" + name_of(Kind::id, id) + ") " + how +
               ": not acknowledged by rdma_ack_cm_event(): " + names_of(all) + "; they are now";
    });
    for (const auto& event : events) call(Library::cm, "rdma_ack_cm_event", const_cast<void*>(event.event));
}

void destroys(Kind kind, const void* object) {
    const auto events =
        end_wait(&State::async_events, object, [&](const std::string& how, const Events& all) {
            return "destroying " + name_of(kind, object) + " " + how +
                   ": not acknowledged by ibv_ack_async_event(): " + names_of(all) + "; they are now";
        });
    for (const auto& each : events) {
        ibv_async_event event{};
        event.event_type = static_cast<ibv_event_type>(each.type);
        event.element.qp = static_cast<ibv_qp*>(const_cast<void*>(object));  // or whatever else it is
        call(Library::verbs, "ibv_ack_async_event", &event);
    }
}

}  // namespace verbena::interpose::strict_mode
