#include "faults/board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/reason.h"
#include "base/sealed_file.h"

namespace verbena::faults {
namespace {

constexpr std::uint64_t kMagic = 0x0031746c75616656;  // "Vfault1"

}  // namespace

std::unique_ptr<Board> Board::create(const std::string& path) {
    const int fd = path.empty() ? create_memory_file("verbena-faults")
                                : ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return fail_null(errno, "the plan of faults %s: %s", path.c_str(), std::strerror(errno));
    if (ftruncate(fd, sizeof(Content)) != 0) {
        const int error = errno;
        close(fd);
        return fail_null(error, "the plan of faults %s: %s", path.c_str(), std::strerror(error));
    }
    return map(fd, true);
}

std::unique_ptr<Board> Board::open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return fail_null(errno, "the plan of faults %s: %s", path.c_str(), std::strerror(errno));
    return map(fd, false);
}

std::unique_ptr<Board> Board::from(int fd) {
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0) return fail_null(errno, "dup: %s", std::strerror(errno));
    return map(own, false);
}

std::unique_ptr<Board> Board::map(int fd, bool fresh) {
    struct stat status {};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        status.st_size != static_cast<off_t>(sizeof(Content))) {
        close(fd);
        return fail_null(EINVAL, "this is no plan of faults of this user and version");
    }
    void* memory = mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        const int error = errno;
        close(fd);
        return fail_null(error, "the plan of faults cannot be mapped: %s", std::strerror(error));
    }
    auto* content = static_cast<Content*>(memory);
    if (fresh) {
        new (content) Content{};
        content->magic = kMagic;
    } else if (content->magic != kMagic) {
        munmap(memory, sizeof(Content));
        close(fd);
        return fail_null(EINVAL, "this is no plan of faults of this version");
    }
    return std::unique_ptr<Board>(new Board(fd, content));
}

Board::~Board() {
    munmap(content_, sizeof(Content));
    close(fd_);
}

bool Board::is_same_as(const Board& other) const {
    struct stat ours {
    }, theirs{};
    return fstat(fd_, &ours) == 0 && fstat(other.fd_, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

bool Board::add(const Rule& rule, std::string_view text) {
    std::uint32_t index = content_->reserved.load();
    do
        if (index >= kMaxRules) return false;
    while (!content_->reserved.compare_exchange_weak(index, index + 1));
    Slot& slot = slots()[index];
    slot.rule = rule;
    std::memcpy(slot.text.data(), text.data(), std::min(text.size(), kMaxText - 1));
    slot.state.store(active_rule, std::memory_order_release);
    return true;
}

void Board::clear() {
    for (Slot& slot : slots()) {
        std::uint32_t expected = active_rule;
        slot.state.compare_exchange_strong(expected, cleared);
    }
}

unsigned Board::count() const {
    return std::min(content_->reserved.load(std::memory_order_relaxed), std::uint32_t{kMaxRules});
}

bool Board::active(unsigned index) const {
    return slots()[index].state.load(std::memory_order_acquire) == active_rule;
}

bool Board::meets(unsigned index) {
    Slot& slot = slots()[index];
    const Rule& rule = slot.rule;
    const std::uint64_t count = slot.seen.fetch_add(1, std::memory_order_relaxed) + 1;
    if (count < rule.first || count > rule.last || !chance_hits(rule, index, count)) return false;
    if (rule.times == UINT64_MAX) {
        slot.fired.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
    std::uint64_t fired = slot.fired.load(std::memory_order_relaxed);
    do
        if (fired >= rule.times) return false;
    while (!slot.fired.compare_exchange_weak(fired, fired + 1, std::memory_order_relaxed));
    return true;
}

bool chance_hits(const Rule& rule, unsigned index, std::uint64_t count) {
    if (rule.chance == kAlways) return true;
    // splitmix64
    std::uint64_t z = rule.seed + 0x9e3779b97f4a7c15 * (count + (std::uint64_t{index} << 40) + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return static_cast<std::uint32_t>(z >> 32) < rule.chance;
}

}  // namespace verbena::faults
