// What the kernel says of this process's memory, without touching it by ourselves, so without signals.
//
// Thread safety: any thread. What is true may be false at once if another thread unmaps.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::verbs {

// The range, rounded to pages, goes round the end of the address space.
bool wraps(const void* address, std::uint64_t length);

// No hole in [address, address + length).
bool is_mapped(const void* address, std::uint64_t length);

// A mapped range whose first and last page can be read, which brings them into being.
bool is_readable(const void* address, std::uint64_t length);

// A mapped range whose first and last page can be written. These two pages come into being by that.
bool is_writable(const void* address, std::uint64_t length);

// The memory::MemoryProbe of on-demand regions: all pages can be read, or written; they come into being.
bool probe(const void* address, std::uint64_t length, bool write);

}  // namespace verbena::verbs
