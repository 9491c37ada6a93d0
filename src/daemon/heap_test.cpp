#include "daemon/heap.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <memory>
#include <vector>

namespace verbena::daemon {
namespace {

bool is_there(std::uintptr_t page) {
    unsigned char there = 0;
    EXPECT_EQ(mincore(reinterpret_cast<void*>(page), 1, &there), 0);
    return there & 1;
}

TEST(HeapTest, WhatItGrewByIsThere) {
    Heap heap;
    const void* const before = sbrk(0);
    std::vector<std::unique_ptr<char[]>> blocks;
    while (sbrk(0) == before && blocks.size() < 4096) blocks.push_back(std::make_unique<char[]>(1024));
    if (sbrk(0) == before) return;  // a sanitizer's allocator, which has another heap
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(sbrk(0)) & ~(page - 1)) - page;
    EXPECT_FALSE(is_there(last));
    if (madvise(reinterpret_cast<void*>(last - page), page, MADV_POPULATE_WRITE) != 0 && errno == EINVAL)
        GTEST_SKIP() << "this kernel makes pages one by one";
    heap.make_pages();
    EXPECT_TRUE(is_there(last));
}

std::size_t resident() {
    std::size_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Also below what is still used.
TEST(HeapTest, WhatHasGoneIsGivenBack) {
    constexpr std::size_t kThings = 64 << 10, kSize = 1 << 10, kAll = kThings * kSize;
    Heap heap;
    const void* const before = sbrk(0);
    const std::size_t at_first = resident();
    std::vector<std::unique_ptr<char[]>> things;
    for (std::size_t i = 0; i < kThings; i++) things.push_back(std::make_unique<char[]>(kSize));
    if (sbrk(0) == before) GTEST_SKIP() << "a sanitizer's allocator, which has another heap";
    heap.holds(kThings);
    const std::unique_ptr<char[]> last = std::make_unique<char[]>(kSize);
    things.resize(kThings / 2 + 1);
    heap.holds(things.size());
    EXPECT_GT(resident(), at_first + kAll * 3 / 4);
    things.clear();
    heap.holds(1);
    EXPECT_LT(resident(), at_first + kAll / 4);
}

}  // namespace
}  // namespace verbena::daemon
