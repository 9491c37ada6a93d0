// A ring of packets in shared memory from one process to another of the same host: one producer side, one
// consumer. The file is mapped twice in a row, so that no packet is ever cut.
//
//     page 0: head, marks and awaited (the producer's), tail and sleepers (the consumer's); then the data
//     a record: what it is, its path unless it is that of the record before, the packet; padded to 64 bytes
//
// The consumer has made the file and hands it to the producer; it is sealed against resizing. Neither side
// trusts the other's positions: they are range-checked once, after they were copied. What the producer writes
// into a record after it was published the consumer may see (the local link's comment says what that means).
//
// Sleeping. Each side says first that it is going to sleep, and then looks once more; the other side says
// first what it has done, and then looks whether somebody sleeps. All but two are sequentially consistent, so
// that at least one of them sees the other:
//
//     consumer    sleepers + 1, then head     producer    head = ..., then sleepers: wake the consumer
//     producer    awaited = 1, then tail      consumer    tail = ..., then awaited: wake the producer
//
// One is the consumer's last: to have tail seen before it looks would cost as much as a packet. It may
// overlook a producer that has just seen the tail before and a full ring; then it has read a small part of
// that ring, settles again, and sees it (local_sleep_test.cpp).
//
// The consumer tells of room when half of the ring is free; if it does not tell, something is left in the
// ring, and it will come by again. Who is woken, and how, is the peers' (local_peers.h).
//
// The other is the head of a producer whose program polls, and which publishes lightly
// (LocalLink::publish): to have it seen before the sleepers are looked at would cost as much as a packet,
// too. It looks at them again when it finds nothing to do, or whoever takes over from it does.
//
// The marks say that a thread of the producer's is at work on the consumer's memory by itself (LocalMark).
// Who takes memory or a queue pair away first makes that known (a dead key, a state), and then waits until
// each mark was once clear. Both sides' accesses are sequentially consistent, so that one of them sees the
// other.
//
// Thread safety: append(), await_room(), publish() and publish_lightly() under a lock of the producer's,
// front(), release() and settle() one thread at a time; everything else from any thread.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/small_copy.h"
#include "link/packet_order.h"
#include "wire/packet_sink.h"
#include "wire/path.h"

namespace verbena::link {

class LocalRing {
   public:
    static constexpr std::size_t kCapacity = std::size_t{1} << 20;  // bytes
    static constexpr unsigned kMarks = 8;

    // The consumer's; nullptr with errno and a reason.
    static std::unique_ptr<LocalRing> create();
    // The producer's: maps somebody's file, which stays the caller's. nullptr with errno and a reason if it
    // is no such ring.
    static std::unique_ptr<LocalRing> open(int fd);
    ~LocalRing();
    LocalRing(const LocalRing&) = delete;
    LocalRing& operator=(const LocalRing&) = delete;

    int fd() const { return fd_; }  // the consumer's; -1 in the producer

    // Copies a packet in; false if there is no room. Nobody sees it before publish(). `elsewhere`: what
    // follows the headers says where the payload lies (local_reference.h).
    bool append(const wire::Path& path, std::span<const iovec> pieces, const wire::Aside& aside = {},
                bool elsewhere = false);
    // The same of a whole packet, with one piece of payload at most.
    bool append(const wire::OutPacket& packet);
    // True if the consumer sleeps and has to be woken.
    bool publish();
    // The same without waiting until the consumer can see it: one that is just going to sleep may be
    // overlooked, until somebody asks sleeps().
    bool publish_lightly();
    bool sleeps() const;
    // After append() found no room: true if there is by now; else the consumer has been asked to tell.
    bool await_room();
    // Whether that question is still open. Any thread.
    bool awaits_room() const { return control_.awaited.load(std::memory_order_seq_cst) != 0; }
    // Whether the consumer fetches payloads from our memory. Any thread.
    bool fetches() const { return control_.fetches.load(std::memory_order_relaxed) != 0; }
    // Whether the consumer has not yet looked at something that was published.
    bool unread() const;

