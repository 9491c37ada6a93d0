#include "link/local_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/reason.h"
#include "base/sealed_file.h"
#include "base/thread_number.h"
#include "base/uncancelled.h"

namespace verbena::link {
namespace {

// Packets begin in the first half of the data.
constexpr std::size_t kMapping = RingLayout::kFile + RingLayout::kCapacity;

FirstTouch::For use_of(int consumers_fd) {
    return consumers_fd < 0 ? FirstTouch::For::writing : FirstTouch::For::reading;
}

}  // namespace

std::unique_ptr<LocalRing> LocalRing::create() {
    const int fd = create_sealed_file("verbena-ring", kFile);
    if (fd < 0) return fail_null(errno, "making a ring (memfd_create): %s", std::strerror(errno));
    std::unique_ptr<LocalRing> ring = map(fd, true);
    if (!ring) {
        const int error = errno;
        uncancelled::close(fd);
        errno = error;
        return nullptr;
    }
    ring->control_.magic = kMagic;
    return ring;
}

std::unique_ptr<LocalRing> LocalRing::open(int fd) {
    if (sealed_length(fd) != kFile) return fail_null(EPROTO, "what a peer sent is no ring");
    std::unique_ptr<LocalRing> ring = map(fd, false);
    if (ring && ring->control_.magic != kMagic)
        return fail_null(EPROTO, "what a peer sent is no ring of this version");
    if (ring && ring->is_used())
        return fail_null(EPROTO, "what a peer sent is a ring that somebody has written to");
    return ring;
}

std::unique_ptr<LocalRing> LocalRing::map(int fd, bool consumer) {
    void* place = mmap(nullptr, kMapping, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return fail_null(errno, "no address space for a ring");
    auto* memory = static_cast<std::uint8_t*>(place);
    constexpr int kFlags = MAP_SHARED | MAP_FIXED;
    if (mmap(memory, kFile, PROT_READ | PROT_WRITE, kFlags, fd, 0) == MAP_FAILED ||
        mmap(memory + kFile, kCapacity, PROT_READ | PROT_WRITE, kFlags, fd, kDataAt) == MAP_FAILED) {
        const int error = errno;
        munmap(memory, kMapping);
        return fail_null(error, "mapping a ring: %s", std::strerror(error));
    }
    madvise(memory, kMapping, MADV_DONTFORK);  // a child has rings of its own
    return std::unique_ptr<LocalRing>(new LocalRing(memory, consumer ? fd : -1));
}

LocalRing::LocalRing(std::uint8_t* memory, int fd)
    : control_(*reinterpret_cast<Control*>(memory)),
      slots_(reinterpret_cast<Slot*>(memory + kSlotsAt)),
      beside_(memory + kBesidesAt),
      data_(memory + kDataAt),
      fd_(fd),
      touch_slots_(memory + kSlotsAt, kBesidesAt - kSlotsAt, kSlotsTogether * sizeof(Slot),
                   FirstTouch::For::writing),
      touch_beside_(beside_, kDataAt - kBesidesAt, kSlotsTogether * kBeside, use_of(fd)),
      touch_data_(data_, kCapacity, 2 * kPage, use_of(fd)) {}

LocalRing::~LocalRing() {
    munmap(&control_, kMapping);
    if (fd_ >= 0) uncancelled::close(fd_);
}

bool LocalRing::sees_tail() {
    const Position tail = look_at_tail(std::memory_order_acquire);
    if (!is_possible(tail)) return false;
    seen_tail_ = tail;
    return true;
}

bool LocalRing::finds_room(std::uint64_t data) {
    if (!sees_tail()) return false;
    const Position room = limit_by(seen_tail_);
    if (!fits(data, room)) {
        refused_ = data;
        return false;
    }
    limit_ = {std::min(room.slots, touch_slots_.reach((written_.slots + 1) * sizeof(Slot)) / sizeof(Slot)),
              std::min(room.data, touch_data_.reach(written_.data + data))};
    return true;
}

// Not each time, of a consumer that is far behind.
bool LocalRing::finds_plenty() {
    if (written_.data < plenty_at_) return false;
    plenty_at_ = written_.data + kCapacity / 16;
    return sees_tail() && is_half_free();
}

// Its data may be of a later moment than its slots: then there is even more room.
LocalRing::Position LocalRing::look_at_tail(std::memory_order order) const {
    Position tail;
    tail.slots = control_.tail.slots.load(order);
    tail.data = control_.tail.data.load(std::memory_order_acquire);
    return tail;
}

bool LocalRing::is_possible(const Position& tail) const {
    return tail.slots >= seen_tail_.slots && tail.slots <= written_.slots && tail.data >= seen_tail_.data &&
           tail.data <= written_.data;
}

// Where the `length` bytes of the next packet go; nullptr: there is no room.
std::uint8_t* LocalRing::begin_record(const wire::Path& path, std::size_t length, const wire::Aside& aside,
                                      Form form, bool follows) {
    const bool has_addresses = has_other_addresses(path);
    const std::uint64_t size = (has_addresses ? sizeof(Addresses) : 0) + length;
    const bool spaced = size > kBeside && size < kSpacedBelow && has_plenty();
    const std::uint64_t data = size > kBeside ? round_up(size) + (spaced ? kSpace : 0) : 0;
    if (!fits(data, limit_) && !finds_room(data)) return nullptr;
    if (follows) reach_ahead(size, data);
    Slot& slot = slot_of(written_.slots);
    std::uint8_t* at = slot.packet;
    if (data > 0) {
        at = data_ + written_.data % kCapacity;
        written_.data += data;
    } else if (size > kInSlot) {
        at = beside(written_.slots);
        touch_beside_.reach(besides_to(written_.slots));
    }
    slot.record.length = static_cast<std::uint32_t>(length);
    slot.record.flags = flags_of(aside) | (has_addresses ? kHasAddresses : 0u) |
                        static_cast<std::uint32_t>(form) | (spaced ? kSpaced : 0u);
    slot.record.psns = aside.psns;
    if (has_addresses) {
        written_addresses_ = {path.source, path.destination};
        std::memcpy(at, &written_addresses_, sizeof written_addresses_);
        at += sizeof written_addresses_;
    }
    return at;
}

bool LocalRing::append_long(const wire::OutPacket& packet, bool follows) {
    const iovec piece = packet.payload.empty() ? iovec{} : packet.payload[0];
    std::uint8_t* at = begin_record(*packet.path, packet.header_length + piece.iov_len + packet.pad_count,
                                    packet.aside, Form::packet, follows);
    if (!at) return false;
    at = copy_header(at, packet);
    copy_in(at, piece);
    if (packet.pad_count > 0) std::memset(at + piece.iov_len, 0, packet.pad_count);
    end_record(slot_of(written_.slots));
    return true;
}

bool LocalRing::append(const wire::Path& path, std::span<const iovec> pieces, const wire::Aside& aside,
                       Form form) {
    std::size_t length = 0;
    for (const iovec& piece : pieces) length += piece.iov_len;
    std::uint8_t* at = begin_record(path, length, aside, form, false);
    if (!at) return false;
    for (const iovec& piece : pieces) {
        copy_in(at, piece);
        at += piece.iov_len;
    }
    end_record(slot_of(written_.slots));
    return true;
}

bool LocalRing::await_room() {
    control_.awaited.store(1, std::memory_order_seq_cst);
    const Position tail = look_at_tail(std::memory_order_seq_cst);
    if (!is_possible(tail) || !fits(refused_, limit_by(tail))) return false;
    control_.awaited.store(0, std::memory_order_relaxed);
    return true;
}

bool LocalRing::unread() const {
    return control_.tail.slots.load(std::memory_order_acquire) <
           control_.head.slots.load(std::memory_order_relaxed);
}

// What lies outside of that slot, if it is as large as the last one, probably.
void LocalRing::fetch_long(std::uint64_t place) const {
    if (front_data_ == 0) {
        prefetch_to_read(beside(place));
        prefetch_to_read(beside(place) + kAlignment);
    } else if (front_.length <= kReached) {
        const std::uint8_t* const data =
            data_ + (read_.data + (place - read_.slots) * front_data_) % kCapacity;
        for (std::uint64_t at = 0; at < front_.length; at += kAlignment) prefetch_to_read(data + at);
    }
}

void LocalRing::read_addresses(const std::uint8_t* at) {
    Addresses addresses;
    std::memcpy(&addresses, at, sizeof addresses);
    read_path_.source = addresses.source;
    read_path_.destination = addresses.destination;
}

bool LocalRing::give_up() {
    if (!broken_.exchange(true, std::memory_order_relaxed))
        log(LogLevel::warn,
            "a peer of this host wrote nonsense into its ring; nothing more is taken from it");
    return false;
}

// Of a broken ring: what comes is lost, but neither unread nor in the way of what follows.
void LocalRing::drop_all() {
    control_.tail.data.store(control_.head.data.load(std::memory_order_relaxed), std::memory_order_release);
    control_.tail.slots.store(control_.head.slots.load(std::memory_order_acquire), std::memory_order_release);
}

bool LocalRing::owes_room() {
    if (control_.awaited.load(std::memory_order_seq_cst) == 0) return false;
    const auto waiting = [&](auto SharedPosition::*which) {  // perhaps taken before the head tells of it
        const std::uint64_t head = (control_.head.*which).load(std::memory_order_relaxed);
        const std::uint64_t tail = (control_.tail.*which).load(std::memory_order_relaxed);
        return head > tail ? head - tail : 0;
    };
    if (waiting(&SharedPosition::slots) > kSlots / 2 || waiting(&SharedPosition::data) > kCapacity / 2)
        return false;
    return control_.awaited.exchange(0, std::memory_order_seq_cst) != 0;
}

// What is being taken may be told of by the tail before it is by the head.
bool LocalRing::empty() const {
    return broken_.load(std::memory_order_relaxed) || control_.head.slots.load(std::memory_order_seq_cst) <=
                                                          control_.tail.slots.load(std::memory_order_relaxed);
}

// One that was killed may have shown a second packet and neither the first nor its head.
bool LocalRing::is_used() const {
    for (unsigned mark = 0; mark < kMarks; mark++)
        if (marked(mark)) return true;
    return control_.head.slots.load(std::memory_order_acquire) != 0 || settled() != 0 ||
           slot_of(0).holds(0) || slot_of(1).holds(1);
}

// What the caller published, or knows that another thread did, comes before the look.
bool LocalRing::sleeps() const {
    __sync_synchronize();
    return control_.sleepers.load(std::memory_order_seq_cst) != 0;
}

void LocalRing::enter_sleep() { control_.sleepers.fetch_add(1, std::memory_order_seq_cst); }

namespace {

std::uint64_t mark_of_one(const memory::Work& work) {
    using Mark = RingLayout::Mark;
    return 1 | std::uint64_t{work.qp} << Mark::kQpAt | std::uint64_t{work.region} << Mark::kRegionAt;
}

}  // namespace

LocalMark::LocalMark(LocalRing& ring, const memory::Work& work)
    : word_(ring.control_.marks[number_of_this_thread() % LocalRing::kMarks].word), own_(mark_of_one(work)) {
    const std::uint64_t alone = own_;
    std::uint64_t now = 0;
    do own_ = now == 0 ? alone : (now & RingLayout::Mark::kThreads) + 1;
    while (!word_.compare_exchange_weak(now, own_, std::memory_order_seq_cst));
}

LocalMark::~LocalMark() {
    std::uint64_t now = own_;
    const auto without_us = [&] { return (now & RingLayout::Mark::kThreads) > 1 ? now - 1 : 0; };
    while (
        !word_.compare_exchange_weak(now, without_us(), std::memory_order_release, std::memory_order_relaxed))
        continue;
}

void LocalMark::narrow(const memory::Work& work) {
    std::uint64_t now = own_;
    if ((own_ & RingLayout::Mark::kThreads) != 1) return;
    own_ = mark_of_one(work);
    if (!word_.compare_exchange_strong(now, own_, std::memory_order_seq_cst)) own_ = now;
}

void LocalRing::leave_sleep() { control_.sleepers.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace verbena::link
