// How many events could not be written, counted where the command that watches the programs sees it even when
// their file takes nothing any more: in memory that all of them share.
//
// Thread safety: all calls.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>

namespace verbena::interpose {

struct LostEvents {
    static constexpr char kVariable[] = "VERBENA_TRACE_LOST";  // names the file

    std::atomic<std::uint64_t> count{0};
    std::atomic<std::int32_t> error{0};  // why the last one was

    void add(int why) {
        error = why;
        count++;
    }

    // In a file that is empty; nullptr with errno if there is no room.
    static LostEvents* make(int fd) {
        if (const int wrong = posix_fallocate(fd, 0, sizeof(LostEvents))) {
            errno = wrong;
            return nullptr;
        }
        void* memory = map(fd);
        return memory ? new (memory) LostEvents : nullptr;
    }
    // As the command made it; nullptr: there is none.
    static LostEvents* open(const char* path) {
        const int fd = ::open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0) return nullptr;
        struct stat status {};
        const bool whole =
            fstat(fd, &status) == 0 && status.st_size == static_cast<off_t>(sizeof(LostEvents));
        void* memory = whole ? map(fd) : nullptr;
        ::close(fd);
        return static_cast<LostEvents*>(memory);
    }
    static void unmap(LostEvents* mapped) { munmap(mapped, sizeof *mapped); }

   private:
    static void* map(int fd) {
        void* memory = mmap(nullptr, sizeof(LostEvents), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return memory == MAP_FAILED ? nullptr : memory;
    }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace verbena::interpose