    // The oldest packet; `bytes` is valid until release(), and some bytes behind it can be read. False if
    // there is none, or if the producer wrote nonsense: then the ring is broken for good and nothing comes
    // out of it any more.
    bool front(std::span<const std::uint8_t>& bytes) {
        fetch_ahead();
        const std::uint64_t head = control_.head.load(std::memory_order_acquire);
        if (head == read_) [[unlikely]]
            return false;
        packets_came();
        const std::uint64_t waiting = head - read_;
        Record record;
        const std::uint8_t* at = data_ + read_ % kCapacity;
        std::memcpy(&record, at, sizeof record);
        at += sizeof record;
        const std::size_t path_size = record.acknowledged & kHasPath ? sizeof read_path_ : 0;
        front_size_ = round_up(sizeof record + path_size + record.length);
        if (broken_.load(std::memory_order_relaxed) || waiting > kCapacity || front_size_ > waiting)
            [[unlikely]]
            return give_up(head);
        if (path_size > 0) [[unlikely]]
            std::memcpy(&read_path_, at, sizeof read_path_);
        read_acknowledged_ = record.acknowledged;
        read_psns_ = record.psns;
        followed_ = front_size_ != waiting;
        bytes = {at + path_size, record.length};
        return true;
    }
    // Of that packet, until release().
    const wire::Path& path() const { return read_path_; }
    wire::Aside aside() const {
        return {std::clamp(read_psns_, 1u, kPsnBits), (read_acknowledged_ & kAcknowledges) != 0,
                read_acknowledged_ & kPsnBits};
    }
    bool elsewhere() const { return (read_acknowledged_ & kElsewhere) != 0; }
    bool followed() const { return followed_; }  // by another one when it was looked at
    void release() { read_ += front_size_; }
    // What was released is the producer's again, which must happen each time that a small part of the ring
    // was. True if it waits for room and has to be woken.
    bool settle() {
        if (settled_ != read_) control_.tail.store(settled_ = read_, std::memory_order_release);
        return control_.awaited.load(std::memory_order_relaxed) != 0 && owes_room();
    }
    bool empty() const;  // any thread
    // Whether front() would surely find nothing; by the thread that calls it.
    bool looks_empty() const;

    void enter_sleep();
    void leave_sleep();

    // The consumer's: whether it fetches payloads.
    void fetch(bool on) { control_.fetches.store(on, std::memory_order_relaxed); }
    // The consumer's: whether a thread of the producer's is at work.
    bool marked(unsigned mark) const {
        return control_.marks[mark].inside.load(std::memory_order_seq_cst) != 0;
    }

   private:
    friend class LocalMark;
    struct Mark {
        alignas(64) std::atomic<std::uint32_t> inside;
    };
    struct Control {
        std::uint64_t magic;
        alignas(64) std::atomic<std::uint64_t> head;
        alignas(64) std::atomic<std::uint64_t> tail;
        alignas(64) std::atomic<std::uint32_t> sleepers;
        alignas(64) std::atomic<std::uint32_t> awaited;
        alignas(64) std::atomic<std::uint32_t> fetches;
        std::array<Mark, kMarks> marks;
    };
    enum Flag : std::uint32_t { kHasPath = 1u << 24, kAcknowledges = 1u << 25, kElsewhere = 1u << 26 };
    struct Record {
        std::uint32_t length;
        std::uint32_t acknowledged;  // a PSN, and the flags
        std::uint32_t psns;
    };
    // With the BTH a cache line has room for 40 bytes of payload.
    static_assert(sizeof(Record) == 12 && sizeof(Control) <= 4096);

    static constexpr std::size_t kAlignment = 64;
    static constexpr std::uint32_t kPsnBits = 0xffffff;
    static constexpr std::uint64_t round_up(std::uint64_t size) {
        return (size + kAlignment - 1) & ~(kAlignment - 1);
    }

    LocalRing(std::uint8_t* memory, int fd);
    bool give_up(std::uint64_t head);
    bool owes_room();
    bool finds_room(std::uint64_t size);
    static std::unique_ptr<LocalRing> map(int fd, bool consumer);
    std::uint8_t* begin_record(const wire::Path& path, std::size_t length, const wire::Aside& aside,
                               bool elsewhere);
    // A record crosses from one processor's cache to the other's on its own way, beside the head's.
    void fetch_ahead() const { __builtin_prefetch(data_ + read_ % kCapacity); }

