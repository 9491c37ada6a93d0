// A ring of packets in shared memory from one process to another of the same host: one producer side, one
// consumer (ring_layout.h). The data are mapped twice in a row, so that no packet is ever cut.
//
// A slot's number is written last. The consumer knows which comes next and looks at that slot, so that a
// short packet crosses from one processor's cache to the other's in one line; the head, in which the producer
// says how many there are, is for whoever asks without taking packets, and for what the consumer does ahead
// (read_ahead.h): which lines it fetches, and what it takes together. Of packets that are published together
// the first one's number is written last of all.
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
// The marks say that a thread of the producer's is at work on the consumer's memory by itself, and on what
// (LocalMark). Who takes memory or a queue pair away first makes that known (a dead key, a state), and then
// waits until each mark was once clear, or about something else. Both sides' accesses are sequentially
// consistent, so that one of them sees the other.
//
// Thread safety: append(), await_room(), publish() and publish_lightly() under a lock of the producer's,
// front(), together(), what is said of their packets, release() and settle() one thread at a time; everything
// else from any thread.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/prefetch.h"
#include "base/small_copy.h"
#include "link/first_touch.h"
#include "link/packet_order.h"
#include "link/read_ahead.h"
#include "link/ring_layout.h"
#include "link/slot_order.h"
#include "link/store_way.h"
#include "memory/outsiders.h"
#include "wire/bth.h"
#include "wire/packet_sink.h"
#include "wire/path.h"
#include "wire/short_packet.h"

namespace verbena::link {

class LocalRing : private RingLayout {
   public:
    using RingLayout::Form;
    using RingLayout::kBeside;
    using RingLayout::kCapacity;
    using RingLayout::kInSlot;
    using RingLayout::kMarks;
    using RingLayout::kSlots;

    // The consumer's; nullptr with errno and a reason.
    static std::unique_ptr<LocalRing> create();
    // The producer's: maps somebody's file, which stays the caller's. nullptr with errno and a reason if it
    // is no such ring, or has had a producer that was at work.
    static std::unique_ptr<LocalRing> open(int fd);
    ~LocalRing();
    LocalRing(const LocalRing&) = delete;
    LocalRing& operator=(const LocalRing&) = delete;

    int fd() const { return fd_; }  // the consumer's; -1 in the producer

