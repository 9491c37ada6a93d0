#include "link/local_link.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/descriptor.h"
#include "base/heavy_barrier.h"
#include "base/own_file.h"
#include "base/reason.h"
#include "base/uncancelled.h"
#include "link/hooks.h"
#include "link/local_reference.h"
#include "link/local_row.h"
#include "link/local_sink.h"
#include "wire/bth.h"
#include "wire/opcode.h"

namespace verbena::link {
namespace {

bool watch(int wait_fd, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return epoll_ctl(wait_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

constexpr unsigned kPadBits = 3u << wire::kBthPadShift;  // of the BTH's second byte

}  // namespace

std::unique_ptr<LocalLink> LocalLink::create(Link& wire, const LocalPeers::Setup& setup) {
    Descriptor wait_fd(out_of_the_way(epoll_create1(EPOLL_CLOEXEC)));
    Descriptor event_fd(out_of_the_way(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
    if (!wait_fd || !event_fd || !watch(wait_fd.get(), event_fd.get()) ||
        !watch(wait_fd.get(), wire.wait_fd()))
        return fail_null(errno, "no descriptor for the local link: %s", std::strerror(errno));
    std::unique_ptr<LocalLink> link(new LocalLink(wire, setup, wait_fd.get(), event_fd.get()));
    wait_fd.release();  // to the link, as the other
    event_fd.release();
    return link;
}

LocalLink::LocalLink(Link& wire, const LocalPeers::Setup& setup, int wait_fd, int event_fd)
    : wire_(wire),
      wait_fd_(wait_fd),
      event_fd_(event_fd),
      peers_(setup, event_fd, wait_fd),
      own_sink_(std::make_unique<Sink>(*this)),
      row_(std::make_unique<Row>(*this)) {
    for (auto& sink : sinks_) sink = std::make_unique<Sink>(*this);
}

LocalLink::~LocalLink() {
    close(event_fd_);
    close(wait_fd_);
}

// A message of several packets, of which we copy this one. Who copies the next one meanwhile
// (transport/rc_halves.cpp) waits for the answer to what was before.
bool LocalLink::begins_large(LocalRing::Form form, const Datagram& datagram) {
    const auto opcode = static_cast<wire::Opcode>(datagram.bytes[0]);
    return form == LocalRing::Form::reference &&
           (opcode == wire::Opcode::rc_write_first || opcode == wire::Opcode::rc_send_first ||
            opcode == wire::Opcode::rc_read_request);
}

[[gnu::always_inline]] inline unsigned LocalLink::receive_from(LocalPeer& peer, Receiver& receiver,
                                                               unsigned max, std::size_t& fetched) {
    // See LocalRing::settle().
    static_assert(4 * kTakenTogether <= std::min(LocalRing::kCapacity, LocalRing::kSlots * kPerPacket));
    if (peer.state.load(std::memory_order_acquire) == LocalPeer::State::unused) [[unlikely]]
        return 0;
    LocalRing& in = *peer.in;
    Datagram datagram;
    unsigned received = 0;
    std::size_t taken = 0;  // bytes
    std::span<const std::uint8_t> packet;
    const auto enough = [&] {
        return taken >= kTakenTogether || fetched >= kFetchedTogether || (fetched > 0 && !in.has_second());
    };
    unsigned alone = 0;  // so many are not asked about
    while (received < max && !enough() && in.front(packet)) {
        if (alone > 0) {
            alone--;
        } else if (in.is_first_of_several()) {
            const auto [done, left] = receive_together(in, receiver);
            received += done;
            taken += done * (kPerPacket + LocalRing::kInSlot);
            alone = left;
            if (done > 0) continue;
            alone--;
        }
        describe(in, packet, datagram);
        const LocalRing::Form form = in.form();
        if (form == LocalRing::Form::row) {
            received += receive_row(datagram, receiver) - 1;
        } else if (form != LocalRing::Form::packet || !receiver.straight(datagram)) [[unlikely]] {
            if (received > 0 && receiver.is_early(datagram)) break;
            if (received > 0 && begins_large(form, datagram)) {
                answers_first_ = true;
                break;
            }
            if (form == LocalRing::Form::reference)
                fetched += receive_reference(peer, datagram, receiver);
            else
                receiver.datagram(datagram);
        }
        received++;
        taken += kPerPacket + packet.size() + in.space();
        in.release();
    }
    if (in.settle()) peers_.wake(peer);
    goes_on_ |= taken >= kTakenTogether;
    return received;
}

// Apart, so that one that is alone pays nothing for it. Where packets are for many queue pairs in turn there
// are none together, which is not found out with each.
[[gnu::noinline]] LocalLink::Together LocalLink::receive_together(LocalRing& in, Receiver& receiver) {
    const std::size_t count = in.together(together_);
    if (count < 2) return {0, kAsked};
    const std::size_t done = receiver.straight(std::span(together_).first(count), in.path());
    in.release(done);
    return {static_cast<unsigned>(done), static_cast<unsigned>(count - done)};
}

unsigned LocalLink::receive_row(Datagram row, Receiver& receiver) {
    const std::span<const std::uint8_t> bytes = row.bytes.first(row.bytes.size() - wire::kIcrcLength);
    const std::size_t count = AckRow::size(bytes);
    std::array<std::uint8_t, AckRow::kHeaders + wire::kIcrcLength> packet{};
    row.bytes = packet;
    row.followed = false;
    for (std::size_t at = 0; at < count; at++) {
        AckRow::read(bytes, at, packet.data());
        if (!receiver.straight(row)) receiver.datagram(row);
    }
    return static_cast<unsigned>(count);
}

// Whoever parses the packet sees its headers and nothing else.
std::size_t LocalLink::receive_reference(LocalPeer& peer, Datagram datagram, Receiver& receiver) {
    ReferredPayload payload(peer);
    const std::size_t headers = datagram.bytes.size() < wire::kBthLength + wire::kIcrcLength
                                    ? 0
                                    : wire::header_length(static_cast<wire::Opcode>(datagram.bytes[0]));
    const std::size_t length = datagram.bytes.size() - wire::kIcrcLength;
    if (headers == 0 || headers > length || !payload.read(datagram.bytes.subspan(headers, length - headers)))
        return 0;
    std::array<std::uint8_t, wire::kMaxHeaderLength + wire::kIcrcLength> bytes{};
    std::memcpy(bytes.data(), datagram.bytes.data(), headers);
    bytes[1] &= static_cast<std::uint8_t>(~kPadBits);
    datagram.bytes = {bytes.data(), headers + wire::kIcrcLength};
    datagram.elsewhere = &payload;
    receiver.datagram(datagram);
    return payload.copied();
}

// The peer may have made room for what waits.
void LocalLink::take_room(LocalPeers& peers, LocalPeer& peer) {
    std::lock_guard guard(peer.lock);
    if (!peer.out) return;
    peer.spill.move_to(*peer.out);
    peer.spilled.store(!peer.spill.empty());
    if (peer.out->publish()) peers.wake(peer);
}

void LocalLink::set_polled(bool polled) {
    polled = polled && heavy_barriers_allowed();
    if (polled_.load(std::memory_order_relaxed) == polled) return;
    polled_.store(polled);
    if (polled) return;
    heavy_barrier();
    peers_.look_for_overlooked();
}

// Beside busy rings the wire and greetings are looked at once in so many calls, which take long where polls
// are slow. Who says that somebody polls does so about once a millisecond: so they are looked at as often.
void LocalLink::still_polled() {
    look_everywhere();
    if (polled_.load(std::memory_order_relaxed)) look_again_.store(true, std::memory_order_relaxed);
}

// All of them by one system call, of which there would be one for each peer otherwise.
LocalLink::Readable LocalLink::look_at_descriptors() {
    constexpr int kSome = 8;
    std::array<epoll_event, kSome> events;
    // Not by epoll_wait(), which is a cancellation point: who is in receive() holds locks.
    const int count = uncancelled::epoll_at_once(wait_fd_, events.data(), kSome);
    const bool all = count < 0 || count == kSome;
    Readable readable{all, all || peers_.has_dead()};
    for (long i = 0; i < count; i++)
        (events[static_cast<std::size_t>(i)].data.fd == wire_.wait_fd() ? readable.wire : readable.others) =
            true;
    return readable;
}

[[gnu::always_inline]] inline unsigned LocalLink::receive_packets(Receiver& receiver, unsigned max) {
    const bool look = look_.load(std::memory_order_relaxed) && look_.exchange(false);
    const Readable readable = look ? look_at_descriptors() : Readable{};
    if (++calls_ % kLookEvery == 0 || readable.others) [[unlikely]]
        peers_.look_around();
    unsigned received = 0;
    goes_on_ = answers_first_ = false;
    const unsigned count = peers_.count();
    // Another one begins each time: none starves behind a busy one.
    if (++first_ >= count) first_ = 0;
    std::size_t fetched = 0;
    for (unsigned i = 0; i < count && received < max && fetched < kFetchedTogether; i++) {
        LocalPeer& peer = peers_.at(first_ + i < count ? first_ + i : first_ + i - count);
        if (peer.spilled.load(std::memory_order_relaxed)) [[unlikely]]
            take_room(peers_, peer);
        received += receive_from(peer, receiver, max - received, fetched);
    }
    if (received > 0)
        busy_ = kBusyFor;
    else if (busy_ > 0)
        busy_--;
    const unsigned wire_busy = wire_busy_.load(std::memory_order_relaxed);
    if (wire_busy > 0) wire_busy_.store(wire_busy - 1, std::memory_order_relaxed);
    constexpr std::size_t kPacketsTime = 1 << 10;  // as many bytes are fetched while one packet is received
    since_wire_ += 1 + received + static_cast<unsigned>(std::min(fetched, kFetchedTogether) / kPacketsTime);
    if (look ? !readable.wire : busy_ > 0 && wire_busy == 0 && since_wire_ < kWireEvery) return received;
    since_wire_ = 0;
    const unsigned came = wire_.receive(receiver, max > received ? max - received : 1);
    if (came > 0) wire_busy_.store(kBusyFor, std::memory_order_relaxed);
    return received + came;
}

unsigned LocalLink::receive(Receiver& receiver, unsigned max) {
    const unsigned received = receive_packets(receiver, max);
    // Not at once: an answer is often on its way, and would wait for the look.
    in_vain_ = received == 0 ? in_vain_ + 1 : 0;
    if (in_vain_ == kLookAgainAfter || look_again_.load(std::memory_order_relaxed)) [[unlikely]] {
        in_vain_ = 0;
        look_again_.store(false, std::memory_order_relaxed);
        peers_.look_for_overlooked();
    }
    return received;
}

// What this thread has published; others' store buffers are the business of who says that nobody polls.
void LocalLink::enter_sleep() {
    peers_.look_for_overlooked();
    wire_.enter_sleep();
    peers_.enter_sleep();
}

void LocalLink::leave_sleep() {
    const int before = errno;  // how the sleep ended
    peers_.leave_sleep();
    errno = before;
    look_everywhere();
    wire_.leave_sleep();
}

void LocalLink::send(const wire::OutPacket& packet) { own_sink_->send(packet); }
void LocalLink::flush() { own_sink_->flush(); }

[[gnu::flatten]] bool LocalLink::copy(const wire::OutPacket& packet) {
    return !packets_wanted() &&
           copy_to(peers_.find(packet.path->destination, packet.destination_qp()), packet);
}

wire::PacketCopier& LocalLink::row() { return *row_; }
void LocalLink::end_row() { row_->leave(); }

wire::PacketSink& LocalLink::borrow_sink() {
    for (unsigned i = 0;; i++) {
        Sink& sink = *sinks_[i % kSinks];
        if (!sink.busy.load(std::memory_order_relaxed) &&
            !sink.busy.exchange(true, std::memory_order_acquire))
            return sink;
        if (i % kSinks == kSinks - 1) sched_yield();
    }
}

void LocalLink::return_sink(wire::PacketSink& sink) {
    static_cast<Sink&>(sink).busy.store(false, std::memory_order_release);
}

}  // namespace verbena::link
