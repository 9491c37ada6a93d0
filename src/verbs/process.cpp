#include "verbs/process.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <random>
#include <string_view>

#include "adapter/clock.h"
#include "adapter/memory_access.h"
#include "base/failures.h"
#include "base/features.h"
#include "base/heavy_barrier.h"
#include "base/memcheck.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/own_file.h"
#include "base/own_pid.h"
#include "base/reason.h"
#include "base/sealed_file.h"
#include "faults/program.h"
#include "host/client.h"
#include "host/port.h"
#include "link/local_link.h"
#include "link/socket_options.h"
#include "verbs/limits.h"
#include "verbs/mapping.h"
#include "verbs/objects.h"
#include "verbs/planned_faults.h"
#include "verbs/queries.h"
#include "verbs/standstill_look.h"

namespace verbena::verbs {
namespace {

std::mutex current_lock;
std::atomic<Process*> current{nullptr};
std::atomic<const host::DeviceTable*> device_table{nullptr};  // of the daemon talked to last
std::atomic<void (*)(std::uint32_t)> daemon_ended{nullptr};   // whom to tell

// nullptr with errno and a reason.
std::unique_ptr<adapter::Segment> make_segment() {
    const adapter::Segment::Sizes sizes{
        .regions = kMaxRegions, .queue_pairs = kMaxQps, .objects = 2 * kMaxCqs};
    if (features().memfd) {
        auto shared = adapter::Segment::create_shared(sizes, adapter::now());
        if (shared || !forbids_memory_files(errno)) return shared;
    }
    return adapter::Segment::create_on_heap(sizes);
}

// Peers of this host are reached by memory, but with VERBENA_LINK=wire. A capture needs packets, and so does
// memcheck, which does not see what others write.
bool wants_local_link() {
    const char* setting = std::getenv("VERBENA_LINK");
    const std::string_view link = setting ? setting : "";
    if (!link.empty() && link != "wire" && link != "local")
        log(LogLevel::warn, "VERBENA_LINK is '%s'; it may be 'wire' or 'local'", setting);
    const char* capture = secure_getenv("VERBENA_CAPTURE");
    return link != "wire" && features().local && !(capture && *capture) && !memcheck::watches();
}

// VERBENA_KEYS=either: a region's lkey serves as its rkey, too, and the other way round.
bool takes_either_key() {
    const char* setting = std::getenv("VERBENA_KEYS");
    const std::string_view keys = setting ? setting : "";
    if (!keys.empty() && keys != "strict" && keys != "either")
        log(LogLevel::warn, "VERBENA_KEYS is '%s'; it may be 'strict' or 'either'", setting);
    return keys == "either";
}

// Of a program that ends, by exit() or from main(), without having destroyed its queue pairs.
[[gnu::destructor]] void program_ends() {
    Process* process = current.load();
    if (process && process->usable()) process->engine().farewell();
}

constexpr Duration kMeetingTime = 20 * kMillisecond;

// Asked by threads that move packets, so without a call to the daemon.
std::uint32_t device_of(const Gid& address) {
    const host::DeviceTable* known = device_table.load(std::memory_order_acquire);
    std::uint32_t index;
    return known && host::find_address(*known, address, index) ? index : adapter::kNoDevice;
}

bool is_local(const Gid& address) { return device_of(address) != adapter::kNoDevice; }

PortView port_view(Context& context) {
    host::Device device;
    if (!find_device(context, device)) return {};
    return {true, device.active != 0 && !faults::link_is_down(), device.gid_generation,
            host::port_of(device).speed};
}

void tell(Context& context, const PortView& now) {
    events_between(context.seen, now, [&context](ibv_event_type type) {
        AsyncEvent event{};
        event.event.event_type = type;
        event.event.element.port_num = 1;
        context.async_events.push(event);
    });
}

// IBA 11.6.3.2, local catastrophic error: nothing of the context works any more.
void end_queue_pairs(Context& context, adapter::Adapter& adapter, const char* why) {
    std::lock_guard objects(context.objects_lock);
    transport::Attributes error;
    error.state = transport::QpState::error;
    for (QueuePair* qp : context.queue_pairs) {
        record_failure(FailedPart::queue_pair, qp->base()->qp_num, 0, "%s", why);
        adapter.modify(*qp->qp, error, transport::kAttrState, adapter::now());
    }
}

}  // namespace

Process* Process::open() {
    NoCancellation no_cancellation;
    std::lock_guard lock(current_lock);
    Process* process = current;
    if (process && process->usable()) {
        if (process->pid_ != own_pid())
            after_fork_in_child();  // by a bare clone(2), for which no handler has run
        else if (process->generation_ != host::generation())
            process->daemon_died();  // the next one is there; the helper need not have seen the old one's end
        else
            return process;
    }
    static bool told = false;
    if (!told && pthread_atfork(nullptr, nullptr, after_fork_in_child) != 0)
        return fail_null(ENOMEM, "no memory for what is to be done in a child made by fork()");
    told = true;
    auto fresh = std::unique_ptr<Process>(new Process);
    if (int error = fresh->start()) {
        fresh.reset();
        errno = error;
        return nullptr;
    }
    // The one before is dead, but objects of the program may still point to it.
    return current = fresh.release();
}

Process* Process::current_one() { return current.load(); }

Process::Process() : pid_(own_pid()) {}
Process::~Process() = default;

int Process::start() {
    allow_heavy_barriers();
    segment_ = make_segment();
    if (!segment_) return errno;
    read_plan();
    objects_ = std::make_unique<adapter::ObjectTable>(segment_->objects());
    if (int error = open_queue()) return error;
    generation_ = host::generation();
    device_table.store(host::devices(), std::memory_order_release);
    look_at_captures(is_local);
    return 0;
}

const host::DeviceTable* Process::devices() const {
    const host::DeviceTable* known = usable() ? device_table.load(std::memory_order_acquire) : nullptr;
    return known ? known : host::devices();
}

int Process::open_queue() {
    host::OpenQueueRequest request{static_cast<std::uint32_t>(getpid())};
    host::OpenQueueReply reply;
    int fd = -1;
    int error = host::call(host::Command::open_queue, request, reply, segment_->fd(), &fd);
    Descriptor socket(fd);
    if (error && !reply.qp_numbers) return error;
    if (!error && !socket) return fail(EPROTO, "the daemon sent no socket for queue %u", reply.queue);
    if (!error) error = unless_out_of_memory([&] { return use_queue(reply, socket); });
    if (error) {  // its socket may have found no room here
        host::Empty nothing;
        host::call(host::Command::close_queue, host::QueueNumber{reply.queue}, nothing);
        return errno = error;
    }
    return 0;
}

// All or nothing: from the link's having the socket on, all goes without memory.
int Process::use_queue(const host::OpenQueueReply& reply, Descriptor& socket) {
    if (!link_) {
        if (int error = make_adapter(reply)) return error;
    } else if (host::generation() != generation_) {
        return refuse();  // it is another daemon's, whose numbers begin anew: those may be taken here
    }
    adapter_->make_room_for_numbers(reply.first_qp_number, reply.qp_numbers);
    if (int error = link_->add_queue(socket.get(), reply.queue)) return error;
    socket.release();
    if (local_)  // or others reach it by the wire
        unless_out_of_memory([&] { return local_->peers().add_block(reply.queue); });
    adapter_->add_numbers(reply.first_qp_number, reply.qp_numbers);
    return 0;
}

int Process::make_adapter(const host::OpenQueueReply& reply) {
    link_ = link::UdpLink::create(
        {.gso = features().gso, .port = reply.udp_port, .fabric = reply.stray_fabric.data()});
    if (!link_) return errno;
    if (segment_->fd() >= 0 && wants_local_link()) start_local(reply.stray_fabric.data());
    link::Link& link = local_ ? static_cast<link::Link&>(*local_) : *link_;
    std::random_device random;
    adapter_ = std::make_unique<adapter::Adapter>(
        adapter::Adapter::Setup{.link = &link,
                                .segment = segment_.get(),
                                .random_seed = random(),
                                .gathers = features().gather && features().inline_progress,
                                .direct = memory_access_.get(),
                                .outsiders = local_ ? &local_->peers() : nullptr,
                                .local = local_.get(),
                                .device_of = device_of});
    adapter_->regions().set_probe(probe);
    if (takes_either_key()) adapter_->regions().take_either_key();
    engine_ = std::make_unique<adapter::Engine>(*adapter_, link);
    const int lifeline = host::lifeline_fd();
    engine_->watch(
        lifeline, [this, lifeline] { return lifeline_ready(lifeline); }, [this] { files_closed(); });
    if (log_enabled(LogLevel::warn)) tell_of_standstill(*this);
    return 0;
}

transport::QueuePair* Process::create_qp(const transport::QpSetup& setup) {
    std::lock_guard lock(queues_lock_);
    const Time now = adapter::now();
    if (!adapter_->has_numbers(now))
        if (int error = open_queue()) {
            errno = error;
            return nullptr;
        }
    return adapter_->create_qp(setup, now);
}

void Process::start_local(const char* fabric) {
    local_ = link::LocalLink::create(
        *link_, {.fabric = fabric,
                 .segment_fd = segment_->fd(),
                 .segment_address = reinterpret_cast<std::uintptr_t>(&segment_->header()),
                 .nonce = segment_->header().nonce[0],
                 .open_memory = [](pid_t pid, int fd, std::uint64_t address) {
                     return adapter::ForeignMemory::open(pid, fd, address);
                 }});
    if (local_) memory_access_ = std::make_unique<adapter::MemoryAccess>(local_->peers());
}

void Process::meet(const Gid& destination, std::uint32_t qp_number) {
    if (!local_) return;
    link::LocalPeers& peers = local_->peers();
    const Time deadline = adapter::now() + kMeetingTime;
    using Met = link::LocalPeers::Met;
    for (Met met = peers.meet(destination, qp_number); met == Met::asked; met = peers.how_met(qp_number)) {
        const Time now = adapter::now();
        if (now >= deadline) return peers.stop_waiting_for(qp_number);
        pollfd waiting{local_->wait_fd(), POLLIN, 0};
        poll(&waiting, 1, 1);
        local_->look_everywhere();
        adapter_->progress(now, false);
    }
}

int Process::refuse() const {
    if (forked())
        return fail(EIO, "this object was made before fork(); the child has to open the device itself");
    if (state_ == State::files_closed)
        return fail(EIO,
                    "the program has closed descriptors of this device that it did not open (closefrom(3)?); "
                    "close the device and open it again");
    return fail(EIO, "verbenad has died, and with it this device; close it and open it again");
}

adapter::ObjectRecord* Process::show(const Context& owner, adapter::ObjectTable::Object object) {
    object.device = owner.device->index;
    object.context = owner.record ? owner.record->number : 0;
    return show(object);
}

bool Process::add(Context* context) {
    std::lock_guard lock(contexts_lock_);
    context->seen = port_view(*context);
    if (!context->seen.present) return false;
    contexts_.insert(context);
    device_opened();
    return true;
}

void Process::remove(Context* context) {
    std::lock_guard lock(contexts_lock_);
    contexts_.erase(context);
}

// Called by the helper thread.
bool Process::lifeline_ready(int lifeline) {
    if (host::take_news(lifeline)) {
        look_at_devices();
        look_at_plan();
        look_at_captures(is_local);
        return true;
    }
    daemon_died();
    return false;
}

void Process::look_at_devices() {
    std::lock_guard lock(contexts_lock_);
    for (Context* context : contexts_) {
        const PortView now = port_view(*context);
        if (now == context->seen || !context->seen.present) continue;
        if (!now.present) {
            context->failed = true;
            end_queue_pairs(*context, *adapter_, "its device is gone");
        }
        tell(*context, now);
        context->seen = now;
    }
}

void Process::when_daemon_ends(void (*ended)(std::uint32_t generation)) { daemon_ended.store(ended); }

// By the helper, or by who has met the next daemon before it.
void Process::daemon_died() {
    if (!engine_->files_are_ours()) return files_closed();
    State alive = State::alive;
    if (!state_.compare_exchange_strong(alive, State::daemon_died)) return;
    log(LogLevel::error, "verbenad has died: every device of this process reports a fatal error");
    if (const auto ended = daemon_ended.load()) ended(generation_);
    end_contexts("verbenad has died");
    link_->close_queues();  // so that a new daemon finds the port free
}

// None of the numbers may be used any more, not even to close it: other files of the program may have them.
void Process::files_closed() {
    State alive = State::alive;
    if (!state_.compare_exchange_strong(alive, State::files_closed)) return;
    FilesAge::program_closed_them();
    log(LogLevel::error,
        "the program has closed descriptors that it did not open (closefrom(3)?), and with them every device "
        "of this process");
    end_contexts("the program has closed its descriptors");
}

void Process::end_contexts(const char* why) {
    std::lock_guard lock(contexts_lock_);
    for (Context* context : contexts_) {
        end_queue_pairs(*context, *adapter_, why);
        if (context->seen.present) tell(*context, {});
        context->seen = {};
    }
}

void Process::after_fork_in_child() {
    Process* process = current;
    if (!process) return;
    process->state_ = State::forked;
    failures_forked();
    adapter::Engine::forked();
    if (!process->engine_->files_are_ours()) return;
    if (process->local_) process->local_->peers().abandon();
    if (process->link_) process->link_->abandon();
}

bool is_usable(const Context& context) {
    if (!context.process->usable()) {
        context.process->refuse();
        return false;
    }
    if (!context.failed) return true;
    fail(EIO, "the device is gone, or has failed; close it and open it again");
    return false;
}

}  // namespace verbena::verbs
