#include "adapter/foreign_memory.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "adapter/clock.h"
#include "adapter/presence.h"
#include "base/sealed_file.h"
#include "base/uncancelled.h"
#include "transport/attributes.h"

namespace verbena::adapter {
namespace {

using transport::Direct;
using transport::length_of;

constexpr Duration kVerifyEvery = kMillisecond;

// A table of a segment; false if it does not lie within.
template <class Record>
bool take_table(const void* segment, std::uint64_t size, std::uint64_t offset, std::uint32_t count,
                std::span<const Record>& table) {
    if (offset % alignof(QpRecord) != 0 || offset > size || count > (size - offset) / sizeof(Record))
        return false;
    const auto* bytes = static_cast<const std::uint8_t*>(segment) + offset;
    table = {reinterpret_cast<const Record*>(bytes), count};
    return true;
}

Direct whole(ssize_t done, std::size_t wanted) {
    return done == static_cast<ssize_t>(wanted) ? Direct::done : Direct::declined;
}

// How many of these bytes lie in the aligned word of the last one.
std::size_t last_word(std::uint64_t at, std::size_t length) {
    return std::min<std::size_t>(length, ((at + length - 1) & 7) + 1);
}

// What is stored at once, however the kernel copies.
bool is_word(std::uint64_t at, std::size_t length) {
    return (length == 1 || length == 4 || length == 8) && at % length == 0;
}

// Whether stores are seen in the order in which they are made.
#if defined(__x86_64__)
constexpr bool kStoresInOrder = true;
#else
constexpr bool kStoresInOrder = false;
#endif

// Whether the kernel finds the last `tail` bytes in one place, and so stores a word of them at once: behind
// the end of a page it goes on with the next, byte by byte.
bool ends_in_one_place(const iovec& last, std::size_t tail) {
    constexpr std::uintptr_t kPage = 4096;
    const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(last.iov_base) + last.iov_len;
    return last.iov_len >= tail && (end - tail) / kPage == (end - 1) / kPage;
}

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

}  // namespace

// Where the record of a queue pair was found last. A process's numbers are drawn from few ranges, so that
// their low bits hardly meet. Pages become real as they are used.
class ForeignMemory::Hints {
   public:
    Hints() {
        void* mapping = mmap(nullptr, kCount * sizeof(Index), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping != MAP_FAILED) indices_ = static_cast<Index*>(mapping);
    }
    ~Hints() {
        if (indices_) munmap(indices_, kCount * sizeof(Index));
    }
    Hints(const Hints&) = delete;
    Hints& operator=(const Hints&) = delete;

    explicit operator bool() const { return indices_ != nullptr; }
    std::atomic<std::uint32_t>& of(std::uint32_t number) const { return indices_[number % kCount]; }

   private:
    using Index = std::atomic<std::uint32_t>;
    static constexpr std::size_t kCount = 1 << 16;
    Index* indices_ = nullptr;
};

std::unique_ptr<ForeignMemory> ForeignMemory::open(pid_t pid, int segment_fd, std::uint64_t segment_address) {
    const std::size_t size = sealed_length(segment_fd).value_or(0);
    if (size < sizeof(SegmentHeader)) return nullptr;
    void* mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, segment_fd, 0);
    if (mapping == MAP_FAILED) return nullptr;
    std::unique_ptr<ForeignMemory> memory(
        new ForeignMemory(pid, *static_cast<const SegmentHeader*>(mapping), size, segment_address));
    if (!*memory->hints_) return nullptr;
    const SegmentHeader& header = memory->header_;
    const std::uint32_t queue_pairs = header.qp_count;  // once: they are somebody else's to change
    if (header.magic != kSegmentMagic || header.version != kSegmentVersion ||
        !take_table(mapping, size, header.region_offset, header.region_count, memory->regions_) ||
        !take_table(mapping, size, header.qp_offset, queue_pairs, memory->queue_pairs_) ||
        !take_table(mapping, size, header.busy_offset, queue_pairs, memory->busy_))
        return nullptr;
    return memory->reads_nonce() ? std::move(memory) : nullptr;
}

ForeignMemory::ForeignMemory(pid_t pid, const SegmentHeader& header, std::size_t size, std::uint64_t address)
    : pid_(pid),
      file_(pid),
      header_(header),
      size_(size),
      address_(address),
      generation_(header.generation.load()),
      hints_(std::make_unique<Hints>()) {}

ForeignMemory::~ForeignMemory() { munmap(const_cast<SegmentHeader*>(&header_), size_); }

