#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "memory/regions.h"

namespace verbena::memory {
namespace {

constexpr std::uint32_t kQp = 0x11, kOtherQp = 0x12;
constexpr PdNumber kPd = 1;
constexpr Access kReadWrite = kRemoteRead | kRemoteWrite;

std::uint32_t next_key(std::uint32_t rkey) { return (rkey & ~0xffu) | ((rkey + 1) & 0xff); }

class Windows : public ::testing::Test {
   protected:
    std::uint64_t base() const { return reinterpret_cast<std::uintptr_t>(bytes); }
    Keys add(Access access = kLocalWrite | kWindowBind) {
        Keys keys{};
        EXPECT_EQ(table.add(kPd, bytes, sizeof bytes, base(), access, keys), 0);
        return keys;
    }
    std::uint32_t window(RecordKind kind) {
        std::uint32_t rkey = 0;
        EXPECT_EQ(table.add_window(kPd, kind, rkey), 0);
        return rkey;
    }
    Binding binding(std::uint32_t rkey, const Keys& keys, Access access = kReadWrite) const {
        return {rkey, keys.lkey, base() + 64, 128, access};
    }
    LookupError read(std::uint32_t rkey, std::uint64_t address, std::uint64_t length = 1,
                     std::uint32_t qp = kQp) const {
        return table.remote(rkey, kPd, address, length, kRemoteRead, qp).error;
    }

