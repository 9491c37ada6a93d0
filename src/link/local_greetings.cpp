// How peers are met (local_peers.h, local_meeting.h): what is asked, what is answered, and what both sides
// make of it.
#include <cerrno>

#include "base/descriptor.h"
#include "base/features.h"
#include "base/own_file.h"
#include "base/reason.h"
#include "base/uncancelled.h"
#include "link/local_peers.h"

namespace verbena::link {
namespace {

using State = LocalPeer::State;

}  // namespace

// A place with a ring for the peer to write to.
LocalPeer* LocalPeers::new_peer(std::uint32_t block) {
    std::unique_ptr<LocalRing> ring = LocalRing::create();
    if (!ring) return nullptr;
    LocalPeer* peer = find_if([](LocalPeer& p) { return p.state.load() == State::unused; });
    const unsigned number = count();
    if (!peer) {
        if (number == kMaxPeers) return nullptr;
        peers_[number] = std::make_unique<LocalPeer>();
        peer = peers_[number].get();
    }
    for (unsigned i = 0; i < sleepers_; i++) ring->enter_sleep();
    peer->in = std::move(ring);
    peer->block = block;
    peer->cookie = next_cookie_++;
    peer->waited_for = false;
    peer->state.store(State::asked, std::memory_order_release);
    if (peer == peers_[number].get()) count_.store(number + 1, std::memory_order_release);
    return peer;
}

int LocalPeers::send(Greeting::Kind kind, std::uint32_t from, std::uint32_t to, std::uint64_t cookie,
                     LocalPeer* peer) {
    Greeting::Text text;
    text.kind = kind;
    text.from = from;
    text.to = to;
    text.cookie = cookie;
    text.segment_address = setup_.segment_address;
    text.nonce = setup_.nonce;
    Greeting::Descriptors fds = Greeting::kNone;
    if (peer) fds = {peer->in->fd(), event_fd_, setup_.segment_fd, life_sign_.shown()};
    return send_greeting(setup_.fabric, text, fds);
}

// Once more if we have asked before. Perhaps the block is another's by now: who is offered a ring that
// somebody has written to refuses it (LocalRing::open).
void LocalPeers::ask(std::uint32_t block) {
    patience_[block].store(kRetry, std::memory_order_relaxed);
    const unsigned inboxes = inbox_count_.load();
    if (inboxes == 0 || setup_.segment_fd < 0 || owners_[block].load()) return;
    for (unsigned i = 0; i < inboxes; i++)
        if (inboxes_[i].block == block) return meet_ourselves(block);
    LocalPeer* peer = asked_for(block);
    const bool before = peer != nullptr;
    if (!peer) peer = new_peer(block);
    if (!peer) return;
    const int error = send(Greeting::Kind::question, inboxes_[0].block, block, peer->cookie, peer);
    if (error == 0) return;
    // Nobody there, or nobody with this link: the wire it is.
    if (error == EAGAIN) patience_[block].store(kRetryCrowded, std::memory_order_relaxed);
    // Who was asked before may answer yet.
    if (!before || error == ECONNREFUSED) declare_dead(*peer);
}

void LocalPeers::meet_ourselves(std::uint32_t block) {
    LocalPeer* peer = find_if([&](LocalPeer& p) { return p.state.load() == State::met && p.life_fd < 0; });
    if (!peer) {
        peer = new_peer(block);
        if (!peer) return;
        std::unique_ptr<LocalRing> out = LocalRing::open(peer->in->fd());
        if (!out) return declare_dead(*peer);
        peer->pid = getpid();
        peer->nonce = setup_.nonce;
        peer->event_fd = duplicate_out_of_the_way(event_fd_);
        if (peer->event_fd < 0) return declare_dead(*peer);
        open_memory(*peer, setup_.segment_fd, setup_.segment_address);
        std::lock_guard guard(peer->lock);
        peer->out = std::move(out);
        peer->state.store(State::met);
    }
    owners_[block].store(peer, std::memory_order_release);
}

// From now on packets to the block go there.
void LocalPeers::set_owner(std::uint32_t block, LocalPeer& peer) {
    owners_[block].store(&peer, std::memory_order_release);
    log(LogLevel::debug, "process %d is reached by memory%s", static_cast<int>(peer.pid),
        peer.memory ? "" : "; it does not let us read and write its memory");
}

// The peer's memory, if its process lets us; and so whether it may leave payloads there for us to fetch.
void LocalPeers::open_memory(LocalPeer& peer, int segment_fd, std::uint64_t segment_address) {
    if (setup_.open_memory) peer.memory = setup_.open_memory(peer.pid, segment_fd, segment_address);
    peer.in->fetch(peer.memory && features().fetch);
}

bool LocalPeers::complete(LocalPeer& peer, Greeting& greeting) {
    std::unique_ptr<LocalRing> out = LocalRing::open(greeting.fds[0]);
    Descriptor life(setup_.follow(greeting.pid));
    if (!life) life.reset(greeting.take(3));
    if (!out || !life || !watch(life.get())) return false;
    peer.pid = greeting.pid;
    peer.life_fd = life.release();
    peer.event_fd = greeting.take(1);
    peer.nonce = greeting.text.nonce;
    open_memory(peer, greeting.fds[2], greeting.text.segment_address);
    {
        std::lock_guard guard(peer.lock);
        peer.out = std::move(out);
        peer.state.store(State::met);
    }
    return true;
}

void LocalPeers::take(Greeting& greeting) {
    const Greeting::Text& text = greeting.text;
    if (text.from == 0 || text.from >= kMaxBlocks) return;
    switch (text.kind) {
        case Greeting::Kind::question:
            return take_question(greeting);
        case Greeting::Kind::answer:
        case Greeting::Kind::known:
            return take_answer(greeting);
        case Greeting::Kind::refusal:
            return take_refusal(greeting);
    }
}

void LocalPeers::take_question(Greeting& greeting) {
    const Greeting::Text& text = greeting.text;
    if (greeting.stranger || !greeting.has_descriptors() || setup_.segment_fd < 0) {
        send(Greeting::Kind::refusal, text.to, text.from, text.cookie, nullptr);
        return;
    }
    const auto of_that_pid = [&](const LocalPeer& p) {
        return p.state.load() == State::met && p.pid == greeting.pid && p.life_fd >= 0;
    };
    LocalPeer* same = find_if(of_that_pid);
    for (; same && (same->nonce != text.nonce || is_dead(*same)); same = find_if(of_that_pid))
        declare_dead(*same);  // exec(), or the pid has gone round
    if (same) {
        owners_[text.from].store(same, std::memory_order_release);
        send(Greeting::Kind::known, text.to, text.from, text.cookie, nullptr);
        return;
    }
    // We have asked, too. That counts where both see it: our questions come from our first block.
    LocalPeer* peer = text.to == inboxes_[0].block ? asked_for(text.from) : nullptr;
    // Ours does; but it may have gone to whom the block belonged to before.
    if (peer && text.to < text.from) return ask(text.from);
    if (peer && peer->in->is_used() && peer->pid != greeting.pid) {
        declare_dead(*peer);  // the ring was for him
        peer = nullptr;
    }
    if (!peer) peer = new_peer(text.from);
    if (!peer || !complete(*peer, greeting)) {
        if (peer) declare_dead(*peer);
        send(Greeting::Kind::refusal, text.to, text.from, text.cookie, nullptr);
        return;
    }
    peer->cookie = text.cookie;
    // Nobody here writes to a ring that nobody may ever read.
    if (send(Greeting::Kind::answer, text.to, text.from, text.cookie, peer) != 0) return declare_dead(*peer);
    set_owner(text.from, *peer);
}

// The place that an answer is about: it waits for that, or has been met by it.
LocalPeer* LocalPeers::answered_by(const Greeting& greeting) {
    const Greeting::Text& text = greeting.text;
    return find_if([&](LocalPeer& p) {
        if (p.cookie != text.cookie || p.block != text.from) return false;
        const State state = p.state.load();
        return state == State::asked ||
               (state == State::met && p.pid == greeting.pid && p.nonce == text.nonce);
    });
}

void LocalPeers::take_answer(Greeting& greeting) {
    const Greeting::Text& text = greeting.text;
    LocalPeer* peer = answered_by(greeting);
    if (!peer || greeting.stranger) {
        // It would go on writing into a ring that nobody reads.
        if (text.kind == Greeting::Kind::answer)
            send(Greeting::Kind::refusal, text.to, text.from, text.cookie, nullptr);
        return;
    }
    if (peer->state.load() == State::met) return;  // to the same question, asked once more
    if (text.kind == Greeting::Kind::answer && greeting.has_descriptors() && complete(*peer, greeting))
        return set_owner(text.from, *peer);
    patience_[peer->block].store(kRetryRefused, std::memory_order_relaxed);
    LocalPeer* same = text.kind == Greeting::Kind::answer ? nullptr : find_if([&](LocalPeer& p) {
        return p.state.load() == State::met && p.nonce == text.nonce;
    });
    if (same) {
        owners_[text.from].store(same, std::memory_order_release);
        return declare_dead(*peer);
    }
    // It has our ring, and may be at work on our memory, although we cannot reach it: the place is kept, so
    // that its marks are seen.
    peer->pid = greeting.pid;
    peer->waited_for = true;
}

// Also by a stranger, of a question; and of an answer, by who does not know any more what that is about.
void LocalPeers::take_refusal(const Greeting& greeting) {
    LocalPeer* peer = answered_by(greeting);
    if (!peer) return;
    const std::uint32_t block = peer->block;
    patience_[block].store(kRetryRefused, std::memory_order_relaxed);
    const bool again = peer->state.load() == State::asked && peer->in->is_used();
    declare_dead(*peer);
    if (again) ask(block);  // with a ring that nobody has had
}

}  // namespace verbena::link
