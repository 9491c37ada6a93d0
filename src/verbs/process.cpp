#include "verbs/process.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "adapter/clock.h"
#include "base/features.h"
#include "base/reason.h"
#include "host/client.h"
#include "link/socket_options.h"
#include "verbs/limits.h"
#include "verbs/objects.h"

namespace verbena::verbs {
namespace {

std::mutex current_lock;
std::atomic<Process*> current{nullptr};

adapter::Segment::Sizes segment_sizes() {
    return {.regions = kMaxRegions, .queue_pairs = kMaxQps, .completion_queues = kMaxCqs};
}

}  // namespace

Process* Process::open() {
    std::lock_guard lock(current_lock);
    Process* process = current;
    if (process && process->usable()) return process;
    std::unique_ptr<Process> fresh(new (std::nothrow) Process);
    if (!fresh) return fail_null(ENOMEM, "no memory");
    if (int error = fresh->start()) {
        errno = error;
        return nullptr;
    }
    static const int kRegistered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    static_cast<void>(kRegistered);
    // The one before is dead, but objects of the program may still point to it.
    return current = fresh.release();
}

Process* Process::current_one() { return current.load(); }

Process::~Process() = default;

int Process::start() {
    segment_ = features().memfd ? adapter::Segment::create_shared(segment_sizes(), adapter::now())
                                : adapter::Segment::create_on_heap(segment_sizes());
    if (!segment_) return errno;
    return open_queue();
}

int Process::open_queue() {
    host::OpenQueueRequest request{static_cast<std::uint32_t>(getpid())};
    host::OpenQueueReply reply;
    int socket = -1;
    if (int error = host::call(host::Command::open_queue, request, reply, segment_->fd(), &socket))
        return error;
    if (socket < 0) return fail(EPROTO, "the daemon sent no socket for queue %u", reply.queue);
    if (!link_) {
        link_ = link::UdpLink::create(
            {.gso = features().gso, .port = reply.udp_port, .fabric = reply.stray_fabric.data()});
        if (!link_) {
            close(socket);
            return errno;
        }
        std::random_device random;
        adapter_ = std::make_unique<adapter::Adapter>(
            adapter::Adapter::Setup{.link = link_.get(),
                                    .segment = segment_.get(),
                                    .first_qp_number = reply.first_qp_number,
                                    .qp_numbers = reply.qp_numbers,
                                    .random_seed = random()});
        engine_ = std::make_unique<adapter::Engine>(*adapter_, *link_);
        engine_->watch(host::lifeline_fd(), [this] { daemon_died(); });
    } else {
        adapter_->add_numbers(reply.first_qp_number, reply.qp_numbers);
    }
    if (int error = link_->add_queue(socket, reply.queue)) {
        close(socket);
        return error;
    }
    return 0;
}

int Process::refuse() const {
    if (forked())
        return fail(EIO, "this object was made before fork(); the child has to open the device itself");
    return fail(EIO, "verbenad has died, and with it this device; close it and open it again");
}

void Process::add(Context* context) {
    std::lock_guard lock(contexts_lock_);
    contexts_.insert(context);
}

void Process::remove(Context* context) {
    std::lock_guard lock(contexts_lock_);
    contexts_.erase(context);
}

// Called by the helper thread: the device is gone for good (IBA 11.6.3.2 local catastrophic error).
void Process::daemon_died() {
    State alive = State::alive;
    if (!state_.compare_exchange_strong(alive, State::daemon_died)) return;
    log(LogLevel::error, "verbenad has died: every device of this process reports a fatal error");
    std::lock_guard lock(contexts_lock_);
    for (Context* context : contexts_) {
        {
            std::lock_guard objects(context->objects_lock);
            transport::Attributes error;
            error.state = transport::QpState::error;
            for (QueuePair* qp : context->queue_pairs)
                adapter_->modify(*qp->qp, error, transport::kAttrState, adapter::now());
        }
        AsyncEvent event{};
        event.event.event_type = IBV_EVENT_DEVICE_FATAL;
        context->async_events.push(event);
    }
    link_->close_queues();  // so that a new daemon finds the port free
}

void Process::after_fork_in_child() {
    if (Process* process = current) process->state_ = State::forked;
}

}  // namespace verbena::verbs