    // Copies a packet in; false if there is no room. Nobody sees it before publish().
    bool append(const wire::Path& path, std::span<const iovec> pieces, const wire::Aside& aside = {},
                Form form = Form::packet);
    // The same of a whole packet, with one piece of payload at most. `follows`: another one, and nothing was
    // heard of the consumer in between, so that more will come.
    bool append(const wire::OutPacket& packet, bool follows = false) {
        return append_short(packet, follows) || append_long(packet, follows);
    }
    // The same of one that lies in its slot or beside it, to where the one before went.
    [[gnu::always_inline]] bool append(const wire::ShortPacket& packet, bool follows) {
        const std::size_t length = packet.padded_length();
        if (length > kBeside || written_.slots >= limit_.slots || has_other_addresses(*packet.path))
            [[unlikely]]
            return false;
        if (follows) reach_ahead(length, 0);
        Slot& slot = slot_of(written_.slots);
        slot.record = {static_cast<std::uint32_t>(length),
                       packet.acknowledged | (packet.acknowledges ? kAcknowledges : 0u), 1};
        std::uint8_t* at = slot.packet;
        if (length > kInSlot) {
            at = beside(written_.slots);
            touch_beside_.reach(besides_to(written_.slots));
        }
        std::uint8_t* const end = packet.write(at);
        if (packet.pad_count > 0) std::memset(end, 0, packet.pad_count);
        end_record(slot);
        return true;
    }
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
    [[gnu::always_inline]] bool front(std::span<const std::uint8_t>& bytes) {
        const Slot& slot = slot_of(read_.slots);
        if (!slot.holds(read_.slots)) [[unlikely]] {
            read_ahead_.found_nothing(read_.slots);
            return false;
        }
        packets_came();
        read_ahead_.found(read_.slots, Lines{*this});
        std::memcpy(&front_, &slot.record, sizeof front_);
        const std::size_t before = front_.flags & kHasAddresses ? sizeof(Addresses) : 0;
        const std::uint64_t size = before + front_.length;
        const std::uint8_t* at = slot.packet;
        front_data_ = 0;
        front_beside_ = size > kInSlot && size <= kBeside;
        if (front_beside_) {
            at = beside(read_.slots);
            touch_beside_.reach(besides_to(read_.slots));
        } else if (size > kBeside) {
            at = data_ + read_.data % kCapacity;
            front_data_ = round_up(size) + space();
            touch_data_.reach(read_.data + std::min(size, std::uint64_t{kCapacity}));
        }
        if (broken_.load(std::memory_order_relaxed) || front_data_ > kCapacity) [[unlikely]]
            return give_up();
        if (before > 0) [[unlikely]]
            read_addresses(at);
        bytes = {at + before, front_.length};
        return true;
    }
    // After front(): whether what together() gives may be more than that one.
    bool is_first_of_several() const {
        return followed() && !front_beside_ && front_data_ == 0 && !front_.has_more();
    }
    // How many packets, from the oldest on, are known to be there, lie in slots, come from where the one
    // before did, are for one queue pair and of one kind. After front(); each is valid until it is released.
    std::size_t together(std::span<wire::InPacket> out) {
        std::size_t count = 0;
        for (std::uint64_t place = read_.slots; count < out.size(); place++) {
            const Slot& slot = slot_of(place);
            if (!slot.holds(place)) [[unlikely]]
                break;
            packets_came();
            Record record;
            std::memcpy(&record, &slot.record, sizeof record);
            if (record.has_more() || record.length > kInSlot) break;
            if (count > 0 && !wire::is_alike(slot.packet, out[0].bytes.data())) break;
            read_ahead_.found(place, Lines{*this});
            out[count++] = {{slot.packet, record.length + wire::kIcrcLength}, aside_of(record)};
            if (!record.is_followed() && !read_ahead_.knows_of(place + 1)) break;
        }
        read_ahead_.takes_together(read_.slots + count, count, Lines{*this});
        return broken_.load(std::memory_order_relaxed) ? 0 : count;
    }
    void release(std::size_t count) { read_.slots += count; }
    // Of the packet of front(), until it is released. Its path has the addresses, and nothing else.
    const wire::Path& path() const { return read_path_; }
    wire::Aside aside() const { return aside_of(front_); }
    std::size_t space() const { return front_.flags & kSpaced ? kSpace : 0; }  // behind it, bytes
    Form form() const { return static_cast<Form>(front_.flags & (kElsewhere | kRow)); }
    // By one published together with it, or by one that the producer's head told of.
    bool followed() const { return front_.is_followed() || read_ahead_.knows_of(read_.slots + 1); }
    // Whether there surely is another packet behind the oldest.
    bool has_second() const { return slot_of(read_.slots + 1).holds(read_.slots + 1); }
    void release() {
        read_.slots++;
        read_.data += front_data_;
    }
    // What was released is the producer's again, which must happen each time that a small part of the ring
    // was. True if it waits for room and has to be woken.
    bool settle() {
        if (broken_.load(std::memory_order_relaxed)) [[unlikely]] {
            drop_all();
        } else if (settled_ != read_.slots) {
            settled_ = read_.slots;
            control_.tail.data.store(read_.data, std::memory_order_release);
            control_.tail.slots.store(read_.slots, std::memory_order_release);
        }
        return control_.awaited.load(std::memory_order_relaxed) != 0 && owes_room();
    }
    bool empty() const;  // any thread
    // Slots that there ever were and that are the producer's again; any thread.
    std::uint64_t settled() const { return control_.tail.slots.load(std::memory_order_relaxed); }
    // Whether a producer was ever at work, so that no other one can begin. Any thread.
    bool is_used() const;
    // Whether front() would surely find nothing; by the thread that calls it.
    bool looks_empty() const {
        return !slot_of(read_.slots).holds(read_.slots) || broken_.load(std::memory_order_relaxed);
    }

    void enter_sleep();
    void leave_sleep();

    // The consumer's: whether it fetches payloads.
    void fetch(bool on) { control_.fetches.store(on, std::memory_order_relaxed); }
    // The consumer's: whether a thread of the producer's is at work on this.
    bool marked(unsigned mark, const memory::Work& work = {}) const {
        const std::uint64_t word = control_.marks[mark].word.load(std::memory_order_seq_cst);
        return word != 0 && work.touches({static_cast<std::uint32_t>(word >> Mark::kQpAt) & kMarkBits,
                                          static_cast<std::uint32_t>(word >> Mark::kRegionAt) & kMarkBits});
    }

