#include "link/local_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/reason.h"

namespace verbena::link {
namespace {

constexpr std::uint64_t kMagic = 0x35474e52'42524556;  // "VERBRNG5" in memory order
constexpr std::size_t kPage = 4096;
constexpr std::size_t kFile = kPage + LocalRing::kCapacity;
constexpr std::size_t kMapping = kPage + 2 * LocalRing::kCapacity;  // records begin in the first half
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

unsigned mark_of_this_thread() {
    static std::atomic<unsigned> next{0};
    thread_local const unsigned mark = next.fetch_add(1, std::memory_order_relaxed) % LocalRing::kMarks;
    return mark;
}

}  // namespace

std::unique_ptr<LocalRing> LocalRing::create() {
    const int fd = memfd_create("verbena-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return fail_null(errno, "memfd_create: %s", std::strerror(errno));
    if (ftruncate(fd, static_cast<off_t>(kFile)) != 0 || fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
        const int error = errno;
        close(fd);
        return fail_null(error, "making a ring: %s", std::strerror(error));
    }
    std::unique_ptr<LocalRing> ring = map(fd, true);
    if (!ring) {
        const int error = errno;
        close(fd);
        errno = error;
        return nullptr;
    }
    ring->control_.magic = kMagic;
    return ring;
}

std::unique_ptr<LocalRing> LocalRing::open(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0 || status.st_size != static_cast<off_t>(kFile) ||
        (fcntl(fd, F_GET_SEALS) & kSeals) != kSeals)
        return fail_null(EPROTO, "what a peer sent is no ring");
    std::unique_ptr<LocalRing> ring = map(fd, false);
    if (ring && ring->control_.magic != kMagic)
        return fail_null(EPROTO, "what a peer sent is no ring of this version");
    return ring;
}

std::unique_ptr<LocalRing> LocalRing::map(int fd, bool consumer) {
    void* place = mmap(nullptr, kMapping, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return fail_null(errno, "no address space for a ring");
    auto* memory = static_cast<std::uint8_t*>(place);
    constexpr int kFlags = MAP_SHARED | MAP_FIXED;
    if (mmap(memory, kFile, PROT_READ | PROT_WRITE, kFlags, fd, 0) == MAP_FAILED ||
        mmap(memory + kFile, kCapacity, PROT_READ | PROT_WRITE, kFlags, fd, kPage) == MAP_FAILED) {
        const int error = errno;
        munmap(memory, kMapping);
        return fail_null(error, "mapping a ring: %s", std::strerror(error));
    }
    madvise(memory, kMapping, MADV_DONTFORK);  // a child has rings of its own
    return std::unique_ptr<LocalRing>(new LocalRing(memory, consumer ? fd : -1));
}

LocalRing::LocalRing(std::uint8_t* memory, int fd)
    : control_(*reinterpret_cast<Control*>(memory)), data_(memory + kPage), fd_(fd) {}

LocalRing::~LocalRing() {
    munmap(data_ - kPage, kMapping);
    if (fd_ >= 0) close(fd_);
}

bool LocalRing::finds_room(std::uint64_t size) {
    const std::uint64_t tail = control_.tail.load(std::memory_order_acquire);
    if (tail > written_ || tail < seen_tail_) return false;  // nonsense
    seen_tail_ = tail;
    if (written_ + size - seen_tail_ <= kCapacity) return true;
    refused_ = size;
    return false;
}

bool LocalRing::append(const wire::Path& path, std::span<const iovec> pieces, const wire::Aside& aside,
                       bool elsewhere) {
    std::size_t length = 0;
    for (const iovec& piece : pieces) length += piece.iov_len;
    std::uint8_t* at = begin_record(path, length, aside, elsewhere);
    if (!at) return false;
    for (const iovec& piece : pieces) {
        small_copy(at, piece.iov_base, piece.iov_len);
        at += piece.iov_len;
    }
    return true;
}

bool LocalRing::await_room() {
    control_.awaited.store(1, std::memory_order_seq_cst);
    const std::uint64_t tail = control_.tail.load(std::memory_order_seq_cst);
    if (tail > written_ || written_ + refused_ - tail > kCapacity) return false;
    control_.awaited.store(0, std::memory_order_relaxed);
    return true;
}

bool LocalRing::unread() const {
    return control_.tail.load(std::memory_order_acquire) < control_.head.load(std::memory_order_relaxed);
}

bool LocalRing::give_up(std::uint64_t head) {
    if (broken_.exchange(true, std::memory_order_relaxed))
        control_.tail.store(head, std::memory_order_relaxed);  // lost, but not unread
    else
        log(LogLevel::warn,
            "a peer of this host wrote nonsense into its ring; nothing more is taken from it");
    return false;
}

bool LocalRing::owes_room() {
    if (control_.awaited.load(std::memory_order_seq_cst) == 0) return false;
    const std::uint64_t tail = control_.tail.load(std::memory_order_relaxed);
    if (control_.head.load(std::memory_order_relaxed) - tail > kCapacity / 2) return false;
    return control_.awaited.exchange(0, std::memory_order_seq_cst) != 0;
}

bool LocalRing::looks_empty() const {
    fetch_ahead();
    return control_.head.load(std::memory_order_acquire) == read_ || broken_.load(std::memory_order_relaxed);
}

bool LocalRing::empty() const {
    return broken_.load(std::memory_order_relaxed) ||
           control_.head.load(std::memory_order_seq_cst) == control_.tail.load(std::memory_order_relaxed);
}

// What the caller published, or knows that another thread did, comes before the look.
bool LocalRing::sleeps() const {
    __sync_synchronize();
    return control_.sleepers.load(std::memory_order_seq_cst) != 0;
}

void LocalRing::enter_sleep() { control_.sleepers.fetch_add(1, std::memory_order_seq_cst); }

LocalMark::LocalMark(LocalRing& ring) : inside_(ring.control_.marks[mark_of_this_thread()].inside) {
    inside_.fetch_add(1, std::memory_order_seq_cst);
}

void LocalRing::leave_sleep() { control_.sleepers.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace verbena::link
