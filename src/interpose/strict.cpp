#include "interpose/strict.h"

#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/no_cancellation.h"
#include "interpose/line.h"
#include "interpose/strict_place.h"
#include "interpose/strict_state.h"

namespace verbena::interpose {

using strict_mode::lock;
using strict_mode::state;

namespace {

struct Settings {
    bool on = false;
    const char* report = nullptr;  // a file that gets every mistake and what is left: for the command
};
constinit Settings settings;

// One write, so that lines of several processes do not mix.
void append(int fd, const std::string& text) {
    if (write(fd, text.data(), text.size()) < 0) return;
}

void report(const Line& line) {
    if (!settings.report) return;
    const int fd = open(settings.report, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return;
    append(fd, std::string(line.view()) + "\n");
    close(fd);
}

[[gnu::constructor]] void read_settings() {
    const char* on = std::getenv("VERBENA_STRICT");
    settings.on = on && std::strcmp(on, "1") == 0;
    const char* path = std::getenv("VERBENA_STRICT_REPORT");
    if (path && *path) settings.report = strdup(path);
    if (settings.on) {
        void* frame[1];
        backtrace(frame, 1);  // loads what it needs now, not inside of a call
    }
}

// What nobody has destroyed. Programs' own destructors have run.
[[gnu::destructor]] void tell_what_is_left() {
    if (!settings.on) return;
    Locked locked(lock);
    for (const Inventory::Left& left : state().inventory.left(getpid())) {
        Line line;
        line.take();
        line.open('{');
        line.key("k").text("left");
        line.key("pid").number(getpid());
        line.key("kind").text(left.kind);
        line.key("count").unsigned_number(left.count);
        show_place(line, left.place);
        line.close('}');
        report(line);
        line.give_back();
    }
}

// Kinds that a program has to destroy, and that librdmacm makes for it only where it asked for it.
bool is_counted(Kind kind, int depth) { return depth == 0 || kind == Kind::qp || kind == Kind::srq; }

}  // namespace

bool strict() { return settings.on; }

namespace strict_mode {

constinit ForkLock lock{ForkLock::Order::outer};

State& state() {
    static State& all = *new State;  // never destroyed
    return all;
}

State::State() : requests(tell) {}

std::string name_of(Kind kind, const void* object) {
    Line line;
    line.take();
    show_object(line, kind, object);
    std::string name(line.view());
    line.give_back();
    return name.size() > 2 && name[0] == '"' ? name.substr(1, name.size() - 2) : name;
}

void tell(const char* mistake, const void* about, const std::string& sentence) {
    if (!state().told.emplace(mistake, about).second) return;
    const NoCancellation no_cancellation;  // open(2) and write(2) are points of it, posts and polls are none
    const int before = errno;
    const Inventory::Place place = place_of_call();
    append(STDERR_FILENO, "verbena strict: " + sentence + where(place) + "\n");
    Line line;
    line.take();
    line.open('{');
    line.key("k").text("mistake");
    line.key("mistake").text(mistake);
    line.key("pid").number(getpid());
    line.key("text").text(sentence);
    show_place(line, place);
    line.close('}');
    report(line);
    line.give_back();
    errno = before;
}

namespace {

// Another object at this address is another object. The caller has the lock.
void forget(const void* object) {
    State& s = state();
    s.inventory.gone(object);
    s.events.forget(object);
    s.async_events.forget(object);
    s.requests.queue_pair_gone(object);
    s.requests.completion_queue_gone(object);
    s.requests.shared_queue_gone(object);
    s.all_signaled.erase(object);
    for (auto each = s.told.begin(); each != s.told.end();)
        each = each->second == object ? s.told.erase(each) : ++each;
}

Regions::Key key_of(const ibv_mr* region) { return {region->context, region->lkey}; }

Regions::Region elsewhere(const ibv_mr* region) {
    Regions::Region known;
    known.object = region;
    known.name = name_of(Kind::mr, region);
    return known;
}

Regions::Backing backing_of(int access) {
    return access & IBV_ACCESS_ON_DEMAND ? Regions::Backing::on_demand : Regions::Backing::memory;
}

}  // namespace

void made(Kind kind, const void* object, int depth) {
    if (!strict() || !object) return;
    const bool counts = is_counted(kind, depth == 0 && called_by_rdmacm() ? 1 : depth);
    const Inventory::Place place = counts ? place_of_call() : Inventory::Place{};
    Locked locked(lock);
    if (state().leaving.erase(object)) forget(object);  // the call that destroyed it has not returned yet
    if (!counts) return;
    state().inventory.made(object, kind_name(kind), place, getpid());
    if (kind == Kind::srq) state().requests.shared_queue_made(object, name_of(kind, object));
}

std::uint64_t leaves(const void* object) {
    if (!strict() || !object) return 0;
    Locked locked(lock);
    return state().leaving[object] = ++state().calls;
}

void left(const void* object, std::uint64_t ticket, bool success) {
    if (!strict() || !object) return;
    Locked locked(lock);
    auto& leaving = state().leaving;
    const auto found = leaving.find(object);
    if (found == leaving.end() || found->second != ticket) return;  // it is another's by now
    leaving.erase(found);
    if (success) forget(object);
}

void region_made(const ibv_mr* region, std::uint64_t iova, int access) {
    if (!strict() || !region) return;
    Locked locked(lock);
    state().requests.region_made(key_of(region), {region, name_of(Kind::mr, region), iova,
                                                  reinterpret_cast<std::uintptr_t>(region->addr),
                                                  region->length, backing_of(access), access});
}

void region_made_elsewhere(const ibv_mr* region) {
    if (!strict() || !region) return;
    Locked locked(lock);
    state().requests.region_made(key_of(region), elsewhere(region));
}

void region_imported(const ibv_mr* region) {
    if (!strict() || !region) return;
    Locked locked(lock);
    state().requests.region_imported(key_of(region), elsewhere(region));
}

std::uint64_t region_leaves(const ibv_mr* region, const char* how) {
    if (!strict() || !region) return 0;
    Locked locked(lock);
    return state().requests.region_leaves(key_of(region), how);
}

void region_left(std::uint64_t ticket, bool success) {
    if (!strict()) return;
    Locked locked(lock);
    state().requests.region_left(ticket, success);
}

void region_changed(std::uint64_t ticket, bool success, const ibv_mr* region, int flags, int access) {
    if (!strict()) return;
    Locked locked(lock);
    Regions::Region known = state().requests.region_left(ticket, success);
    if (!success) return;
    if (!known.object) known = elsewhere(region);
    if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
        known.access = access;
        if (known.backing != Regions::Backing::elsewhere) known.backing = backing_of(access);
    }
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        known.address = reinterpret_cast<std::uintptr_t>(region->addr);
        known.length = region->length;
        known.first = known.access & IBV_ACCESS_ZERO_BASED ? 0 : known.address;
    }
    state().requests.region_made(key_of(region), std::move(known));
}

void completion_queue_made(const ibv_cq* cq) {
    if (!strict() || !cq) return;
    Locked locked(lock);
    state().requests.completion_queue_made(cq, name_of(Kind::cq, cq), static_cast<std::uint32_t>(cq->cqe));
}

void queue_pair_made(const ibv_qp* qp, std::uint32_t max_send, bool signals_all) {
    if (!strict() || !qp) return;
    Locked locked(lock);
    if (signals_all) state().all_signaled.insert(qp);
    state().requests.queue_pair_made(
        qp, {name_of(Kind::qp, qp), qp->qp_num, max_send, qp->send_cq, qp->recv_cq, qp->srq});
}

void queue_pair_modified(const ibv_qp* qp, int to) {
    if (!strict()) return;
    Locked locked(lock);
    if (to == IBV_QPS_RTR || to == IBV_QPS_RTS || to == IBV_QPS_SQD || to == IBV_QPS_SQE)
        state().requests.queue_pair_works(qp);
    else
        state().requests.queue_pair_stopped(qp, to == IBV_QPS_RESET);
}

}  // namespace strict_mode
}  // namespace verbena::interpose
