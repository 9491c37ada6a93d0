// Another process's memory as a file, /proc/PID/mem: a word is written, or up to a page read, in three
// quarters of the time that process_vm_* takes, since the kernel has looked for process and permission when
// the file was opened, and makes no lists of pages. It is of the address space that it was opened for: once
// that is gone by exec() or exit(), nothing is read or written any more.
//
// Nothing is said of the order in which the kernel copies the bytes. What the process protected against its
// own writing (mprotect) is written nevertheless, as by an adapter, unless it is shared.
//
// Not everybody has it: /proc may be missing, of other processes, or read-only.
//
// Thread safety: all calls but close().
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/own_file.h"

namespace verbena::adapter {

class MemoryFile {
   public:
    static constexpr std::size_t kMost = 4096;  // bytes; more is as fast otherwise, or faster

    explicit MemoryFile(pid_t pid);
    void close();

    bool usable() const { return usable_.load(std::memory_order_relaxed); }
    void give_up() { usable_.store(false, std::memory_order_relaxed); }

    enum class Result : std::uint8_t { done, over, failed };  // all of it; the address space has ended; else
    Result read(std::uint64_t from, void* into, std::size_t length) const;
    Result write(const void* from, std::uint64_t to, std::size_t length) const;

   private:
    OwnFile file_;
    std::atomic<bool> usable_;
};

}  // namespace verbena::adapter