    alignas(64) std::uint8_t bytes[256] = {};
    Sections sections{};
    std::vector<RegionRecord> records = std::vector<RegionRecord>(8);
    RegionTable table{records, sections};
};

TEST_F(Windows, Type1OpensItsPartForEveryQueuePair) {
    const Keys keys = add();
    const std::uint32_t rkey = next_key(window(RecordKind::window_type1));
    EXPECT_EQ(read(rkey, base() + 64), LookupError::bad_key);
    ASSERT_EQ(table.bind(binding(rkey, keys), kPd, kQp), WindowError::none);
    EXPECT_EQ(table.remote(rkey, kPd, base() + 64, 128, kReadWrite, kOtherQp).address, bytes + 64);
    EXPECT_EQ(read(rkey, base() + 63), LookupError::out_of_bounds);
    EXPECT_EQ(read(rkey, base() + 64, 129), LookupError::out_of_bounds);
    EXPECT_EQ(table.remote(rkey, kPd, base() + 64, 1, kRemoteAtomic, kQp).error, LookupError::no_access);
    EXPECT_EQ(table.remote(rkey, 2, base() + 64, 1, kRemoteRead, kQp).error, LookupError::wrong_pd);
    EXPECT_EQ(read(keys.rkey, base() + 64), LookupError::no_access);
    EXPECT_EQ(table.local(rkey, kPd, base() + 64, 1, 0).error, LookupError::bad_key);
    EXPECT_EQ(table.local(rkey & ~1u, kPd, base() + 64, 1, 0).error, LookupError::bad_key);
}

TEST_F(Windows, Type1IsBoundAgainAndUnboundByLengthZero) {
    const Keys keys = add();
    const std::uint32_t first = next_key(window(RecordKind::window_type1)), second = next_key(first);
    ASSERT_EQ(table.bind(binding(first, keys), kPd, kQp), WindowError::none);
    EXPECT_EQ(table.bind(binding(first, keys), kPd, kQp), WindowError::same_key);
    ASSERT_EQ(table.bind(binding(second, keys, kRemoteRead), kPd, kQp), WindowError::none);
    EXPECT_EQ(read(first, base() + 64), LookupError::bad_key);
    EXPECT_EQ(read(second, base() + 64), LookupError::none);
    EXPECT_EQ(table.remove(keys.lkey), EBUSY);
    const std::uint32_t third = next_key(second);
    ASSERT_EQ(table.bind({third, 0, 0, 0, 0}, kPd, kQp), WindowError::none);
    EXPECT_EQ(read(second, base() + 64), LookupError::bad_key);
    EXPECT_EQ(read(third, base() + 64), LookupError::bad_key);
    EXPECT_EQ(table.remove(keys.lkey), 0);
}

TEST_F(Windows, Type2BelongsToTheQueuePairThatBoundIt) {
    const Keys keys = add();
    const std::uint32_t rkey = next_key(window(RecordKind::window_type2));
    ASSERT_EQ(table.bind(binding(rkey, keys), kPd, kQp), WindowError::none);
    EXPECT_EQ(read(rkey, base() + 64), LookupError::none);
    EXPECT_EQ(read(rkey, base() + 64, 1, kOtherQp), LookupError::wrong_qp);
    EXPECT_EQ(table.bind(binding(next_key(rkey), keys), kPd, kQp), WindowError::already_bound);
    EXPECT_EQ(table.invalidate(rkey, kPd, kOtherQp), WindowError::not_invalidatable);
    EXPECT_EQ(table.invalidate(rkey, 2, kQp), WindowError::no_window);
    EXPECT_EQ(table.invalidate(next_key(rkey), kPd, kQp), WindowError::no_window);
    EXPECT_EQ(table.invalidate(rkey, kPd, kQp), WindowError::none);
    EXPECT_EQ(table.invalidate(rkey, kPd, kQp), WindowError::not_invalidatable);
    EXPECT_EQ(read(rkey, base() + 64), LookupError::bad_key);
    EXPECT_EQ(table.bind(binding(next_key(rkey), keys), kPd, kQp), WindowError::none);
}

TEST_F(Windows, Type2MayHaveItsKeyAgain) {
    const Keys keys = add();
    const std::uint32_t rkey = window(RecordKind::window_type2);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(read(rkey, base() + 64), LookupError::bad_key);
        ASSERT_EQ(table.bind(binding(rkey, keys), kPd, kQp), WindowError::none);
        EXPECT_EQ(read(rkey, base() + 64), LookupError::none);
        ASSERT_EQ(table.invalidate(rkey, kPd, kQp), WindowError::none);
    }
}

TEST_F(Windows, EveryByteOfTheKeyServes) {
    const Keys keys = add();
    std::uint32_t rkey = window(RecordKind::window_type1);
    for (int i = 0; i < 600; i++) {
        const std::uint32_t old = rkey;
        rkey = next_key(rkey);
        ASSERT_EQ(table.bind(binding(rkey, keys), kPd, kQp), WindowError::none) << i;
        ASSERT_EQ(read(rkey, base() + 64), LookupError::none) << i;
        ASSERT_EQ(read(old, base() + 64), LookupError::bad_key) << i;
    }
}

TEST_F(Windows, RefusedBindings) {
    const Keys keys = add(), readable = add(kWindowBind), plain = add(kLocalWrite);
    Keys null{};
    ASSERT_EQ(table.add_null(kPd, null), 0);
    const std::uint32_t one = next_key(window(RecordKind::window_type1));
    const std::uint32_t two = next_key(window(RecordKind::window_type2));
    const auto bind = [&](Binding b, PdNumber pd = kPd) { return table.bind(b, pd, kQp); };
    EXPECT_EQ(bind(binding(one, keys), 2), WindowError::no_window);
    EXPECT_EQ(bind(binding(keys.rkey, keys)), WindowError::no_window);
    EXPECT_EQ(bind(binding(0xffffff11, keys)), WindowError::no_window);
    EXPECT_EQ(bind(binding(one, plain)), WindowError::region_not_bindable);
    EXPECT_EQ(bind(binding(one, readable)), WindowError::region_not_writable);
    EXPECT_EQ(bind(binding(one, null)), WindowError::no_region);
    EXPECT_EQ(bind({one, keys.lkey ^ 2, base(), 1, kRemoteRead}), WindowError::no_region);
    EXPECT_EQ(bind({one, keys.rkey, base(), 1, kRemoteRead}), WindowError::no_region);
    EXPECT_EQ(bind({one, keys.lkey, base(), 257, kRemoteRead}), WindowError::out_of_bounds);
    EXPECT_EQ(bind({one, keys.lkey, base() - 1, 2, kRemoteRead}), WindowError::out_of_bounds);
    EXPECT_EQ(bind({two, keys.lkey, base(), 0, kRemoteRead}), WindowError::empty);
    EXPECT_EQ(bind(binding(one, readable, kRemoteRead)), WindowError::none);
    EXPECT_EQ(table.remove(keys.lkey), 0) << "a refused binding does not count";
}

TEST_F(Windows, ZeroBased) {
    const Keys keys = add();
    const std::uint32_t rkey = next_key(window(RecordKind::window_type2));
    ASSERT_EQ(table.bind(binding(rkey, keys, kRemoteRead | kZeroBased), kPd, kQp), WindowError::none);
    EXPECT_EQ(table.remote(rkey, kPd, 3, 125, kRemoteRead, kQp).address, bytes + 67);
    EXPECT_EQ(read(rkey, 128), LookupError::out_of_bounds);
    EXPECT_EQ(read(rkey, base() + 64), LookupError::out_of_bounds);
    EXPECT_TRUE(table.remote_whole(rkey, kPd, kRemoteRead, kQp));
    EXPECT_FALSE(table.remote_whole(rkey, kPd, kRemoteWrite, kQp));
}

TEST_F(Windows, RemovedWindow) {
    const Keys keys = add();
    const std::uint32_t rkey = next_key(window(RecordKind::window_type2));
    ASSERT_EQ(table.bind(binding(rkey, keys), kPd, kQp), WindowError::none);
    Keys fresh{};
    EXPECT_EQ(table.change(keys.lkey, nullptr, nullptr, nullptr, nullptr, fresh), EBUSY);
    EXPECT_EQ(table.invalidate(keys.rkey, kPd, kQp), WindowError::region_has_windows);
    EXPECT_EQ(table.remove_window(rkey), 0);
    EXPECT_EQ(table.remove_window(rkey), EINVAL);
    EXPECT_EQ(read(rkey, base() + 64), LookupError::bad_key);
    EXPECT_EQ(table.bind(binding(next_key(rkey), keys), kPd, kQp), WindowError::no_window);
    EXPECT_EQ(table.remove(keys.lkey), 0);
    EXPECT_EQ(table.remove_window(keys.rkey), EINVAL);
    const Keys again = add();  // takes the index that was the window's or the region's
    EXPECT_TRUE(table.local(again.lkey, kPd, base(), 1, kLocalWrite));
}

TEST_F(Windows, EndWithTheirQueuePair) {
    const Keys keys = add();
    const std::uint32_t first = next_key(window(RecordKind::window_type2));
    const std::uint32_t other = next_key(window(RecordKind::window_type2));
    const std::uint32_t shared = next_key(window(RecordKind::window_type1));
    ASSERT_EQ(table.bind(binding(first, keys), kPd, kQp), WindowError::none);
    ASSERT_EQ(table.bind(binding(other, keys), kPd, kOtherQp), WindowError::none);
    ASSERT_EQ(table.bind(binding(shared, keys), kPd, kQp), WindowError::none);
    table.unbind_windows_of(kQp);
    EXPECT_EQ(read(first, base() + 64), LookupError::bad_key);
    EXPECT_EQ(read(other, base() + 64, 1, kOtherQp), LookupError::none);
    EXPECT_EQ(read(shared, base() + 64), LookupError::none);
    EXPECT_EQ(table.bind(binding(next_key(first), keys), kPd, kOtherQp), WindowError::none);
}

TEST_F(Windows, NullRegion) {
    Keys keys{};
    ASSERT_EQ(table.add_null(kPd, keys), 0);
    const Lookup from = table.local(keys.lkey, kPd, 12345, kNullRegionRoom, 0);
    ASSERT_TRUE(from);
    EXPECT_TRUE(std::all_of(from.address, from.address + kNullRegionRoom, [](auto b) { return b == 0; }));
    const Lookup to =
        table.local(keys.lkey, kPd, ~std::uint64_t{0} - kNullRegionRoom, kNullRegionRoom, kLocalWrite);
    ASSERT_TRUE(to);
    EXPECT_NE(to.address, from.address);
    EXPECT_EQ(read(keys.rkey, 12345), LookupError::bad_key);
    EXPECT_EQ(table.local(keys.lkey, 2, 0, 1, 0).error, LookupError::wrong_pd);
    EXPECT_EQ(table.remove(keys.lkey), 0);
}

bool even_pages_are_mapped(const void* address, std::uint64_t length, bool write) {
    const auto a = reinterpret_cast<std::uintptr_t>(address);
    return (a >> 12) % 2 == 0 && ((a + length - 1) >> 12) % 2 == 0 && !write;
}

TEST_F(Windows, OnDemandMemoryIsProbed) {
    table.set_probe(even_pages_are_mapped);
    Keys keys{};
    ASSERT_EQ(table.add(kPd, nullptr, ~std::uint64_t{0}, 0, kOnDemand | kLocalWrite | kRemoteRead, keys), 0);
    EXPECT_TRUE(table.local(keys.lkey, kPd, 0x2000, 4096, 0));
    EXPECT_EQ(table.local(keys.lkey, kPd, 0x2000, 4097, 0).error, LookupError::not_mapped);
    EXPECT_EQ(table.local(keys.lkey, kPd, 0x2000, 1, kLocalWrite).error, LookupError::not_mapped);
    EXPECT_EQ(read(keys.rkey, 0x3000), LookupError::not_mapped);
    EXPECT_EQ(read(keys.rkey, 0x4000), LookupError::none);
    const Keys usual = add();
    EXPECT_TRUE(table.local(usual.lkey, kPd, base(), 256, kLocalWrite));
}

// Whatever a reader gets belongs to the key that it used: even keys open the first half, odd ones the second.
TEST_F(Windows, ReadersSeeOneBindingOrNone) {
    const Keys keys = add();
    std::atomic<std::uint32_t> current{next_key(window(RecordKind::window_type1))};
    std::atomic<bool> stop{false};
    std::atomic<int> bad{0}, rounds{0};
    std::thread reader([&] {
        for (; !stop; rounds++) {
            Section section(sections);
            const std::uint32_t rkey = current;
            const std::uint64_t half = rkey & 1 ? 128 : 0;
            const Lookup right = table.remote(rkey, kPd, base() + half, 128, kRemoteRead, kQp);
            if (right && right.address != bytes + half) bad++;
            if (table.remote(rkey, kPd, base() + 128 - half, 128, kRemoteRead, kQp)) bad++;
        }
    });
    std::uint32_t rkey = current;
    while (rounds == 0) std::this_thread::yield();
    for (int i = 0; i < 20'000; i++) {
        rkey = next_key(rkey);
        ASSERT_EQ(table.bind({rkey, keys.lkey, base() + (rkey & 1 ? 128 : 0), 128, kRemoteRead}, kPd, kQp),
                  WindowError::none);
        current = rkey;
    }
    stop = true;
    reader.join();
    EXPECT_EQ(bad, 0);
}

TEST(Grace, IsOverWhenTheOthersAreOut) {
    Sections sections{};
    Section own(sections);
    GraceWatch watch;
    watch.start();
    EXPECT_TRUE(watch.over(sections));

    std::atomic<int> step{0};
    std::thread other([&] {
        {
            Section theirs(sections);
            step = 1;
            while (step != 2) std::this_thread::yield();
        }
        step = 3;
    });
    while (step != 1) std::this_thread::yield();
    watch.start();
    EXPECT_FALSE(watch.over(sections));
    step = 2;
    while (step != 3) std::this_thread::yield();
    EXPECT_TRUE(watch.over(sections));
    other.join();
}

}  // namespace
}  // namespace verbena::memory