   private:
    friend class LocalMark;
    struct Position {  // as one side knows it
        std::uint64_t slots = 0, data = 0;
    };
    static constexpr std::uint32_t kMarkBits = 0xff'ffff;
    static constexpr std::size_t kAlignment = 64;
    static constexpr std::size_t kReached = (2 << 10) + 128;  // bytes: of what is asked for ahead
    static constexpr std::size_t kLong = 16 << 10;
    static constexpr std::uint64_t kAhead = 4;  // slots that are asked for ahead
    static constexpr std::uint64_t round_up(std::uint64_t size) {
        return (size + kAlignment - 1) & ~(kAlignment - 1);
    }

    LocalRing(std::uint8_t* memory, int fd);
    Slot& slot_of(std::uint64_t place) const { return slots_[line_of_slot(place % kSlots)]; }
    std::uint8_t* beside(std::uint64_t place) const {
        return beside_ + line_of_slot(place % kSlots) * kBeside;
    }
    // How many bytes there are beside this slot and all that lie before it.
    static std::uint64_t besides_to(std::uint64_t place) {
        return (place % kSlots / kSlotsTogether + 1) * kSlotsTogether * kBeside;
    }
    static wire::Aside aside_of(const Record& record) {
        return {std::clamp(record.psns, 1u, kPsnBits), (record.flags & kAcknowledges) != 0,
                record.flags & kPsnBits};
    }
    void read_addresses(const std::uint8_t* at);
    bool give_up();
    void drop_all();
    bool owes_room();
    bool fits(std::uint64_t data, const Position& limit) const {
        return written_.slots < limit.slots && written_.data + data <= limit.data;
    }
    static Position limit_by(const Position& tail) { return {tail.slots + kSlots, tail.data + kCapacity}; }
    bool finds_room(std::uint64_t data);
    // Room for so much that some may be left unused.
    bool has_plenty() { return is_half_free() || finds_plenty(); }
    bool is_half_free() const { return written_.data - seen_tail_.data <= kCapacity / 2; }
    bool finds_plenty();
    bool sees_tail();
    Position look_at_tail(std::memory_order order) const;
    bool is_possible(const Position& tail) const;  // else the consumer wrote nonsense
    static std::unique_ptr<LocalRing> map(int fd, bool consumer);
    bool has_other_addresses(const wire::Path& path) const {
        return path.destination != written_addresses_.destination || path.source != written_addresses_.source;
    }
    std::uint8_t* begin_record(const wire::Path& path, std::size_t length, const wire::Aside& aside,
                               Form form, bool follows);
    bool append_short(const wire::OutPacket& packet, bool follows);
    bool append_long(const wire::OutPacket& packet, bool follows);
    static std::uint32_t flags_of(const wire::Aside& aside) {
        return (aside.acknowledged & kPsnBits) | (aside.acknowledges ? kAcknowledges : 0u);
    }
    static std::uint8_t* copy_header(std::uint8_t* at, const wire::OutPacket& packet);
    void copy_in(std::uint8_t* at, const iovec& piece) {
        if (piece.iov_len < StoreWay::kFrom) [[likely]]
            small_copy(at, piece.iov_base, piece.iov_len);
        else
            way_of(piece.iov_len).copy(at, piece.iov_base, piece.iov_len);
    }
    // Little of a long one is absorbed by the processor's queue of stores, so that what they take differs.
    StoreWay& way_of(std::size_t length) { return length < kLong ? way_of_short_ : way_of_long_; }
    void end_record(Slot& slot) {
        const std::uint64_t place = written_.slots++;
        if (place == published_) {
            first_unpublished_ = &slot;
            return;
        }
        slot_of(place - 1).record.flags |= kFollowed;
        slot.publish(place);
    }
    void show() {
        packets_leave();
        if (published_ != written_.slots) first_unpublished_->publish(published_);
        published_ = written_.slots;
        control_.head.data.store(written_.data, std::memory_order_relaxed);
    }
    // The consumer's processor has read the lines that are written next, and would be asked for each when it
    // is written, while all stores behind it wait. (Of a larger record the lines are asked for together
    // anyhow.) Those that follow are as large as this one, probably, which takes so many bytes of data.
    void reach_ahead(std::uint64_t size, std::uint64_t data) const {
        if (size > kReached) return;
        prefetch_to_write(&slot_of(written_.slots + kAhead));
        if (size <= kInSlot) return;
        const std::uint8_t* const place =
            data == 0 ? beside(written_.slots + kAhead) : data_ + (written_.data + kAhead * data) % kCapacity;
        for (std::uint64_t at = 0; at < size; at += kAlignment) prefetch_to_write(place + at);
    }
    void fetch_long(std::uint64_t place) const;
    struct Lines {  // for ReadAhead
        void fetch(std::uint64_t place) const {
            prefetch_to_read(&ring.slot_of(place));
            if (ring.front_.length > kInSlot) [[unlikely]]
                ring.fetch_long(place);
        }
        void fetch_head() const { prefetch_to_read(&ring.control_.head); }
        std::uint64_t head() const { return ring.control_.head.slots.load(std::memory_order_relaxed); }

