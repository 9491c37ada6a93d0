#include "link/udp_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/descriptor.h"
#include "base/own_file.h"
#include "base/own_socket.h"
#include "base/reason.h"
#include "base/thread_number.h"
#include "link/socket_options.h"
#include "link/steering.h"

namespace verbena::link {
namespace {

bool probe_segmentation() {
    int fd = own_socket(AF_INET, SOCK_DGRAM);
    if (fd < 0) return false;
    const bool known = kernel_has_segmentation(fd);
    close(fd);
    return known;
}

}  // namespace

std::unique_ptr<UdpLink> UdpLink::create(const Setup& setup) {
    Descriptor wait_fd(out_of_the_way(epoll_create1(EPOLL_CLOEXEC)));
    if (!wait_fd) return fail_null(errno, "epoll_create1: %s", std::strerror(errno));
    std::unique_ptr<UdpLink> link(new UdpLink(setup, wait_fd.get()));
    wait_fd.release();  // to the link
    return link;
}

UdpLink::UdpLink(const Setup& setup, int wait_fd)
    : setup_(setup),
      wait_fd_(wait_fd),
      policy_(setup.gso && probe_segmentation()),
      reader_(setup.port, whole_),
      groups_(setup.port) {
    if (!setup_.fabric.empty()) stray_sender_ = std::make_unique<StraySender>(setup_.fabric, setup_.strays);
    own_sink_ = std::make_unique<BurstBuilder>(sources_, policy_, whole_, setup_.port);
    if (!builder_of(sinks_[0])) throw std::bad_alloc();
}

UdpLink::~UdpLink() {
    for (Sink& sink : sinks_) delete sink.builder.load(std::memory_order_relaxed);
    for (unsigned i = 0; i < queue_count_.load(std::memory_order_relaxed); i++) close(queues_[i].fd);
    close(wait_fd_);
}

bool UdpLink::watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return epoll_ctl(wait_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

int UdpLink::add_queue(int fd, std::uint32_t block) {
    const unsigned count = queue_count_.load(std::memory_order_relaxed);
    if (count == kMaxQueues)
        return fail(
            ENOMEM,
            "a process has at most %u queue pair numbers, of which one whose queue pair was connected "
            "rests for some seconds before it is used again",
            kMaxQueues * kBlockSize);
    std::unique_ptr<StrayInbox> inbox;
    if (!setup_.fabric.empty()) {
        inbox = StrayInbox::open(setup_.fabric, block, setup_.strays);
        if (!inbox)  // strays are lost, then, as packets are
            log(LogLevel::warn, "block %u gets no packets that went astray: %s", block, last_reason());
        else if (!watch(inbox->wait_fd()))
            return fail(errno, "epoll_ctl: %s", std::strerror(errno));
    }
    if (!watch(fd)) return fail(errno, "epoll_ctl: %s", std::strerror(errno));
    queues_[count] = {fd, std::move(inbox)};
    queue_count_.store(count + 1, std::memory_order_release);
    return 0;
}

// A thread may be reading from the sockets: the descriptors stay, but lead to a socket that receives nothing.
void UdpLink::close_queues() {
    const int nothing = own_socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK);
    for (unsigned i = 0; i < queue_count_.load(std::memory_order_acquire); i++) {
        epoll_ctl(wait_fd_, EPOLL_CTL_DEL, queues_[i].fd, nullptr);
        if (nothing >= 0) dup3(nothing, queues_[i].fd, O_CLOEXEC);
    }
    if (nothing >= 0) groups_.silence(nothing);
    if (nothing >= 0) close(nothing);
}

void UdpLink::abandon() {
    for (unsigned i = 0; i < queue_count_.load(std::memory_order_acquire); i++)
        if (queues_[i].inbox) queues_[i].inbox->abandon();
    if (stray_sender_) stray_sender_->abandon();
}

unsigned UdpLink::receive(Receiver& receiver, unsigned max) {
    const unsigned count = queue_count_.load(std::memory_order_acquire);
    // Strays are rare and late anyway: looking for them at each call would double an empty poll's cost. Where
    // they are not rare (no steering), it pays after one was found.
    const bool look_for_strays = ++receive_calls_ % kInboxEvery == 0 || calls_with_strays_ > 0;
    if (calls_with_strays_ > 0) calls_with_strays_--;
    unsigned received = 0;
    for (unsigned i = 0; i < count && received < max; i++) {
        received += reader_.read(queues_[i].fd, receiver, max - received);
        if (!look_for_strays || !queues_[i].inbox) continue;
        const unsigned strays = queues_[i].inbox->receive(receiver, max);
        if (strays > 0) calls_with_strays_ = kInboxLook;
        received += strays;
    }
    if (received < max) received += groups_.receive(reader_, receiver, max - received);
    return received;
}

std::size_t UdpLink::receive_capacity() const {
    const unsigned count = queue_count_.load(std::memory_order_acquire);
    std::size_t smallest = count == 0 ? 0 : SIZE_MAX;
    for (unsigned i = 0; i < count; i++) smallest = std::min(smallest, receive_buffer(queues_[i].fd));
    return smallest;
}

void UdpLink::send(const wire::OutPacket& packet) { own_sink_->send(packet); }
void UdpLink::flush() { own_sink_->flush(); }

// nullptr: there is no memory for one.
BurstBuilder* UdpLink::builder_of(Sink& sink) {
    if (BurstBuilder* const known = sink.builder.load(std::memory_order_relaxed)) return known;
    auto* const fresh = new (std::nothrow) BurstBuilder(sources_, policy_, whole_, setup_.port);
    if (fresh) sink.builder.store(fresh, std::memory_order_release);
    return fresh;
}

// There is at least one.
wire::PacketSink& UdpLink::borrow_sink() {
    for (unsigned i = number_of_this_thread();; i++) {
        Sink& sink = sinks_[i % kSinks];
        if (!sink.busy.load(std::memory_order_relaxed) &&
            !sink.busy.exchange(true, std::memory_order_acquire)) {
            if (BurstBuilder* const builder = builder_of(sink)) return *builder;
            sink.busy.store(false, std::memory_order_release);
        }
        if (i % kSinks == kSinks - 1) sched_yield();  // more threads send than there are sinks
    }
}

void UdpLink::return_sink(wire::PacketSink& sink) {
    for (Sink& each : sinks_)
        if (each.builder.load(std::memory_order_acquire) == &sink) {
            each.busy.store(false, std::memory_order_release);
            return;
        }
}

void UdpLink::stray(const Datagram& datagram, std::uint32_t destination_qp) {
    const bool sent = stray_sender_ && stray_sender_->send(datagram, block_of(destination_qp));
    (sent ? strays_forwarded_ : strays_lost_).fetch_add(1, std::memory_order_relaxed);
}

void UdpLink::avoid_bursts(const Gid& destination) { policy_.avoid(destination); }

int UdpLink::join_multicast(const Gid& group, std::uint32_t interface_index) {
    const bool first = groups_.wait_fd() < 0;
    if (int error = groups_.join(group, interface_index)) return error;
    if (first && !watch(groups_.wait_fd())) return fail(errno, "epoll_ctl: %s", std::strerror(errno));
    return 0;
}

int UdpLink::leave_multicast(const Gid& group, std::uint32_t interface_index) {
    return groups_.leave(group, interface_index);
}

UdpCounters UdpLink::counters() const {
    UdpCounters total{};
    auto add = [&total](const BurstBuilder* builder) {
        if (!builder) return;
        total.packets_sent += builder->counters().packets.load(std::memory_order_relaxed);
        total.bursts_sent += builder->counters().bursts.load(std::memory_order_relaxed);
        total.bursts_refused += builder->counters().refused.load(std::memory_order_relaxed);
        total.packets_lost += builder->counters().lost.load(std::memory_order_relaxed);
    };
    add(own_sink_.get());
    for (const Sink& sink : sinks_) add(sink.builder.load(std::memory_order_acquire));
    for (unsigned i = 0; i < queue_count_.load(std::memory_order_acquire); i++)
        if (queues_[i].inbox) total.strays_refused += queues_[i].inbox->refused();
    total.strays_forwarded = strays_forwarded_.load(std::memory_order_relaxed);
    total.strays_lost = strays_lost_.load(std::memory_order_relaxed);
    total.truncated = reader_.truncated();
    return total;
}

}  // namespace verbena::link
