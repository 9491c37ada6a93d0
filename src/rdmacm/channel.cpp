// rdma_create_event_channel, rdma_destroy_event_channel, and reading a channel's socket (see channel.h for
// how events leave the middle of it).
#include "rdmacm/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/call_fault.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/own_file.h"
#include "base/reason.h"
#include "host/client.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/id.h"
#include "rdmacm/lent_ends.h"
#include "rdmacm/process.h"
#include "verbs/private.h"

namespace verbena::rdmacm {
namespace {

bool is_token(const cm::Event& event) { return event.id == 0; }

// The id that an event counts for: the listener, for a connection request.
cm::IdNumber owner_number(const cm::Event& event) {
    return event.type == cm::EventType::connect_request ? event.listen_id : event.id;
}

bool any_device() {
    const host::DeviceTable* table = host::devices();
    if (!table) return false;
    // A slot's one byte needs no consistent copy of the rest.
    for (const host::Device& device : table->devices)
        if (device.present) return true;
    fail(ENODEV, "no network interface is up and has an address, so there is no RDMA device");
    return false;
}

// Each makes the descriptor readable once. If the daemon is gone they are not needed: the end of the socket
// is readable for ever.
bool send_tokens(const Channel& channel, std::size_t count, std::uint64_t mark = 0) {
    if (channel.generation != host::generation()) return false;
    host::RequeueRequest request;
    request.file = channel.file;
    request.event.type = cm::EventType::internal;
    request.event.argument = mark;
    for (; count > 0; count -= request.count) {
        request.count = static_cast<std::uint32_t>(std::min<std::size_t>(count, host::kMostRequeued));
        if (ask(host::Command::requeue, request) != 0) return false;
    }
    return true;
}

// Reads a datagram into the one event of `next`, for which there is room before it leaves the socket.
ssize_t receive(const Channel& channel, std::list<cm::Event>& next) {
    if (next.empty()) next.emplace_back();
    return recv(channel.fd, &next.front(), sizeof next.front(), MSG_DONTWAIT);
}

// Moves everything that waits, in the socket and behind it in the daemon, to `held`: the daemon sends in
// order, so all of it is here when a marked token comes back.
void drain(Channel& channel) {
    std::uint64_t mark = ++channel.last_mark;
    bool marked = send_tokens(channel, 1, mark);
    for (std::list<cm::Event> next;;) {
        const ssize_t length = receive(channel, next);
        if (length < 0 && errno == EAGAIN && marked) {
            pollfd readable{channel.fd, POLLIN, 0};
            poll(&readable, 1, -1);
            continue;
        }
        if (length != ssize_t{sizeof next.front()}) return;
        if (!is_token(next.front()))
            channel.held.splice(channel.held.end(), next);
        else if (marked && next.front().argument == mark)
            return;
    }
}

// `count` events leave the queue, and so must as many datagrams: each that belongs brings its own along, and
// for one out of `held` the next is read, whatever it is. So the socket is read no further than the last that
// belongs, and tokens are sent only for what came before it. Where there is no memory, the rest stays in the
// socket, and is passed over if its id is gone by then.
template <class Belongs>
std::list<cm::Event> extract(Channel& channel, std::uint64_t count, Belongs belongs) {
    const NoCancellation whole;
    std::list<cm::Event> taken;
    auto take_held = [&] {
        for (auto at = channel.held.begin(); at != channel.held.end() && taken.size() < count;) {
            const auto next = std::next(at);
            if (belongs(*at)) taken.splice(taken.end(), channel.held, at);
            at = next;
        }
    };
    take_held();
    std::size_t surplus = taken.size(), lacking = 0;  // datagrams without an event, events without a datagram
    const auto read_rest = [&] {
        for (std::list<cm::Event> next; surplus > 0 || taken.size() < count;) {
            if (receive(channel, next) != ssize_t{sizeof next.front()}) {
                // The rest is still in the daemon; or another thread has read it, and found its id destroyed.
                drain(channel);
                take_held();
                lacking = channel.held.size();
                break;
            }
            const bool is_event = !is_token(next.front());
            if (is_event && taken.size() < count && belongs(next.front())) {
                taken.splice(taken.end(), next);
                continue;
            }
            if (is_event) channel.held.splice(channel.held.end(), next);
            surplus > 0 ? surplus-- : lacking++;
        }
        return 0;
    };
    unless_out_of_memory(read_rest);
    send_tokens(channel, lacking);
    return taken;
}

// The live id that an event belongs to, now counted as having delivered it; nullptr if it was destroyed
// meanwhile. The handle is the id's address (or 0, for a child that was never accepted), trusted only if the
// number agrees.
std::shared_ptr<Id> count_event(const cm::Event& event) {
    Process& self = process();
    std::lock_guard lock(self.mutex);
    auto count = [](const std::shared_ptr<Id>& id) {
        std::lock_guard counters(id->mutex);
        id->taken++;
        return id;
    };
    auto found = self.ids.find(id_of_handle(event.user_handle));
    if (found != self.ids.end() && found->second->number == owner_number(event)) return count(found->second);
    for (const auto& [pointer, id] : self.ids)
        if (id->number == owner_number(event)) return count(id);
    return nullptr;
}

// The daemon is gone, and all devices with it: each id of the channel is told once.
bool next_removal(const Channel& channel, cm::Event& event, std::shared_ptr<Id>& owner) {
    Process& self = process();
    std::lock_guard lock(self.mutex);
    for (const auto& [pointer, id] : self.ids) {
        if (id->home.get() != &channel || id->removal_told) continue;
        std::lock_guard counters(id->mutex);
        id->removal_told = true;
        id->taken++;
        event = {};
        event.type = cm::EventType::device_removal;
        event.id = id->number;
        owner = id;
        return true;
    }
    return false;
}

enum class Read { event, nothing, failed };

// One attempt, without blocking. The caller holds channel.mutex.
Read read_event(Channel& channel, cm::Event& event, std::shared_ptr<Id>& owner) {
    for (;;) {
        if (channel.closed) {
            errno = EBADF;
            return Read::failed;
        }
        std::list<cm::Event> last;  // behind those that are held
        if (!channel.held.empty()) last.emplace_back();
        cm::Event& read = last.empty() ? event : last.front();
        const ssize_t length = recv(channel.fd, &read, sizeof read, MSG_DONTWAIT);
        const bool gone = length == 0 || (length < 0 && errno == ECONNRESET);
        if (length < 0 && !gone) return errno == EAGAIN ? Read::nothing : Read::failed;
        bool came = length == ssize_t{sizeof read} && !is_token(read);
        if (!channel.held.empty()) {
            if (came) channel.held.splice(channel.held.end(), last);
            event = channel.held.front();
            channel.held.pop_front();
            came = true;
        }
        if (came) {
            owner = count_event(event);
            if (owner) return Read::event;
        } else if (gone) {
            if (next_removal(channel, event, owner)) return Read::event;
            fail(EIO, "verbenad has ended; all ids of this event channel are dead");
            return Read::failed;
        }
    }
}

}  // namespace

Channel::~Channel() {
    if (fd >= 0) close(fd);
}

std::shared_ptr<Channel> open_channel() {
    if (!any_device()) return nullptr;
    auto channel = std::make_shared<Channel>();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return fail_null(errno, "no socket pair for an event channel: %s", std::strerror(errno));
    channel->fd = beside_standard_files(ends[0]);
    host::FileReply reply;
    int error = host::call(host::Command::create_file, host::Empty{}, reply, ends[1]);
    close(ends[1]);  // the daemon's copy must be the only one, or its death would not end the socket
    if (error) {
        errno = error;
        return nullptr;
    }
    channel->file = reply.file;
    channel->generation = host::generation();
    Process& self = process();
    std::lock_guard lock(self.mutex);
    self.channels.emplace(channel.get(), channel);
    return channel;
}

void close_channel(const std::shared_ptr<Channel>& channel) {
    {
        Process& self = process();
        std::lock_guard lock(self.mutex);
        if (self.channels.erase(channel.get()) == 0) return;
        channel->destroyer = gettid();
        channel->blocking = !(fcntl(channel->fd, F_GETFL) & O_NONBLOCK);
        self.destroyed[self.channels_destroyed++ % self.destroyed.size()] = channel;
    }
    {
        std::lock_guard lock(channel->mutex);
        channel->closed = true;
        channel->held.clear();
        process().lent_ends->give_back(*channel);
    }
    if (channel->generation == host::generation())
        ask(host::Command::close_file, host::FileRequest{channel->file});
    close(channel->fd);
    channel->fd = -1;
}

void late_reader(const rdma_event_channel* channel) {
    {
        Process& self = process();
        std::lock_guard lock(self.mutex);
        auto found = std::find_if(self.destroyed.begin(), self.destroyed.end(),
                                  [channel](const auto& known) { return known.get() == channel; });
        if (found == self.destroyed.end() || !(*found)->blocking || (*found)->destroyer == gettid()) return;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLateReader));
}