    Control& control_;
    std::uint8_t* const data_;
    const int fd_;

    // The producer's.
    std::uint64_t written_ = 0;    // copied in, perhaps not yet published
    std::uint64_t seen_tail_ = 0;  // a tail of the past
    std::uint64_t refused_ = 0;    // the size of the record that found no room
    wire::Path written_path_;      // of the newest record
    bool wrote_path_ = false;
    // The consumer's.
    std::uint64_t read_ = 0;
    std::uint64_t front_size_ = 0;
    wire::Path read_path_;
    std::uint32_t read_acknowledged_ = 0, read_psns_ = 0;  // of the record
    bool followed_ = false;
    std::uint64_t settled_ = 0;  // the tail that the producer sees
    std::atomic<bool> broken_{false};
};

// Where the `length` bytes of the next packet go; nullptr: there is no room.
inline std::uint8_t* LocalRing::begin_record(const wire::Path& path, std::size_t length,
                                             const wire::Aside& aside, bool elsewhere) {
    const bool has_path = !wrote_path_ || path != written_path_;
    const std::uint64_t size = round_up(sizeof(Record) + (has_path ? sizeof path : 0) + length);
    if (written_ + size - seen_tail_ > kCapacity && !finds_room(size)) [[unlikely]]
        return nullptr;
    std::uint8_t* at = data_ + written_ % kCapacity;
    const std::uint32_t flags = (has_path ? kHasPath : 0u) | (aside.acknowledges ? kAcknowledges : 0u) |
                                (elsewhere ? kElsewhere : 0u);
    auto* const record = reinterpret_cast<Record*>(at);  // aligned as records are
    record->length = static_cast<std::uint32_t>(length);
    record->acknowledged = (aside.acknowledged & kPsnBits) | flags;
    record->psns = aside.psns;
    at += sizeof *record;
    if (has_path) [[unlikely]] {
        std::memcpy(at, &path, sizeof path);
        at += sizeof path;
        written_path_ = path;
        wrote_path_ = true;
    }
    written_ += size;
    return at;
}

inline bool LocalRing::append(const wire::OutPacket& packet) {
    const iovec piece = packet.payload.empty() ? iovec{} : packet.payload[0];
    std::uint8_t* at = begin_record(*packet.path, packet.header_length + piece.iov_len + packet.pad_count,
                                    packet.aside, false);
    if (!at) [[unlikely]]
        return false;
    // Word by word, as they have just been written: a load that spans two stores waits for both. A BTH, which
    // every packet has and most have alone, without counting.
    const std::uint8_t* const header = packet.header.data();
    for (unsigned i = 0; i < wire::kBthLength; i += 4) std::memcpy(at + i, header + i, 4);
    for (unsigned i = wire::kBthLength; i < packet.header_length; i += 4) std::memcpy(at + i, header + i, 4);
    at += packet.header_length;
    small_copy(at, piece.iov_base, piece.iov_len);
    if (packet.pad_count > 0) std::memset(at + piece.iov_len, 0, packet.pad_count);
    return true;
}

// Sequentially consistent, as is enter_sleep(): either the sleeper sees the packet or we see the sleeper.
inline bool LocalRing::publish() {
    packets_leave();
    control_.head.store(written_, std::memory_order_seq_cst);
    return control_.sleepers.load(std::memory_order_seq_cst) != 0;
}

inline bool LocalRing::publish_lightly() {
    packets_leave();
    control_.head.store(written_, std::memory_order_release);
    return control_.sleepers.load(std::memory_order_relaxed) != 0;
}

// Held by a thread of the producer's while it reads or writes the consumer's memory.
class LocalMark {
   public:
    explicit LocalMark(LocalRing& ring);
    ~LocalMark() { inside_.fetch_sub(1, std::memory_order_release); }
    LocalMark(const LocalMark&) = delete;
    LocalMark& operator=(const LocalMark&) = delete;

   private:
    std::atomic<std::uint32_t>& inside_;
};

}  // namespace verbena::link
