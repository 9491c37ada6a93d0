#include "memory/regions.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <thread>

namespace verbena::memory {
namespace {

constexpr std::uint32_t kAnyQp = 0x11;

class Regions : public ::testing::Test {
   protected:
    std::uint64_t base() const { return reinterpret_cast<std::uintptr_t>(bytes); }
    Keys add(Access access = kLocalWrite | kRemoteRead | kRemoteWrite, std::uint64_t iova = 0) {
        Keys keys{};
        EXPECT_EQ(table.add(1, bytes, sizeof bytes, iova ? iova : base(), access, keys), 0);
        return keys;
    }

    alignas(64) std::uint8_t bytes[256] = {};
    Sections sections{};
    std::vector<RegionRecord> records = std::vector<RegionRecord>(4);
    RegionTable table{records, sections};
};

TEST_F(Regions, KeysOfBothKindsDifferAndAreNotInterchangeable) {
    const Keys keys = add();
    EXPECT_NE(keys.lkey, keys.rkey);
    EXPECT_NE(keys.lkey, 0u);
    EXPECT_TRUE(table.local(keys.lkey, 1, base(), 256, kLocalWrite));
    EXPECT_TRUE(table.remote(keys.rkey, 1, base(), 256, kRemoteRead, kAnyQp));
    EXPECT_EQ(table.local(keys.rkey, 1, base(), 1, 0).error, LookupError::bad_key);
    EXPECT_EQ(table.remote(keys.lkey, 1, base(), 1, 0, kAnyQp).error, LookupError::bad_key);
}

TEST_F(Regions, KeysOfBothKindsAreInterchangeableIfAskedFor) {
    table.take_either_key();
    const Keys keys = add();
    EXPECT_NE(keys.lkey, keys.rkey);
    EXPECT_TRUE(table.local(keys.rkey, 1, base(), 256, kLocalWrite));
    EXPECT_TRUE(table.remote(keys.lkey, 1, base(), 256, kRemoteRead, kAnyQp));
    EXPECT_EQ(table.remote(keys.lkey, 1, base(), 1, kRemoteAtomic, kAnyQp).error, LookupError::no_access);
    EXPECT_EQ(table.remote(keys.lkey, 2, base(), 1, kRemoteRead, kAnyQp).error, LookupError::wrong_pd);
}

TEST_F(Regions, Checks) {
    const Keys keys = add();
    EXPECT_EQ(table.remote(keys.rkey, 2, base(), 1, kRemoteRead, kAnyQp).error, LookupError::wrong_pd);
    EXPECT_EQ(table.remote(keys.rkey, 1, base(), 1, kRemoteAtomic, kAnyQp).error, LookupError::no_access);
    EXPECT_EQ(table.remote(keys.rkey, 1, base(), 257, 0, kAnyQp).error, LookupError::out_of_bounds);
    EXPECT_EQ(table.remote(keys.rkey, 1, base() + 255, 2, 0, kAnyQp).error, LookupError::out_of_bounds);
    EXPECT_EQ(table.remote(keys.rkey, 1, base() + 256, 1, 0, kAnyQp).error, LookupError::out_of_bounds);
    EXPECT_EQ(table.remote(keys.rkey, 1, base() - 1, 1, 0, kAnyQp).error, LookupError::out_of_bounds);
    EXPECT_EQ(table.remote(keys.rkey, 1, base() + 8, ~std::uint64_t{0}, 0, kAnyQp).error,
              LookupError::out_of_bounds);
    EXPECT_EQ(table.remote(keys.rkey ^ 2, 1, base(), 1, 0, kAnyQp).error, LookupError::bad_key);
    EXPECT_EQ(table.remote(0xffffff01, 1, base(), 1, 0, kAnyQp).error, LookupError::bad_key);
    for (std::uint32_t key : {0u, 1u, 0x101u, 0x201u, 0x301u})  // untouched records
        EXPECT_EQ(table.remote(key, 1, 0, 0, 0, kAnyQp).error, LookupError::bad_key) << key;
    EXPECT_EQ(table.remote(keys.rkey, 1, base() + 255, 1, kRemoteWrite, kAnyQp).address, bytes + 255);
}

TEST_F(Regions, LengthZeroChecksOnlyTheKey) {
    const Keys keys = add(kLocalWrite);
    EXPECT_TRUE(table.remote(keys.rkey, 9, 0, 0, kRemoteAtomic, kAnyQp));
    EXPECT_FALSE(table.remote(keys.rkey ^ 4, 1, base(), 0, 0, kAnyQp));
}

TEST_F(Regions, Iova) {
    const Keys keys = add(kLocalWrite, 0x1000);
    EXPECT_EQ(table.local(keys.lkey, 1, 0x1010, 16, 0).address, bytes + 16);
    EXPECT_FALSE(table.local(keys.lkey, 1, base(), 16, 0));
}

TEST_F(Regions, RemovedKeysAreDeadAndNotGivenAgainSoon) {
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 127; i++) {
        const Keys keys = add();
        EXPECT_TRUE(seen.insert(keys.lkey).second);
        EXPECT_EQ(table.remove(keys.lkey), 0);
        EXPECT_FALSE(table.local(keys.lkey, 1, base(), 1, 0));
        EXPECT_EQ(table.remove(keys.lkey), EINVAL);
    }
}

TEST_F(Regions, FullAndRefused) {
    for (int i = 0; i < 3; i++) add();
    Keys keys{};
    EXPECT_EQ(table.add(1, bytes, 1, base(), 0, keys), ENOMEM);
    EXPECT_EQ(table.add(1, bytes, 1, base(), kRemoteWrite, keys), EINVAL);
    EXPECT_EQ(table.add(1, bytes, 1, base(), kRemoteAtomic, keys), EINVAL);
    EXPECT_EQ(table.add(1, bytes, ~std::uint64_t{0}, base(), 0, keys), EINVAL);
    EXPECT_EQ(table.add(1, bytes, 1, base(), 1u << 12, keys), EINVAL);
}

TEST_F(Regions, Change) {
    const Keys old = add();
    const Access access = kLocalWrite;
    const PdNumber pd = 5;
    Keys keys{};
    ASSERT_EQ(table.change(old.lkey, &pd, nullptr, nullptr, &access, keys), 0);
    EXPECT_EQ(keys.lkey, old.lkey);
    EXPECT_EQ(table.local(old.lkey, 1, base(), 1, 0).error, LookupError::wrong_pd);
    EXPECT_TRUE(table.local(keys.lkey, 5, base(), 256, kLocalWrite));
    void* const other = bytes + 128;
    const std::uint64_t half = 128;
    ASSERT_EQ(table.change(old.lkey, nullptr, &other, &half, nullptr, keys), 0);
    EXPECT_FALSE(table.local(old.lkey, 5, base() + 128, 1, 0));
    EXPECT_EQ(table.local(keys.lkey, 5, base() + 128, 1, 0).address, bytes + 128);
    EXPECT_EQ(table.remote(keys.rkey, 5, base() + 128, 1, kRemoteRead, kAnyQp).error, LookupError::no_access);
}

TEST_F(Regions, InvalidateRegion) {
    const Keys keys = add();
    EXPECT_EQ(table.invalidate(keys.lkey, 1, kAnyQp), WindowError::no_window);
    EXPECT_EQ(table.invalidate(keys.rkey, 2, kAnyQp), WindowError::no_window);
    EXPECT_EQ(table.invalidate(keys.rkey, 1, kAnyQp), WindowError::none);
    EXPECT_EQ(table.invalidate(keys.rkey, 1, kAnyQp), WindowError::no_window);
    EXPECT_FALSE(table.remote(keys.rkey, 1, base(), 1, kRemoteRead, kAnyQp));
    EXPECT_TRUE(table.local(keys.lkey, 1, base(), 1, 0));
    Keys fresh{};
    ASSERT_EQ(table.change(keys.lkey, nullptr, nullptr, nullptr, nullptr, fresh), 0);
    EXPECT_TRUE(table.remote(fresh.rkey, 1, base(), 1, kRemoteRead, kAnyQp));
}

// remove() returns only when nobody uses the memory: a reader never sees the value written after it.
TEST_F(Regions, RemoveWaitsForReaders) {
    std::atomic<std::uint32_t> rkey{0};
    std::atomic<bool> stop{false};
    std::atomic<int> bad{0};
    std::thread reader([&] {
        while (!stop) {
            Section section(sections);
            const Lookup found = table.remote(rkey.load(), 1, base(), 8, kRemoteRead, kAnyQp);
            if (found && std::atomic_ref(*found.address).load() != 0) bad++;
        }
    });
    for (int i = 0; i < 2000; i++) {
        const Keys keys = add();
        rkey = keys.rkey;
        table.remove(keys.lkey);
        std::atomic_ref(bytes[0]).store(1);
        std::atomic_ref(bytes[0]).store(0);
    }
    stop = true;
    reader.join();
    EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace verbena::memory