int next_event(Channel& channel, cm::Event& event, std::shared_ptr<Id>& owner,
               std::optional<NoCancellation>& whole) {
    for (bool told = false;;) {
        verbena_step_aside();
        const bool puts_off = !std::exchange(told, false) && host::has_put_off();
        // Blocks, or not, as the program set the descriptor up; takes nothing. (Who waits may wait for long.)
        char byte;
        const int descriptor = channel.closed ? -1 : channel.fd;
        const int flags = puts_off ? MSG_PEEK | MSG_DONTWAIT : MSG_PEEK;
        if (recv(descriptor, &byte, sizeof byte, flags) < 0 && errno != ECONNRESET) {
            if (errno == EAGAIN && puts_off) {
                host::tell_put_off();
                told = true;  // if there is memory for it
                continue;
            }
            if (channel.closed || errno == EAGAIN) return errno;  // who does not wait asks often
            return fail(errno, "%s", std::strerror(errno));
        }
        whole.emplace();
        std::unique_lock lock(channel.mutex);
        if (channel.closed) {
            // Destroyed under a waiting reader. A kernel's reader sleeps on until the process ends, and
            // programs (rping's server among them) take any return for an error of theirs.
            lock.unlock();
            whole.reset();
            pause();
            return EINTR;
        }
        switch (read_event(channel, event, owner)) {
            case Read::event:
                return 0;
            case Read::failed:
                return errno;
            case Read::nothing:  // another thread was quicker
                break;
        }
        lock.unlock();
        whole.reset();
    }
}

std::list<cm::Event> extract_events(Channel& channel, cm::IdNumber id, std::uint64_t count) {
    return extract(channel, count, [id](const cm::Event& event) { return owner_number(event) == id; });
}

std::list<cm::Event> extract_join_events(Channel& channel, cm::IdNumber id, std::uint64_t join,
                                         std::uint64_t count) {
    return extract(channel, count, [id, join](const cm::Event& event) {
        return event.id == id && event.argument == join &&
               (event.type == cm::EventType::multicast_join || event.type == cm::EventType::multicast_error);
    });
}

void append_events(Channel& channel, std::list<cm::Event> events) {
    const std::size_t count = events.size();
    channel.held.splice(channel.held.end(), events);
    send_tokens(channel, count);
}

}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
    if (const Fault fault{"rdma_create_event_channel"}) return fault.null();
    Call call("rdma_create_event_channel");
    return unless_out_of_memory([] { return open_channel().get(); });
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
    Call call("rdma_destroy_event_channel");
    if (auto known = find_channel(channel)) close_channel(known);
}
}
