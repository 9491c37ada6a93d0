// Another process's memory as a file, /proc/PID/mem: up to a page is read or written in three quarters of the
// time that process_vm_readv takes, since the kernel has looked for process and permission when the file was
// opened, and makes no lists of pages. It is of the address space that it was opened for: once that is gone
// by exec() or exit(), nothing is read or written any more. Like an adapter it writes where the page tables
// say that the process itself must not.
//
// Not everybody has it: /proc may be missing, of other processes, or read-only.
//
// Thread safety: all calls.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::adapter {

class MemoryFile {
   public:
    static constexpr std::size_t kMost = 4096;  // bytes; more is as fast otherwise, or faster

    explicit MemoryFile(pid_t pid);
    ~MemoryFile();
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    bool usable() const { return usable_.load(std::memory_order_relaxed); }
    void give_up() { usable_.store(false, std::memory_order_relaxed); }

    // All of it, or false.
    bool read(std::uint64_t from, void* into, std::size_t length) const;
    bool write(const void* from, std::uint64_t to, std::size_t length) const;

   private:
    const int fd_;
    std::atomic<bool> usable_;
};

}  // namespace verbena::adapter
