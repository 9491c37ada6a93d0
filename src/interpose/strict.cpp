#include "interpose/strict.h"

#include <execinfo.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "interpose/fork_lock.h"
#include "interpose/happenings.h"
#include "interpose/next.h"
#include "interpose/strict_ledger.h"
#include "interpose/strict_place.h"
#include "interpose/strict_requests.h"
#include "interpose/words.h"

namespace verbena::interpose {
namespace {

constexpr int kAcknowledgeMs = 500;  // that other threads have, before a destroy is said to wait for ever

struct Settings {
    bool on = false;
    const char* report = nullptr;  // a file that gets every mistake and what is left: for the command
};
constinit Settings settings;
constinit ForkLock lock{ForkLock::Order::outer};

struct State {
    Requests requests;
    Unacknowledged events;
    std::map<const void*, std::vector<ibv_async_event>> async_events;  // likewise, by what they are about
    Inventory inventory;
    std::set<std::pair<std::string, const void*>> told;
    State();
};

State& state() {
    static State& all = *new State;  // never destroyed
    return all;
}

std::string name_of(Kind kind, const void* object) {
    Line line;
    line.take();
    show_object(line, kind, object);
    std::string name(line.view());
    line.give_back();
    return name.size() > 2 && name[0] == '"' ? name.substr(1, name.size() - 2) : name;
}

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

// The caller has the lock.
void tell(const char* mistake, const void* about, const std::string& sentence) {
    if (!state().told.emplace(mistake, about).second) return;
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

State::State() : requests(tell) {}

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

std::vector<StrictBuffer> buffers_of(const ibv_sge* list, std::size_t count) {
    std::vector<StrictBuffer> buffers;
    for (std::size_t i = 0; list && i < count; i++)
        buffers.push_back({list[i].addr, list[i].length, list[i].lkey});
    return buffers;
}

std::set<const void*>& all_signaled() {  // queue pairs with sq_sig_all
    static auto& all = *new std::set<const void*>;
    return all;
}

bool is_signaled(const ibv_qp* qp, unsigned flags) {
    return flags & IBV_SEND_SIGNALED || all_signaled().count(qp);
}

// What the adapter reads until the request completes.
bool reads_memory(int opcode, unsigned flags) {
    switch (opcode) {
        case IBV_WR_SEND:
        case IBV_WR_SEND_WITH_IMM:
        case IBV_WR_SEND_WITH_INV:
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            return !(flags & IBV_SEND_INLINE);
        default:
            return false;
    }
}

StrictSend strict_form(const ibv_qp* qp, const SendRequest& request) {
    return {request.wr_id, is_signaled(qp, request.flags),
            reads_memory(request.opcode, request.flags) && request.inline_length == 0,
            buffers_of(request.sges.data(), request.sges.size())};
}

bool pending(const void* object) {
    Locked locked(lock);
    return !state().events.of(object).empty();
}

bool async_pending(const void* object) {
    Locked locked(lock);
    return state().async_events.count(object) != 0;
}

// Another thread may be about to acknowledge: many programs tell one that destroys, and then acknowledge.
bool stays_pending(const void* object, bool (*is_pending)(const void*) = pending) {
    for (int waited = 0; is_pending(object); waited++) {
        if (waited >= kAcknowledgeMs) return true;
        const timespec step{0, 1'000'000};
        nanosleep(&step, nullptr);
    }
    return false;
}

// Kinds that a program has to destroy, and that librdmacm makes for it only where it asked for it.
bool is_counted(Kind kind, int depth) { return depth == 0 || kind == Kind::qp || kind == Kind::srq; }

}  // namespace

bool strict() { return settings.on; }

namespace strict_mode {

void made(Kind kind, const void* object, int depth) {
    if (!strict() || !object || !is_counted(kind, depth == 0 && called_by_rdmacm() ? 1 : depth)) return;
    const Inventory::Place place = place_of_call();
    Locked locked(lock);
    state().inventory.made(object, kind_name(kind), place, getpid());
    if (kind == Kind::srq) state().requests.shared_queue_made(object, name_of(kind, object));
}

void gone(Kind kind, const void* object) {
    if (!strict()) return;
    Locked locked(lock);
    State& s = state();
    s.inventory.gone(object);
    s.events.forget(object);
    if (kind == Kind::qp) {
        s.requests.queue_pair_gone(object);
        all_signaled().erase(object);
    }
    if (kind == Kind::cq) s.requests.completion_queue_gone(object);
    if (kind == Kind::srq) s.requests.shared_queue_gone(object);
    // Another object at this address is another object.
    for (auto each = s.told.begin(); each != s.told.end();)
        each = each->second == object ? s.told.erase(each) : ++each;
}

void region_made(const ibv_mr* region, std::uint64_t iova, int access) {
    if (!strict() || !region) return;
    Locked locked(lock);
    const bool readable = region->addr && !(access & IBV_ACCESS_ON_DEMAND);
    state().requests.region_made(
        region->lkey, {region, name_of(Kind::mr, region), iova,
                       readable ? static_cast<const char*>(region->addr) : nullptr, region->length});
}

void region_gone(const ibv_mr* region, const char* how) {
    if (!strict() || !region) return;
    Locked locked(lock);
    state().requests.region_gone(region->lkey, how);
}

void completion_queue_made(const ibv_cq* cq) {
    if (!strict() || !cq) return;
    Locked locked(lock);
    state().requests.completion_queue_made(cq, name_of(Kind::cq, cq), static_cast<std::uint32_t>(cq->cqe));
}

void queue_pair_made(const ibv_qp* qp, std::uint32_t max_send, bool signals_all) {
    if (!strict() || !qp) return;
    Locked locked(lock);
    if (signals_all) all_signaled().insert(qp);
    state().requests.queue_pair_made(
        qp, {name_of(Kind::qp, qp), qp->qp_num, max_send, qp->send_cq, qp->recv_cq, qp->srq});
}

void queue_pair_modified(const ibv_qp* qp, int to) {
    if (!strict()) return;
    Locked locked(lock);
    if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
        state().requests.queue_pair_stopped(qp, to == IBV_QPS_RESET);
    else
        state().requests.queue_pair_works(qp);
}

void post_send(const ibv_qp* qp, const std::vector<SendRequest>& requests) {
    if (!strict()) return;
    Locked locked(lock);
    std::vector<StrictSend> all;
    all.reserve(requests.size());
    for (const SendRequest& request : requests) all.push_back(strict_form(qp, request));
    state().requests.post_send(qp, all);
}

void post_send(const ibv_qp* qp, const ibv_send_wr* list) {
    if (!strict()) return;
    std::vector<SendRequest> requests;
    for (; list; list = list->next) requests.push_back(request_of(*list));
    post_send(qp, requests);
}

void refused_send(const ibv_qp* qp, std::size_t count) {
    if (!strict()) return;
    Locked locked(lock);
    state().requests.undo_send(qp, count);
}

void refused_send(const ibv_qp* qp, const ibv_send_wr* from) {
    std::size_t count = 0;
    for (; from; from = from->next) count++;
    refused_send(qp, count);
}

void post_receive(const void* queue, const ibv_recv_wr* list) {
    if (!strict()) return;
    std::vector<StrictReceive> all;
    for (; list; list = list->next)
        all.push_back({list->wr_id, buffers_of(list->sg_list, static_cast<std::size_t>(
                                                                  list->num_sge > 0 ? list->num_sge : 0))});
    Locked locked(lock);
    state().requests.post_receive(queue, all);
}

void refused_receive(const void* queue, const ibv_recv_wr* from) {
    if (!strict()) return;
    std::size_t count = 0;
    for (; from; from = from->next) count++;
    Locked locked(lock);
    state().requests.undo_receive(queue, count);
}

void completed(const ibv_cq* cq, std::uint32_t qp_number, std::uint64_t wr_id, bool success, bool receive) {
    if (!strict()) return;
    Locked locked(lock);
    state().requests.completed(cq, qp_number, wr_id, success, receive);
}

void completed(const ibv_cq* cq, const ibv_wc& wc) {
    completed(cq, wc.qp_num, wc.wr_id, wc.status == IBV_WC_SUCCESS, wc.opcode & IBV_WC_RECV);
}

void poison(ibv_wc& wc) {
    constexpr std::uint32_t kPoison = 0xdeadbeef;
    if (!strict()) return;
    if (wc.status != IBV_WC_SUCCESS) {  // then only wr_id, status, qp_num and vendor_err are defined
        std::memcpy(&wc.opcode, &kPoison, sizeof wc.opcode);
        wc.byte_len = kPoison;
        wc.imm_data = kPoison;
        wc.src_qp = kPoison;
        wc.wc_flags = kPoison;
        wc.pkey_index = wc.slid = 0xdead;
        wc.sl = wc.dlid_path_bits = 0xde;
        return;
    }
    const bool receive = wc.opcode & IBV_WC_RECV;
    if (!(wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))) wc.imm_data = kPoison;
    if (wc.opcode == IBV_WC_SEND || wc.opcode == IBV_WC_RDMA_WRITE) wc.byte_len = kPoison;
    if (!receive) {  // of datagrams received only
        wc.src_qp = kPoison;
        wc.slid = 0xdead;
        wc.sl = wc.dlid_path_bits = 0xde;
    }
}

void completion_event_fetched(const ibv_cq* cq) {
    if (!strict()) return;
    Locked locked(lock);
    state().events.fetched(cq, nullptr, "ibv_get_cq_event");
}

void completion_events_acknowledged(const ibv_cq* cq, unsigned count) {
    if (!strict()) return;
    Locked locked(lock);
    state().events.acknowledged(cq, count);
}

void cm_event_fetched(const rdma_cm_event* event) {
    if (!strict()) return;
    const char* name = cm_event_name(event->event);
    Locked locked(lock);
    // A new id of a connection request belongs to nobody yet; its listener waits, too.
    state().events.fetched(
        event->listen_id && event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id,
        event, name ? name : "an event");
}

bool cm_event_acknowledged(const rdma_cm_event* event) {
    if (!strict()) return true;
    Locked locked(lock);
    return state().events.acknowledged(event);
}

void destroys(ibv_cq* cq) {
    if (!strict() || !stays_pending(cq)) return;
    unsigned count = 0;
    {
        Locked locked(lock);
        count = static_cast<unsigned>(state().events.of(cq).size());
        const std::string name = name_of(Kind::cq, cq);
        tell("unacknowledged", cq,
             "ibv_destroy_cq(" + name + ") would wait for ever: " + std::to_string(count) +
                 " of its events that ibv_get_cq_event gave were not acknowledged by ibv_ack_cq_events(); "
                 "they are now");
        state().events.give_up(cq);
    }
    if (void* found = definition(Library::verbs, "ibv_ack_cq_events"))
        reinterpret_cast<void (*)(ibv_cq*, unsigned)>(found)(cq, count);
}

void destroys(rdma_cm_id* id) {
    if (!strict() || !stays_pending(id)) return;
    std::vector<Unacknowledged::Event> events;
    {
        Locked locked(lock);
        events = state().events.of(id);
        std::string names;
        for (const auto& event : events) names += (names.empty() ? "" : ", ") + event.name;
        tell("unacknowledged", id,
             "rdma_destroy_id(" + name_of(Kind::id, id) +
                 ") would wait for ever: not acknowledged by rdma_ack_cm_event(): " + names +
                 "; they are now");
        state().events.give_up(id);
    }
    if (void* found = definition(Library::cm, "rdma_ack_cm_event"))
        for (const auto& event : events)
            reinterpret_cast<int (*)(rdma_cm_event*)>(found)(
                const_cast<rdma_cm_event*>(static_cast<const rdma_cm_event*>(event.event)));
}

void async_event_fetched(const ibv_async_event& event) {
    const void* object = object_of(event);
    if (!strict() || !object) return;
    Locked locked(lock);
    state().async_events[object].push_back(event);
}

void async_event_acknowledged(const ibv_async_event& event) {
    const void* object = object_of(event);
    if (!strict() || !object) return;
    Locked locked(lock);
    auto& all = state().async_events;
    const auto found = all.find(object);
    if (found == all.end()) return;
    std::vector<ibv_async_event>& events = found->second;
    const auto same = std::find_if(events.begin(), events.end(), [&](const ibv_async_event& each) {
        return each.event_type == event.event_type;
    });
    if (same != events.end()) events.erase(same);
    if (events.empty()) all.erase(found);
}

void destroys(Kind kind, const void* object) {
    if (!strict() || !object || !stays_pending(object, async_pending)) return;
    std::vector<ibv_async_event> events;
    {
        Locked locked(lock);
        events = std::move(state().async_events[object]);
        state().async_events.erase(object);
        std::string names;
        for (const auto& event : events)
            names.append(names.empty() ? "" : ", ").append(async_event_name(event.event_type));
        const std::string name = name_of(kind, object);
        tell("unacknowledged", object,
             "destroying " + name + " would wait for ever: not acknowledged by ibv_ack_async_event(): " +
                 names + "; they are now");
    }
    if (void* found = definition(Library::verbs, "ibv_ack_async_event"))
        for (ibv_async_event& event : events) reinterpret_cast<void (*)(ibv_async_event*)>(found)(&event);
}

}  // namespace strict_mode
}  // namespace verbena::interpose
