// Which receives the next messages of a queue pair will take, shown to the peer if that is a process of this
// host. The kernel writes into another process's memory faster than it reads from one, and who sends has the
// payload at hand: so a large SEND, which the receiver would fetch, is written into its receive by the sender
// (RcRequester::write_ahead), and then announced.
//
// `next` says where the numbering stands: the message that begins with that PSN takes that receive, by the
// number that it has in the queue (receive_queue.h); from there on the sender counts. A receive of several
// elements is shown as one of no length.
//
// Likewise it shows whether answers to its READs may be written, of which the requests say where, and by
// which right: one that was flushed has none, whatever the queue pair does by then.
//
// What is written of a message is written before that part leaves for the first time, so that its receive
// cannot have been completed. Before requests are flushed all is withdrawn, and peers that are writing are
// waited for (memory/outsiders.h); but not for ever, since a peer that was stopped has come to the end of
// what it was copying (or has not begun: one that is stopped just before writes when it goes on).
//
// Thread safety: show(), right_to_answer() and withdraw() under the queue pair's lock; the rest in any
// process. What comes from there is to be checked like anything that comes from a peer.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "transport/receive_queue.h"
#include "wire/psn.h"

namespace verbena::transport {

class ShownReceives {
   public:
    // Messages of so many bytes are written by their sender, or in part (rc_halves.cpp). For shorter ones the
    // receiver's look into the sender's memory costs less than what both have to do for this.
    static constexpr std::uint32_t kFrom = 256 << 10;
    static constexpr std::uint32_t kMost = 8;  // receives at a time: some 200 us of writing

    static constexpr Duration kWritten = 20 * kMillisecond;

    struct Next {
        std::uint32_t psn, receive;
    };
    struct Receive {
        std::uint64_t address;
        std::uint32_t length, lkey;  // bytes
    };
    // By which a message says into which receive it was written; 0: into none. (One receive in 2^32 has that
    // name, and its message is fetched.)
    static constexpr std::uint32_t name_of(std::uint32_t receive) { return receive + 1; }

    // The message that begins with `psn` takes the oldest of the queue; so many were received before it.
    void show(ReceiveQueue& queue, std::uint32_t psn, std::uint64_t received) {
        const std::uint32_t oldest = queue.taken(), waiting = std::min(queue.waiting(), kMost);
        if (!is_shown() || static_cast<std::int32_t>(end_ - oldest) < 0) end_ = oldest;
        for (; end_ != oldest + waiting; end_++) write(end_, queue.at(end_));
        received_.store(received, std::memory_order_relaxed);
        next_.store(kShown | std::uint64_t{psn} << 32 | oldest, std::memory_order_release);
    }
    bool is_shown() const { return next_.load(std::memory_order_relaxed) != 0; }
    // By which an answer may be written until all is withdrawn, and never again: a number, and the lkey.
    std::uint64_t right_to_answer(std::uint32_t lkey) {
        if (!takes_answers()) {
            if (++last_answers_ == 0) ++last_answers_;
            answers_.store(last_answers_, std::memory_order_release);
        }
        return std::uint64_t{last_answers_} << 32 | lkey;
    }
    bool takes_answers() const { return answers_.load(std::memory_order_relaxed) != 0; }
    bool takes_answer(std::uint64_t right) const {
        const auto number = static_cast<std::uint32_t>(right >> 32);
        return number != 0 && answers_.load(std::memory_order_seq_cst) == number;
    }
    static constexpr std::uint32_t lkey_of(std::uint64_t right) { return static_cast<std::uint32_t>(right); }
    // Nobody writes any more who has not begun.
    void withdraw() {
        answers_.store(0, std::memory_order_seq_cst);
        next_.store(0, std::memory_order_seq_cst);
        for (Entry& entry : entries_) entry.name.store(0, std::memory_order_seq_cst);
    }

    // `received`: messages by now. Those that are not shown take receives and PSNs, too. One may have come;
    // after more the same PSN may be another message's.
    std::optional<Next> next(std::uint64_t received) const {
        const std::uint64_t next = next_.load(std::memory_order_acquire);
        if (next == 0 || received - received_.load(std::memory_order_relaxed) > 1) return std::nullopt;
        return Next{static_cast<std::uint32_t>(next >> 32) & wire::kPsnMask,
                    static_cast<std::uint32_t>(next)};
    }
    // Nothing: it is not shown (any more).
    std::optional<Receive> find(std::uint32_t receive) const {
        const Entry& entry = entries_[receive % kMost];
        const std::uint32_t name = name_of(receive);
        if (name == 0 || entry.name.load(std::memory_order_seq_cst) != name) return std::nullopt;
        const Receive found{entry.address.load(std::memory_order_relaxed),
                            entry.length.load(std::memory_order_relaxed),
                            entry.lkey.load(std::memory_order_relaxed)};
        std::atomic_thread_fence(std::memory_order_acquire);
        if (entry.name.load(std::memory_order_relaxed) != name) return std::nullopt;
        return found;
    }

   private:
    static constexpr std::uint64_t kShown = std::uint64_t{1} << 63;
    struct Entry {
        std::atomic<std::uint32_t> name;  // 0: none
        std::atomic<std::uint32_t> length, lkey;
        std::atomic<std::uint64_t> address;
    };

    void write(std::uint32_t receive, const ReceiveQueue::Oldest& request) {
        Entry& entry = entries_[receive % kMost];
        const Sge sge = request.sges.size() == 1 ? request.sges[0] : Sge{};
        entry.name.store(0, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        entry.address.store(sge.address, std::memory_order_relaxed);
        entry.length.store(sge.length, std::memory_order_relaxed);
        entry.lkey.store(sge.lkey, std::memory_order_relaxed);
        entry.name.store(name_of(receive), std::memory_order_release);
    }

    std::atomic<std::uint64_t> next_;  // 0: nothing is shown
    std::atomic<std::uint64_t> received_;
    std::uint32_t end_;                   // the first that is not; its owner's
    std::atomic<std::uint32_t> answers_;  // which may be written; 0: none
    std::uint32_t last_answers_;          // its owner's
    Entry entries_[kMost];
};

}  // namespace verbena::transport