// Is that process the owner of these tables, and may we?
bool ForeignMemory::reads_nonce() const {
    std::uint64_t nonce[2] = {};
    const std::uint64_t there = address_ + offsetof(SegmentHeader, nonce);
    // Where /proc is of another namespace of processes, that number is somebody else there.
    if (file_.usable() && (file_.read(there, nonce, sizeof nonce) != MemoryFile::Result::done ||
                           std::memcmp(nonce, header_.nonce, sizeof nonce) != 0))
        file_.give_up();
    const iovec local{nonce, sizeof nonce};
    const iovec remote{pointer(there), sizeof nonce};
    return process_vm_readv(pid_, &local, 1, &remote, 1, 0) == sizeof nonce &&
           std::memcmp(nonce, header_.nonce, sizeof nonce) == 0 && (nonce[0] != 0 || nonce[1] != 0);
}

bool ForeignMemory::verify(int life_fd, Time now) const {
    if (gone_.load(std::memory_order_relaxed) || Presence::state(header_.present) == Presence::State::over)
        return false;
    const Duration age = now - verified_.load(std::memory_order_relaxed);
    if (age >= 0 && age < kVerifyEvery) return true;
    pollfd state{life_fd, POLLIN, 0};
    if ((life_fd >= 0 && uncancelled::poll_at_once(&state, 1) > 0) || !reads_nonce()) {
        gone_.store(true, std::memory_order_relaxed);
        return false;
    }
    verified_.store(now, std::memory_order_relaxed);
    return true;
}

const QpRecord* ForeignMemory::find(std::uint32_t number) const {
    const std::uint32_t last = hints_->of(number).load(std::memory_order_relaxed);
    if (last < queue_pairs_.size() && queue_pairs_[last].number.load(std::memory_order_acquire) == number)
        return &queue_pairs_[last];
    // Who has many comes to them one after the other: each search goes on behind the one before.
    const auto count = static_cast<std::uint32_t>(queue_pairs_.size());
    const std::uint32_t behind = searched_.load(std::memory_order_relaxed);
    const QpRecord* const found = search(number, behind, count);
    return found ? found : search(number, 0, behind);
}

// Records are taken in order and reused, so the search ends at the first one that was never used.
const QpRecord* ForeignMemory::search(std::uint32_t number, std::uint32_t from, std::uint32_t to) const {
    for (std::uint32_t i = from; i < to && queue_pairs_[i].created != 0; i++) {
        const std::uint32_t here = queue_pairs_[i].number.load(std::memory_order_acquire);
        hints_->of(here).store(i, std::memory_order_relaxed);
        if (here != number) continue;
        searched_.store(i + 1, std::memory_order_relaxed);
        return &queue_pairs_[i];
    }
    return nullptr;
}

bool ForeignMemory::is_of(const QpRecord& qp, const wire::Path& path, std::uint32_t qp_number) const {
    const auto state = static_cast<transport::QpState>(qp.state.load(std::memory_order_seq_cst));
    return (state == transport::QpState::rts || state == transport::QpState::rtr) &&
           qp.service == static_cast<std::uint32_t>(transport::Service::rc) && qp.peer_qp == qp_number &&
           qp.peer == path.source && qp.local == path.destination;
}

// The responder's checks (IBA 9.7.4.1), on copies of the fields.
Direct ForeignMemory::accepts(const QpRecord& qp, const transport::DirectTarget& target, bool write) const {
    const memory::Access need = write ? memory::kRemoteWrite : memory::kRemoteRead;
    if (!is_of(qp, target.path, target.qp_number) || (qp.access & need) != need ||
        (!write && qp.max_destination_rd_atomic < target.reads_at_once))
        return Direct::declined;
    const auto state = static_cast<transport::QpState>(qp.state.load(std::memory_order_relaxed));
    const bool waits = state == transport::QpState::rtr && busy_of(qp).packets_received == 0;
    return waits ? Direct::not_yet : Direct::done;
}