        const LocalRing& ring;
    };

    Control& control_;
    Slot* const slots_;
    std::uint8_t* const beside_;
    std::uint8_t* const data_;
    const int fd_;
    FirstTouch touch_slots_, touch_beside_, touch_data_;

    // The producer's.
    Position written_;             // copied in, perhaps not yet published
    std::uint64_t published_ = 0;  // slots
    Slot* first_unpublished_ = nullptr;
    Position seen_tail_;           // of the past
    Position limit_;               // how far it may write: room was seen there, and pages are real
    std::uint64_t plenty_at_ = 0;  // bytes of data: when the tail is looked at for plenty again
    std::uint64_t refused_ = 0;    // bytes of data, with its space, of the record that found no room
    Addresses written_addresses_;  // of the newest record; zero before the first, as the consumer's are
    StoreWay way_of_short_, way_of_long_;
    // The consumer's.
    Position read_;
    ReadAhead read_ahead_;
    Record front_{};
    std::uint64_t front_data_ = 0;
    bool front_beside_ = false;
    wire::Path read_path_;
    std::uint64_t settled_ = 0;  // slots: the tail that the producer sees
    std::atomic<bool> broken_{false};
};

// Word by word, as it has just been written: a load that spans two stores waits for both. A BTH, which every
// packet has and most have alone, without counting. Returns where the payload goes.
inline std::uint8_t* LocalRing::copy_header(std::uint8_t* at, const wire::OutPacket& packet) {
    const std::uint8_t* const header = packet.header.data();
    for (unsigned i = 0; i < wire::kBthLength; i += 4) std::memcpy(at + i, header + i, 4);
    for (unsigned i = wire::kBthLength; i < packet.header_length; i += 4) std::memcpy(at + i, header + i, 4);
    return at + packet.header_length;
}

// What most packets are, without the questions that only others have to ask: one that lies in its slot, to
// where the one before went. False: it is none, or there may be no room.
inline bool LocalRing::append_short(const wire::OutPacket& packet, bool follows) {
    const bool empty = packet.payload.empty();
    const std::size_t payload = empty ? 0 : packet.payload[0].iov_len;
    const std::size_t length = packet.header_length + payload + packet.pad_count;
    if (length > kInSlot || written_.slots >= limit_.slots || has_other_addresses(*packet.path)) [[unlikely]]
        return false;
    if (follows) reach_ahead(length, 0);
    Slot& slot = slot_of(written_.slots);
    slot.record = {static_cast<std::uint32_t>(length), flags_of(packet.aside), packet.aside.psns};
    std::uint8_t* const at = copy_header(slot.packet, packet);
    if (!empty) small_copy(at, packet.payload[0].iov_base, payload);
    if (packet.pad_count > 0) std::memset(at + payload, 0, packet.pad_count);
    end_record(slot);
    return true;
}

// Sequentially consistent, as is enter_sleep(): either the sleeper sees the packet or we see the sleeper.
inline bool LocalRing::publish() {
    show();
    control_.head.slots.store(written_.slots, std::memory_order_seq_cst);
    return control_.sleepers.load(std::memory_order_seq_cst) != 0;
}

inline bool LocalRing::publish_lightly() {
    show();
    control_.head.slots.store(written_.slots, std::memory_order_release);
    return control_.sleepers.load(std::memory_order_relaxed) != 0;
}

// Held by a thread of the producer's while it reads or writes the consumer's memory.
class LocalMark {
   public:
    LocalMark(LocalRing& ring, const memory::Work& work);
    ~LocalMark();
    LocalMark(const LocalMark&) = delete;
    LocalMark& operator=(const LocalMark&) = delete;

    // What it is about, now that it is known: before the look at whether that still is there.
    void narrow(const memory::Work& work);

   private:
    std::atomic<std::uint64_t>& word_;
    std::uint64_t own_;  // the word, unless other threads have the mark as well
};

}  // namespace verbena::link
