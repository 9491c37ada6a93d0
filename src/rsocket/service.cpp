#include "rsocket/service.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "base/no_signals.h"
#include "base/own_file.h"
#include "base/own_pid.h"
#include "base/reason.h"
#include "base/signal_event.h"
#include "base/stay_loaded.h"
#include "rdmacm/channel.h"
#include "rdmacm/process.h"
#include "rsocket/epoll_marks.h"
#include "rsocket/sleeper.h"
#include "verbs/private.h"

namespace verbena::rsocket {

namespace {

int no_descriptors(int error) { return fail(error, "no descriptors for rsockets: %s", std::strerror(error)); }

int listen_to(int epoll, int fd) {
    const int error = add_to(epoll, fd);
    return error ? no_descriptors(error) : 0;
}

}  // namespace

// Never destroyed: the thread works until the process ends. A forked child starts its own.
Service* Service::get() {
    static std::atomic<Service*> current{nullptr};
    static std::atomic<pid_t> owner{0};
    static std::mutex starting;
    if (owner.load(std::memory_order_acquire) == own_pid()) return current.load(std::memory_order_acquire);
    std::lock_guard lock(starting);
    if (owner.load() == own_pid()) return current.load();
    auto service = std::unique_ptr<Service>(new Service);
    if (int error = service->start()) {
        service.reset();
        errno = error;
        return nullptr;
    }
    current.store(service.release(), std::memory_order_release);
    owner.store(own_pid(), std::memory_order_release);
    return current.load();
}

// Of one that could not start.
Service::~Service() {
    if (kick_fd_ >= 0) ::close(kick_fd_);
    if (epoll_fd_ >= 0) ::close(epoll_fd_);
    if (!channels_.empty()) rdma_destroy_event_channel(channels_.back());
}

int Service::start() {
    epoll_fd_ = out_of_the_way(epoll_create1(EPOLL_CLOEXEC));
    if (epoll_fd_ < 0) return no_descriptors(errno);
    kick_fd_ = out_of_the_way(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (kick_fd_ < 0) return no_descriptors(errno);
    if (int error = listen_to(epoll_fd_, kick_fd_)) return error;
    if (!open_channel()) return errno;
    stay_loaded([] {});
    const NoSignals none;
    pthread_t thread;
    const int error = pthread_create(&thread, nullptr, run, this);
    if (error) return fail(error, "starting the thread for rsockets: %s", std::strerror(error));
    pthread_setname_np(thread, "rsockets");
    pthread_detach(thread);
    return 0;
}

void* Service::run(void* service) {
    verbena_own_thread();
    static_cast<Service*>(service)->loop();
    return nullptr;
}

void Service::kick() const { signal_event(kick_fd_); }

rdma_event_channel* Service::open_channel() {
    {
        std::lock_guard lock(mutex_);
        channels_.reserve(channels_.size() + 1);
    }
    rdma_event_channel* const channel = rdma_create_event_channel();
    if (!channel) return nullptr;
    // At a disconnect a stream takes in by itself what came before. Whoever has polled its queue before may
    // be closing it, and wait for this thread.
    if (auto known = rdmacm::find_channel(channel)) known->reader_polls = true;
    fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    {
        std::lock_guard lock(mutex_);
        channels_.push_back(channel);
    }
    const int error = listen_to(epoll_fd_, channel->fd);
    if (!error) return channel;
    {
        std::lock_guard lock(mutex_);
        std::erase(channels_, channel);
    }
    rdma_destroy_event_channel(channel);
    errno = error;
    return nullptr;
}

// A channel ends with its daemon, and the next daemon knows nothing of it. nullptr, with errno, if that has
// happened and there is no other.
rdma_event_channel* Service::living_channel() {
    std::lock_guard one(opening_);
    rdma_event_channel* last;
    {
        std::lock_guard lock(mutex_);
        last = channels_.back();
    }
    pollfd end{last->fd, 0, 0};
    const bool over = poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0;
    return over ? open_channel() : last;
}

rdma_event_channel* Service::channel_of(int fd) const {
    const auto found = std::ranges::find(channels_, fd, &rdma_event_channel::fd);
    return found == channels_.end() ? nullptr : *found;
}

rdma_cm_id* Service::create_id(const std::shared_ptr<ServiceClient>& client, rdma_port_space space) {
    rdma_cm_id* id = nullptr;
    rdma_event_channel* const channel = living_channel();
    if (!channel || rdma_create_id(channel, &id, nullptr, space) != 0) return nullptr;
    try {
        adopt(id, client);
    } catch (const std::bad_alloc&) {
        rdma_destroy_id(id);
        throw;
    }
    return id;
}

void Service::adopt(rdma_cm_id* id, const std::shared_ptr<ServiceClient>& client) {
    std::lock_guard lock(mutex_);
    ids_[id] = client;
}

void Service::destroy_id(rdma_cm_id* id) {
    {
        std::lock_guard lock(mutex_);
        ids_.erase(id);
    }
    rdma_destroy_id(id);
}

int Service::watch(int fd, const std::shared_ptr<ServiceClient>& client) {
    std::lock_guard lock(mutex_);
    descriptors_[fd] = client;
    epoll_event event{EPOLLIN, {}};
    event.data.fd = fd;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0) return 0;
    const int error = errno;
    descriptors_.erase(fd);
    return fail(error, "watching descriptor %d: %s", fd, std::strerror(error));
}

void Service::unwatch(int fd) {
    std::lock_guard lock(mutex_);
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
    descriptors_.erase(fd);
}

void Service::wake_at(const std::shared_ptr<ServiceClient>& client, Time when) {
    {
        std::lock_guard lock(mutex_);
        if (when == kNever)
            timers_.erase(client.get());
        else
            timers_[client.get()] = {client, when};
    }
    kick();
}

// Acknowledged before it is handled: whoever handles it may destroy the id.
void Service::read_events(rdma_event_channel* channel) {
    for (;;) {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(channel, &event) != 0) {
            if (errno != EIO) return;
            // Without its daemon the channel stays readable for ever and never brings anything.
            epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, channel->fd, nullptr);
            return;
        }
        CmEvent copy;
        copy.type = event->event;
        copy.status = event->status;
        copy.id = event->id;
        copy.parameters = event->param.conn;
        if (const void* data = event->param.conn.private_data) {
            std::memcpy(copy.data.data(), data, event->param.conn.private_data_len);
            copy.parameters.private_data = copy.data.data();
        }
        std::shared_ptr<ServiceClient> client;
        {
            std::lock_guard lock(mutex_);
            const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
            auto found = ids_.find(request ? event->listen_id : event->id);
            if (found != ids_.end()) client = found->second.lock();
        }
        rdma_ack_cm_event(event);
        if (client)
            client->cm_event(copy);
        else if (copy.type == RDMA_CM_EVENT_CONNECT_REQUEST)
            rdma_destroy_id(copy.id);
    }
}

