#include "shortage.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace {

struct Refusing {
    bool now = false;
    bool on = false;
    unsigned spared = 0;
    unsigned refused = 0;
};
constinit thread_local Refusing refusing;

bool refuse() {
    if (!refusing.now) return false;
    if (refusing.spared > 0) {
        refusing.spared--;
        return false;
    }
    refusing.now = refusing.on;
    refusing.refused++;
    errno = ENOMEM;
    return true;
}

}  // namespace

// The C library's own, by its other names for them.
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(std::size_t size);                           // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t size);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, std::size_t size);            // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t size);  // NOLINT(bugprone-reserved-identifier)

void* malloc(std::size_t size) { return refuse() ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) { return refuse() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* memory, std::size_t size) { return refuse() ? nullptr : __libc_realloc(memory, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) {
    return refuse() ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
    if (refuse()) return ENOMEM;
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}
void* mmap(void* address, std::size_t size, int protection, int flags, int fd, off_t offset) {
    if (refuse()) return MAP_FAILED;
    return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, fd, offset));
}
}
#pragma GCC visibility pop

namespace verbena::shortage_test {
namespace {

constexpr unsigned kMost = 1000;  // allocations of one call

// But for what the helper thread opens when it comes to it (adapter/processor_share.h).
std::ptrdiff_t open_files() {
    namespace fs = std::filesystem;
    return std::count_if(fs::directory_iterator("/proc/self/fd"), {}, [](const fs::directory_entry& file) {
        std::error_code gone;
        const fs::path name = fs::read_symlink(file.path(), gone);
        return !gone && name.filename() != "schedstat";
    });
}

// Looks until no more than those are, since the helper opens others for a moment; what stays is left behind.
std::ptrdiff_t open_files_at_last(std::ptrdiff_t expected) {
    constexpr int kFarTooMany = 5000;  // looks, of 1 ms
    std::ptrdiff_t open = open_files();
    for (int i = 0; i < kFarTooMany && open > expected; i++) {
        usleep(1000);
        open = open_files();
    }
    return open;
}

// EAGAIN: a thread's that could not be made (pthread_create(3)).
bool is_want_of_memory(int error) { return error == ENOMEM || error == EAGAIN; }

// The call's answer, and whether it wanted what it was refused.
struct Answer {
    int error;
    bool refused;
};

// Success, or the answer that a call may have for what it was refused.
testing::AssertionResult is_fair(const Answer& answer) {
    if (answer.error == 0 || (answer.refused && is_want_of_memory(answer.error)))
        return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << std::strerror(answer.error) << (answer.refused ? "" : ", unrefused");
}

Answer call_with(const Call& call, unsigned spared, Lasts lasts) {
    const Shortage shortage(spared, lasts);
    const int error = call();
    return {error, shortage.refused() > 0};
}

}  // namespace

Shortage::Shortage(unsigned spared, Lasts lasts) {
    refusing = {.now = true, .on = lasts == Lasts::on, .spared = spared, .refused = 0};
}
Shortage::~Shortage() { refusing.now = false; }
unsigned Shortage::refused() const { return refusing.refused; }

namespace {

void sweep_once(const Call& call, const Call& undo, Lasts lasts) {
    for (unsigned spared = 0;; spared++) {
        ASSERT_LT(spared, kMost);
        const Answer answer = call_with(call, spared, lasts);
        ASSERT_TRUE(is_fair(answer)) << spared << " allocations";
        if (answer.error == 0) {
            ASSERT_EQ(undo(), 0) << "with " << spared << " allocations";
        }
        if (!answer.refused) return;
    }
}

}  // namespace

void sweep(const char* name, const Call& call, const Call& undo) {
    SCOPED_TRACE(name);
    constexpr int kPasses = 5;
    std::ptrdiff_t open = -1;
    for (int pass = 0; pass < kPasses; pass++) {
        sweep_once(call, undo, Lasts::once);
        sweep_once(call, undo, Lasts::on);
        if (testing::Test::HasFatalFailure()) return;
        // The first time something may be made that stays, or the helper thread make it meanwhile.
        const std::ptrdiff_t before = std::exchange(open, open_files());
        if (open == before) return;
    }
    ADD_FAILURE() << "each time descriptors are left behind, " << open << " at last";
}

void sweep_until(const char* name, const Call& call) {
    SCOPED_TRACE(name);
    for (unsigned spared = 0;; spared++) {
        ASSERT_LT(spared, kMost);
        const Answer answer = call_with(call, spared, Lasts::on);
        if (answer.error == 0) return;
        ASSERT_TRUE(is_fair(answer)) << spared << " allocations";
    }
}

namespace {

struct Report {
    Answer first{-1, false};
    int again = -1;  // errno values
    std::ptrdiff_t open = -1;
};

Report of_child(const Call& call, const Call& undo, unsigned spared, Lasts lasts, std::ptrdiff_t expected) {
    Report report;
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        report.first = call_with(call, spared, lasts);
        if (report.first.error == 0 && undo() != 0) _exit(1);
        report.again = call();
        if (report.again == 0 && undo() != 0) _exit(2);
        report.open = open_files_at_last(expected);
        _exit(write(ends[1], &report, sizeof report) == sizeof report ? 0 : 3);
    }
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &report, sizeof report), static_cast<ssize_t>(sizeof report));
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    return report;
}

}  // namespace

void sweep_in_children(const char* name, const Call& call, const Call& undo) {
    SCOPED_TRACE(name);
    const Report usual = of_child(call, undo, kMost, Lasts::once, kMost);
    ASSERT_EQ(usual.first.error, 0);
    for (const Lasts lasts : {Lasts::once, Lasts::on})
        for (unsigned spared = 0;; spared++) {
            ASSERT_LT(spared, kMost);
            SCOPED_TRACE(spared);
            const Report report = of_child(call, undo, spared, lasts, usual.open);
            ASSERT_TRUE(is_fair(report.first));
            ASSERT_EQ(report.again, 0);
            ASSERT_LE(report.open, usual.open) << "descriptors are left behind";
            if (!report.first.refused) break;
        }
}

int without_memory(const Call& call) {
    const Shortage shortage;
    return call();
}

}  // namespace verbena::shortage_test