std::uint64_t ForeignMemory::permit(const QpRecord& qp, std::uint32_t number, const Wanted& wanted) const {
    const std::uint32_t index = memory::index_of(wanted.key);
    if (index == 0 || index >= regions_.size() || memory::looks_like_lkey(wanted.key) == wanted.remote)
        return 0;
    const memory::RegionRecord& region = regions_[index];
    const std::uint32_t tag = wanted.key & memory::kTagMask;
    if (tag == 0 || region.tag.load(std::memory_order_seq_cst) != tag ||
        region.kind.load(std::memory_order_acquire) != memory::RecordKind::region ||
        (wanted.remote && region.remote_invalid.load(std::memory_order_acquire) != 0))
        return 0;
    const std::uint64_t iova = region.iova, length = region.length, address = region.address;
    const memory::Access access = region.access;
    if (region.pd != qp.pd || (access & wanted.access) != wanted.access || (access & memory::kOnDemand) ||
        wanted.address < iova)
        return 0;
    const std::uint64_t offset = wanted.address - iova;
    if (offset >= length || wanted.length > length - offset) return 0;
    // The record was whole while we copied it.
    if (region.tag.load(std::memory_order_seq_cst) != tag ||
        qp.number.load(std::memory_order_acquire) != number)
        return 0;
    return address + offset;
}

// In one piece: a large copy evicts from the cache what stands around it, line by line.
[[gnu::flatten]] Direct ForeignMemory::transfer(const transport::DirectTarget& target,
                                                std::span<const iovec> local, bool write) const {
    if (header_.generation.load(std::memory_order_acquire) != generation_) return Direct::declined;
    const QpRecord* qp = find(target.destination);
    if (!qp) return Direct::declined;
    if (const Direct answer = accepts(*qp, target, write); answer != Direct::done) return answer;
    const Wanted wanted{target.rkey, true, target.address, target.length,
                        write ? memory::kRemoteWrite : memory::kRemoteRead};
    const std::uint64_t begin = permit(*qp, target.destination, wanted);
    if (begin == 0) return Direct::declined;
    const std::uint64_t at = begin + target.offset;
    const std::size_t length = length_of(local);
    if (length == 0 || length > target.length - target.offset) return Direct::declined;
    const bool fits = local.size() == 1 && (write ? is_word(at, length) : length <= MemoryFile::kMost);
    if (!fits || !file_.usable()) return by_call(at, local, length, write);
    const MemoryFile::Result result =
        write ? file_.write(local[0].iov_base, at, length) : file_.read(at, local[0].iov_base, length);
    if (result == MemoryFile::Result::done) return Direct::done;
    if (result == MemoryFile::Result::over) {
        gone_.store(true, std::memory_order_relaxed);
        return Direct::declined;
    }
    const Direct answer = by_call(at, local, length, write);
    if (answer == Direct::done) file_.give_up();
    return answer;
}

// A WRITE's pieces are cut in front of its last word, not the place where they go: that would be looked up by
// the kernel for each part.
Direct ForeignMemory::by_call(std::uint64_t at, std::span<const iovec> local, std::size_t length,
                              bool write) const {
    const iovec whole_place{pointer(at), length};
    if (!write) return whole(process_vm_readv(pid_, local.data(), local.size(), &whole_place, 1, 0), length);
    constexpr unsigned kMaxPieces = 64;
    if (local.size() > kMaxPieces) return Direct::declined;
    const std::size_t tail = last_word(at, length), body = length - tail;
    std::array<iovec, kMaxPieces + 1> pieces;
    unsigned count = 0;
    alignas(8) std::uint8_t word[8];
    if (const iovec& last = local.back(); ends_in_one_place(last, tail)) {
        for (const iovec& piece : local) pieces[count++] = piece;
        pieces[count - 1].iov_len -= tail;
        if (pieces[count - 1].iov_len == 0) count--;
        pieces[count++] = {static_cast<std::uint8_t*>(last.iov_base) + last.iov_len - tail, tail};
    } else {
        std::size_t left = body, gathered = 0;
        for (const iovec& piece : local) {
            const std::size_t here = std::min(left, piece.iov_len), rest = piece.iov_len - here;
            left -= here;
            if (here > 0) pieces[count++] = {piece.iov_base, here};
            std::memcpy(word + gathered, static_cast<const std::uint8_t*>(piece.iov_base) + here, rest);
            gathered += rest;
        }
        pieces[count++] = {word, tail};
    }
    if (kStoresInOrder || body == 0)
        return whole(process_vm_writev(pid_, pieces.data(), count, &whole_place, 1, 0), length);
    // The tail is a call of its own, behind a fence.
    const iovec places[2] = {{pointer(at), body}, {pointer(at + body), tail}};
    if (process_vm_writev(pid_, pieces.data(), count - 1, places, 1, 0) != static_cast<ssize_t>(body))
        return Direct::declined;
    std::atomic_thread_fence(std::memory_order_release);
    return whole(process_vm_writev(pid_, pieces.data() + count - 1, 1, places + 1, 1, 0), tail);
}

