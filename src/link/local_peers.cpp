#include "link/local_peers.h"

#include <ifaddrs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "base/no_cancellation.h"
#include "base/reason.h"
#include "base/signal_event.h"
#include "base/socket_address.h"
#include "base/uncancelled.h"

namespace verbena::link {
namespace {

using State = LocalPeer::State;

bool is_address_of_this_host(const Gid& wanted) {
    const NoCancellation whole;  // a post comes here, with locks
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return false;
    bool found = false;
    for (const ifaddrs* each = list; each && !found; each = each->ifa_next)
        found = each->ifa_addr && gid_of(each->ifa_addr) == wanted;
    freeifaddrs(list);
    return found;
}

void close_and_forget(int& fd) {
    if (fd >= 0) uncancelled::close(fd);
    fd = -1;
}

}  // namespace

LocalPeers::LocalPeers(const Setup& setup, int event_fd, int wait_fd)
    : setup_(setup), event_fd_(event_fd), wait_fd_(wait_fd), next_cookie_(setup.nonce + 1) {}

LocalPeers::~LocalPeers() {
    for (unsigned i = 0; i < count(); i++) {
        close_and_forget(peers_[i]->life_fd);
        close_and_forget(peers_[i]->event_fd);
    }
}

void LocalPeers::abandon() {
    life_sign_.abandon();
    for (unsigned i = 0; i < inbox_count_.load(); i++) inboxes_[i].inbox->abandon();
    inbox_count_.store(0);
    for (unsigned i = 0; i < count(); i++)
        if (peers_[i]->memory) peers_[i]->memory->abandon();
}

bool LocalPeers::watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return epoll_ctl(wait_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

int LocalPeers::add_block(std::uint32_t block) {
    std::lock_guard guard(lock_);
    const unsigned inboxes = inbox_count_.load();
    if (inboxes == kMaxInboxes) return fail(ENOMEM, "at most %u blocks are reached by memory", kMaxInboxes);
    auto inbox = open_inbox(setup_.fabric, block);
    if (!inbox || !watch(inbox->wait_fd()))
        return fail(errno, "opening block %u for peers of this host: %s", block, std::strerror(errno));
    inboxes_[inboxes] = {std::move(inbox), block};
    inbox_count_.store(inboxes + 1, std::memory_order_release);
    return 0;
}

// An address that goes to another host later is not looked up again: no queue pair of that number will accept
// what it gets then, since it knows its own addresses.
bool LocalPeers::learn_whether_ours(const Gid& address) {
    const int before = errno;
    std::lock_guard guard(lock_);
    const unsigned count = known_count_.load();
    if (const Known* known = find_known(address, count)) return known->ours;
    if (count == kMaxAddresses) return false;
    known_[count] = {address, is_address_of_this_host(address)};
    known_count_.store(count + 1, std::memory_order_release);
    errno = before;
    return known_[count].ours;
}

LocalPeer* LocalPeers::find_or_ask(const Gid& destination, std::uint32_t qp_number) {
    const std::uint32_t block = block_of(qp_number) % kMaxBlocks;
    if (block == 0 || !is_ours(destination)) return nullptr;
    if (LocalPeer* peer = owners_[block].load(std::memory_order_acquire)) return peer;
    std::atomic<std::uint16_t>& patience = patience_[block];
    if (const std::uint16_t left = patience.load(std::memory_order_relaxed)) {
        patience.store(static_cast<std::uint16_t>(left - 1), std::memory_order_relaxed);
        return nullptr;
    }
    const int before = errno;
    std::lock_guard guard(lock_);
    ask(block);
    errno = before;
    return owners_[block].load(std::memory_order_acquire);
}

LocalPeers::Met LocalPeers::meet(const Gid& destination, std::uint32_t qp_number) {
    const std::uint32_t block = block_of(qp_number) % kMaxBlocks;
    if (block == 0 || inbox_count_.load() == 0 || !is_ours(destination)) return Met::no;
    if (owners_[block].load(std::memory_order_acquire)) return Met::yes;
    std::lock_guard guard(lock_);
    if (!asked_for(block)) ask(block);
    return standing_of(block);
}

LocalPeers::Met LocalPeers::how_met(std::uint32_t qp_number) {
    std::lock_guard guard(lock_);
    return standing_of(block_of(qp_number) % kMaxBlocks);
}

LocalPeers::Met LocalPeers::standing_of(std::uint32_t block) {
    if (owners_[block].load()) return Met::yes;
    const LocalPeer* asked = asked_for(block);
    return asked && !asked->waited_for ? Met::asked : Met::no;
}

void LocalPeers::stop_waiting_for(std::uint32_t qp_number) {
    std::lock_guard guard(lock_);
    if (LocalPeer* peer = asked_for(block_of(qp_number) % kMaxBlocks)) peer->waited_for = true;
}

LocalPeer* LocalPeers::asked_for(std::uint32_t block) {
    return find_if([&](LocalPeer& p) { return p.state.load() == State::asked && p.block == block; });
}

bool LocalPeers::is_dead(const LocalPeer& peer) const {
    if (peer.life_fd < 0) return false;
    pollfd state{peer.life_fd, POLLIN, 0};
    return uncancelled::poll_at_once(&state, 1) > 0;
}

bool LocalPeers::has_inbox(const LocalPeer& peer) const { return inbox_exists(setup_.fabric, peer.block); }

// Also by exec(), of which a pidfd does not tell, and if there is none.
bool LocalPeers::is_gone(const LocalPeer& peer) const {
    if (is_dead(peer) || !has_inbox(peer)) return true;
    const int before = errno;
    const bool gone = peer.pid > 0 && kill(peer.pid, 0) != 0 && errno == ESRCH;
    errno = before;
    return gone;
}

// Nobody goes in any more. What it has written is still read, and who is inside leaves in his own time.
void LocalPeers::declare_dead(LocalPeer& peer) {
    peer.state.store(State::dead);
    if (peer.life_fd >= 0) epoll_ctl(wait_fd_, EPOLL_CTL_DEL, peer.life_fd, nullptr);
    for (auto& owner : owners_) {
        LocalPeer* expected = &peer;
        owner.compare_exchange_strong(expected, nullptr);
    }
}

void LocalPeers::free_if_done(LocalPeer& peer) {
    // Who sends holds it, and may come for ours: not now, then.
    const std::unique_lock guard(peer.lock, std::try_to_lock);
    if (!guard || !peer.in->empty() || peer.visitors.load() != 0) return;
    peer.out.reset();
    peer.spill.clear();
    peer.spilled.store(false);
    peer.memory.reset();
    close_and_forget(peer.life_fd);
    close_and_forget(peer.event_fd);
    peer.in.reset();
    peer.pid = 0;
    peer.state.store(State::unused);
}

void LocalPeers::look_around() {
    for (unsigned i = 0; i < inbox_count_.load(std::memory_order_acquire); i++)
        for (unsigned taken = 0; taken < kMostGreetings; taken++) {
            Greeting greeting;
            const Received received = receive_greeting(*inboxes_[i].inbox, greeting);
            if (received == Received::nothing) break;
            if (received == Received::nonsense || greeting.text.to != inboxes_[i].block) continue;
            std::lock_guard guard(lock_);
            take(greeting);
        }
    std::lock_guard guard(lock_);
    for (unsigned i = 0; i < count(); i++) {
        LocalPeer& peer = *peers_[i];
        if (peer.state.load() == State::dead) free_if_done(peer);
        if (peer.state.load() == State::met && is_dead(peer)) declare_dead(peer);
    }
    // One at a time, since that takes some system calls.
    if (++looked_at_ >= count()) looked_at_ = 0;
    if (count() == 0) return;
    LocalPeer& next = *peers_[looked_at_];
    if (next.state.load() == State::asked && is_gone(next)) declare_dead(next);
}

bool LocalPeers::has_dead() {
    return find_if([](const LocalPeer& peer) { return peer.state.load() == State::dead; }) != nullptr;
}

// What another thread works on just now may look as if it waited; that wakes once in vain.
bool LocalPeers::has_work() {
    const auto works = [](const LocalPeer& peer) {
        return (peer.in && !peer.in->empty()) ||
               (peer.spilled.load() && peer.out && !peer.out->awaits_room());
    };
    return find_if(works) != nullptr;
}

void LocalPeers::enter_sleep() {
    std::lock_guard guard(lock_);
    sleepers_++;
    for (unsigned i = 0; i < count(); i++)
        if (peers_[i]->in) peers_[i]->in->enter_sleep();
    // Behind the marks: either the producer sees them or we see its packet.
    if (has_work()) signal_event(event_fd_);
}

void LocalPeers::leave_sleep() {
    std::lock_guard guard(lock_);
    sleepers_--;
    for (unsigned i = 0; i < count(); i++)
        if (peers_[i]->in) peers_[i]->in->leave_sleep();
    take_events(event_fd_);
    if (sleepers_ > 0 && has_work()) signal_event(event_fd_);
}

void LocalPeers::wake(LocalPeer& peer) {
    const PutOff::Added added = PutOff::add(peer);
    if (added == PutOff::Added::again) return;
    peer.visitors.fetch_add(1, std::memory_order_seq_cst);
    if (added == PutOff::Added::now) peer.wake();
}

void LocalPeer::wake() noexcept {
    signal_event(event_fd);
    visitors.fetch_sub(1, std::memory_order_release);
}

// Each mark is taken before its peer is looked at: one that is set meanwhile is for the next look.
void LocalPeers::wake_overlooked() {
    if (!unsure_.exchange(false)) return;
    for (unsigned i = 0; i < count(); i++) {
        if (!peers_[i]->unsure.load(std::memory_order_relaxed)) continue;
        const Visit visit(peers_[i].get());
        LocalPeer* const peer = visit.peer();
        if (peer && peer->unsure.exchange(false) && peer->out->sleeps() && peer->out->unread()) wake(*peer);
    }
}

void LocalPeers::wait_for_them(const memory::Work& work, Duration most) {
    using Clock = std::chrono::steady_clock;
    const NoCancellation whole;                         // who calls has taken something away already
    constexpr unsigned kShort = 1024, kLookAtPid = 16;  // rounds
    constexpr auto kNap = std::chrono::microseconds(100);
    constexpr auto kTell = std::chrono::seconds(1);
    pid_t pid = 0;
    const auto busy = [&](unsigned index, unsigned mark, bool look) {
        std::lock_guard guard(lock_);
        const LocalPeer& peer = *peers_[index];
        pid = peer.pid;
        return peer.in && peer.state.load() != State::dead && peer.in->marked(mark, work) &&
               !(look && is_gone(peer));
    };
    const auto idle = [&](unsigned index) {
        std::lock_guard guard(lock_);
        const LocalPeer& peer = *peers_[index];
        for (unsigned mark = 0; peer.in && mark < LocalRing::kMarks; mark++)
            if (peer.in->marked(mark, work)) return false;
        return true;
    };
    std::optional<Clock::time_point> began;
    for (unsigned i = 0; i < count(); i++) {
        if (idle(i)) continue;  // as nearly always: one look in place of one for each mark
        for (unsigned mark = 0; mark < LocalRing::kMarks; mark++) {
            if (!busy(i, mark, false)) continue;
            if (!began) began = Clock::now();
            bool told = false;
            for (unsigned rounds = 1; busy(i, mark, rounds > kShort && rounds % kLookAtPid == 0); rounds++) {
                if (rounds < kShort) {
                    sched_yield();
                    continue;
                }
                const int before = errno;
                std::this_thread::sleep_for(kNap);
                errno = before;
                const auto waited = Clock::now() - *began;
                if (waited >= std::chrono::nanoseconds(most)) return;
                if (told || waited < kTell) continue;
                told = true;
                log(LogLevel::warn,
                    "process %d is in the middle of a transfer and stands still; it is waited for",
                    static_cast<int>(pid));
            }
        }
    }
}

bool LocalPeers::stands_still(const Gid& destination, std::uint32_t qp_number) {
    const Visit visit(*this, destination, qp_number);
    if (!visit.peer() || !(visit.peer()->out->unread() || visit.peer()->spilled.load())) return false;
    return has_inbox(*visit.peer());
}

LocalPeers::Visit::Visit(LocalPeer* peer) : peer_(peer) {
    if (!peer_) return;
    peer_->visitors.fetch_add(1, std::memory_order_seq_cst);
    if (peer_->state.load(std::memory_order_seq_cst) == State::met) return;
    peer_->visitors.fetch_sub(1, std::memory_order_release);
    peer_ = nullptr;
}

LocalPeers::Visit::~Visit() {
    if (peer_) peer_->visitors.fetch_sub(1, std::memory_order_release);
}

}  // namespace verbena::link