Time Service::run_timers() {
    const Time time = now();
    std::vector<std::shared_ptr<ServiceClient>> due;
    Time next = kNever;
    {
        std::lock_guard lock(mutex_);
        for (auto i = timers_.begin(); i != timers_.end();) {
            if (i->second.when > time) {
                next = std::min(next, i->second.when);
                ++i;
                continue;
            }
            if (auto client = i->second.client.lock()) due.push_back(std::move(client));
            i = timers_.erase(i);
        }
    }
    for (auto& client : due) {
        const Time again = client->timer(time);
        if (again == kNever) continue;
        std::lock_guard lock(mutex_);
        timers_.try_emplace(client.get(), Timer{client, again});
        next = std::min(next, again);
    }
    return next;
}

void Service::loop() {
    for (;;) {
        try {
            turn();
        } catch (const std::bad_alloc&) {  // what it was about is still to be read, or asked for again
            log(LogLevel::error, "no memory for what rsockets do in the background");
            poll(nullptr, 0, 1);
        }
    }
}

void Service::turn() {
    const Time next = run_timers();
    int timeout = -1;
    if (next != kNever)
        timeout = static_cast<int>(
            std::clamp<Time>((next - now() + kMillisecond - 1) / kMillisecond, 0, 3'600'000));
    epoll_event events[16];
    const int count = epoll_wait(epoll_fd_, events, 16, timeout);
    for (int i = 0; i < count; i++) {
        const int fd = events[i].data.fd;
        if (fd == kick_fd_) {
            std::uint64_t ignored;
            [[maybe_unused]] auto size = read(kick_fd_, &ignored, sizeof ignored);
            continue;
        }
        std::shared_ptr<ServiceClient> client;
        rdma_event_channel* channel = nullptr;
        {
            std::lock_guard lock(mutex_);
            auto found = descriptors_.find(fd);
            if (found != descriptors_.end())
                client = found->second.lock();
            else
                channel = channel_of(fd);
        }
        if (client) client->descriptor_ready();
        if (channel) read_events(channel);
    }
}

}  // namespace verbena::rsocket