bool ForeignMemory::sends(const QpRecord& qp, std::uint32_t number) {
    const auto state = static_cast<transport::QpState>(qp.state.load(std::memory_order_seq_cst));
    return qp.number.load(std::memory_order_acquire) == number &&
           (state == transport::QpState::rts || state == transport::QpState::sqd);
}

link::PeerMemory::Fetched ForeignMemory::fetch(std::uint32_t qp_number, std::span<const iovec> from,
                                               std::span<const iovec> into) const {
    constexpr unsigned kMaxPieces = 65;
    if (header_.generation.load(std::memory_order_acquire) != generation_ || from.size() >= kMaxPieces ||
        into.size() >= kMaxPieces)
        return Fetched::refused;
    const QpRecord* qp = find(qp_number);
    if (!qp || !sends(*qp, qp_number)) return Fetched::not_sent;
    const std::uint64_t created = qp->created;
    std::array<iovec, kMaxPieces> local, remote;
    std::ranges::copy(into, local.begin());
    std::ranges::copy(from, remote.begin());
    std::size_t length = length_of(into);
    // Who shows no presence is known by what else is read in the same call.
    std::uint64_t nonce[2] = {};
    const bool shows = Presence::state(header_.present) != Presence::State::unknown;
    if (!shows) {
        local[into.size()] = {nonce, sizeof nonce};
        remote[from.size()] = {pointer(address_ + offsetof(SegmentHeader, nonce)), sizeof nonce};
        length += sizeof nonce;
    }
    const unsigned more = shows ? 0 : 1;
    if (process_vm_readv(pid_, local.data(), into.size() + more, remote.data(), from.size() + more, 0) !=
        static_cast<ssize_t>(length))
        return Fetched::refused;
    // What has not been acknowledged is the sender's again only when its queue pair sends no more.
    __sync_synchronize();
    if (!sends(*qp, qp_number) || qp->created != created) return Fetched::not_sent;
    const bool is_there = shows ? Presence::state(header_.present) == Presence::State::here
                                : std::memcmp(nonce, header_.nonce, sizeof nonce) == 0;
    return is_there ? Fetched::done : Fetched::not_sent;
}

bool ForeignMemory::store(const Place& place, int life_fd, std::span<const std::uint8_t> from,
                          link::LocalMark& mark) const {
    if (header_.generation.load(std::memory_order_acquire) != generation_ || !verify(life_fd, now()))
        return false;
    const QpRecord* qp = find(place.qp_number);
    if (!qp || !sends(*qp, place.qp_number) || !qp->shown.takes_answer(place.right)) return false;
    const std::uint32_t lkey = transport::ShownReceives::lkey_of(place.right);
    mark.narrow({place.qp_number, memory::index_of(lkey)});
    const Wanted wanted{lkey, false, place.address, from.size(), memory::kLocalWrite};
    const std::uint64_t there = permit(*qp, place.qp_number, wanted);
    const iovec piece{const_cast<std::uint8_t*>(from.data()), from.size()};
    return there != 0 && by_call(there, {&piece, 1}, from.size(), true) == Direct::done;
}

std::optional<transport::ShownReceives::Next> ForeignMemory::shown(std::uint32_t qp_number) const {
    const QpRecord* qp = find(qp_number);
    return qp ? qp->shown.next(busy_of(*qp).messages_received) : std::nullopt;
}

Direct ForeignMemory::place(const transport::PlaceTarget& target, std::span<const iovec> from,
                            link::LocalMark& mark) const {
    if (header_.generation.load(std::memory_order_acquire) != generation_) return Direct::declined;
    const QpRecord* qp = find(target.destination);
    if (!qp || !is_of(*qp, target.path, target.qp_number)) return Direct::declined;
    const auto receive = qp->shown.find(target.receive);
    if (!receive) return Direct::not_yet;
    const std::size_t length = length_of(from);
    if (length == 0 || target.offset > receive->length || length > receive->length - target.offset)
        return Direct::declined;
    mark.narrow({target.destination, memory::index_of(receive->lkey)});
    const Wanted wanted{receive->lkey, false, receive->address, receive->length, memory::kLocalWrite};
    const std::uint64_t begin = permit(*qp, target.destination, wanted);
    return begin != 0 ? by_call(begin + target.offset, from, length, true) : Direct::declined;
}

bool ForeignMemory::serves(Time now) const {
    return confidence_.justified(header_.crowded.load(std::memory_order_relaxed) != 0, now);
}

}  // namespace verbena::adapter
