#include "base/dense_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace verbena {
namespace {

std::uintptr_t number_of(const void* place) { return reinterpret_cast<std::uintptr_t>(place); }

TEST(LargePagesTest, PiecesAreAlignedAndApart) {
    LargePages pages;
    struct Piece {
        std::uint8_t* begin;
        std::size_t size;
    };
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < 3000; i++) {
        const std::size_t size = 1 + i * 7 % 5000, alignment = std::size_t{1} << i % 8;
        auto* const begin = static_cast<std::uint8_t*>(pages.allocate(size, alignment));
        EXPECT_EQ(number_of(begin) % alignment, 0u);
        std::memset(begin, static_cast<int>(i), size);
        pieces.push_back({begin, size});
    }
    for (std::size_t i = 0; i < pieces.size(); i++)
        EXPECT_TRUE(std::all_of(pieces[i].begin, pieces[i].begin + pieces[i].size, [i](std::uint8_t byte) {
            return byte == static_cast<std::uint8_t>(i);
        })) << i;
}

TEST(LargePagesTest, WhatIsMuchLiesInFewOfThem) {
    LargePages pages;
    constexpr std::size_t kEach = 512, kCount = 4 * LargePages::kPage / kEach;
    std::set<std::uintptr_t> touched;
    for (std::size_t i = 0; i < kCount; i++)
        touched.insert(number_of(pages.allocate(kEach, kEach)) / LargePages::kPage);
    EXPECT_LE(touched.size(), 6u);
}

TEST(LargePagesTest, OneThatIsLargerThanAPage) {
    LargePages pages;
    static_cast<void>(pages.allocate(100, 8));
    constexpr std::size_t kSize = 3 * LargePages::kPage + 1;
    auto* const place = static_cast<std::uint8_t*>(pages.allocate(kSize, 64));
    place[0] = place[kSize - 1] = 1;
}

TEST(DenseMemoryTest, ObjectsOfOneSizeLieTogether) {
#ifndef VERBENA_SANITIZED
    constexpr std::size_t kSize = 512, kCount = 2000;
    std::vector<void*> objects;
    for (std::size_t i = 0; i < kCount; i++) {
        objects.push_back(dense_memory().allocate(kSize, 64));
        static_cast<void>(dense_memory().allocate(40, 8));  // of another one, in between
    }
    std::ranges::sort(objects);
    std::size_t neighbours = 0;
    for (std::size_t i = 1; i < kCount; i++)
        neighbours += number_of(objects[i]) - number_of(objects[i - 1]) == kSize;
    EXPECT_GE(neighbours, kCount * 9 / 10);
    for (void* object : objects) dense_memory().deallocate(object, kSize, 64);
    const void* const again = dense_memory().allocate(kSize, 64);
    EXPECT_NE(std::ranges::find(objects, again), objects.end()) << "what is freed is used again";
#endif
}

struct Object : Dense {
    alignas(64) int value = 7;
};

TEST(DenseMemoryTest, ObjectsAreMadeAndEndThere) {
    std::vector<std::unique_ptr<Object>> objects;
    for (int i = 0; i < 100; i++) objects.push_back(std::make_unique<Object>());
    EXPECT_TRUE(std::ranges::all_of(objects, [](const auto& object) { return object->value == 7; }));
}

TEST(DenseMemoryTest, ArraysAreZeroAndMayBeReleased) {
    for (const std::size_t count : {1u, 100u, 100'000u}) {
        int* released = nullptr;
        {
            DenseArray<int> array(count);
            DenseArray<int> moved(std::move(array));
            released = moved.release();
        }
        EXPECT_TRUE(std::all_of(released, released + count, [](int value) { return value == 0; }));
        std::fill_n(released, count, -1);
        const DenseArray<int> gone(released, count);
    }
}

// Whatever another thread is doing at that moment. What its parent had stays as it is.
TEST(DenseMemoryTest, AChildMayUseIt) {
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) dense_memory().deallocate(dense_memory().allocate(64, 64), 64, 64);
    });
    void* const before[2] = {dense_memory().allocate(64, 64), dense_memory().allocate(64, 64)};
    for (int i = 0; i < 50; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            dense_memory().deallocate(before[0], 64, 64);
            void* const own = dense_memory().allocate(64, 64);
            dense_memory().deallocate(before[1], 64, 64);
            dense_memory().deallocate(own, 64, 64);
            _exit(0);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    stop = true;
    other.join();
    for (void* place : before) dense_memory().deallocate(place, 64, 64);
}

}  // namespace
}  // namespace verbena
