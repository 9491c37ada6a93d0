#include "transport/send_queue.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace verbena::transport {
namespace {

constexpr std::uint32_t kRequests = 4, kElements = 3, kInlineBytes = 48;

class SendQueueTest : public ::testing::Test {
   protected:
    SendEntry& push(std::vector<Sge> sges, std::uint32_t flags = 0) {
        SendRequest request;
        request.sges = sges;
        request.flags = flags;
        std::uint32_t length = 0;
        for (const Sge& sge : sges) length += sge.length;
        return queue_.push(request, length, true);
    }
    static std::vector<Sge> elements(std::uint64_t first, std::size_t count) {
        std::vector<Sge> sges;
        for (std::size_t i = 0; i < count; i++) sges.push_back({first + i, 100, 7});
        return sges;
    }
    std::vector<std::uint64_t> addresses(const SendEntry& entry) {
        std::vector<std::uint64_t> found;
        for (const Sge& sge : queue_.sges(entry)) found.push_back(sge.address);
        return found;
    }
    std::vector<std::uint8_t> inline_data(SendEntry& entry) {
        const std::uint8_t* const at = queue_.inline_data(entry);
        return {at, at + entry.length};
    }

    completion::CompletionQueue cq_{kRequests, nullptr};
    SendQueue queue_{{kRequests, 1, kElements, 1, kInlineBytes}, &cq_};
};

TEST_F(SendQueueTest, KeepsEachRequestsElements) {
    const auto expect = [](std::uint64_t first, std::size_t count) {
        std::vector<std::uint64_t> wanted(count);
        std::iota(wanted.begin(), wanted.end(), first);
        return wanted;
    };
    for (const std::size_t count : {kElements, 1u, 0u, kElements - 1}) push(elements(1000 * count, count));
    EXPECT_EQ(addresses(queue_.at(0)), expect(1000 * kElements, kElements));
    EXPECT_EQ(addresses(queue_.at(1)), expect(1000, 1));
    EXPECT_EQ(addresses(queue_.at(2)), expect(0, 0));
    EXPECT_EQ(addresses(queue_.at(3)), expect(1000 * (kElements - 1), kElements - 1));
}

// What fits beside the request lies there, and what is longer elsewhere.
TEST_F(SendQueueTest, KeepsEachRequestsInlineData) {
    std::vector<std::uint8_t> bytes(kRequests * kInlineBytes);
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    const std::uint32_t lengths[] = {kInlineBytes, 16, 17, 3};
    static_assert(std::size(lengths) == kRequests);
    std::vector<std::vector<std::uint8_t>> wanted;
    for (std::uint32_t i = 0; i < kRequests; i++) {
        const std::uint8_t* const from = bytes.data() + i * kInlineBytes;
        wanted.emplace_back(from, from + lengths[i]);
        const auto address = reinterpret_cast<std::uintptr_t>(from);
        const std::uint32_t half = lengths[i] / 2;
        push({{address, half, 0}, {address + half, lengths[i] - half, 0}}, kInline);
    }
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0xff});
    for (std::uint32_t i = 0; i < kRequests; i++) {
        EXPECT_EQ(inline_data(queue_.at(i)), wanted[i]);
        EXPECT_TRUE(queue_.sges(queue_.at(i)).empty());
    }
}

TEST_F(SendQueueTest, InlineDataAndElementsDoNotMeet) {
    std::vector<std::uint8_t> bytes(kInlineBytes, 0x5a);
    push(elements(1, kElements));
    SendEntry& data = push({{reinterpret_cast<std::uintptr_t>(bytes.data()), kInlineBytes, 0}}, kInline);
    push(elements(11, kElements));
    push(elements(21, kElements));
    EXPECT_EQ(inline_data(data), bytes);
    EXPECT_EQ(addresses(queue_.at(0)), (std::vector<std::uint64_t>{1, 2, 3}));
    EXPECT_EQ(addresses(queue_.at(3)), (std::vector<std::uint64_t>{21, 22, 23}));
}

// Also where requests of other kinds were before.
TEST_F(SendQueueTest, APlaceIsUsedAgain) {
    const std::vector<std::uint8_t> bytes(kInlineBytes, 0x5a);
    const Sge whole{reinterpret_cast<std::uintptr_t>(bytes.data()), kInlineBytes, 0};
    push({});
    for (unsigned n = 1; n < 3 * kRequests; n++) {
        SendEntry& entry = n % 3 == 0   ? push(elements(n, kElements))
                           : n % 3 == 1 ? push({whole}, kInline)
                                        : push(elements(n, 1));
        EXPECT_EQ(queue_.slot_of(entry), n % kRequests);
        if (n % 3 == 1)
            EXPECT_EQ(inline_data(entry), bytes);
        else
            EXPECT_EQ(addresses(entry).back(), n % 3 == 0 ? n + kElements - 1 : n);
        queue_.completed(0);
        queue_.pop();
    }
}

TEST_F(SendQueueTest, WhenNothingIsLeftItBeginsAtItsFirstPlace) {
    for (unsigned n = 0; n < 2 * kRequests; n++) {
        EXPECT_EQ(&push(elements(n, 1)), queue_.first_place());
        if (n % 2 != 0) {
            EXPECT_EQ(queue_.slot_of(push(elements(100, 1))), 1u);
        }
        for (; !queue_.empty(); queue_.pop()) queue_.completed(0);
    }
}

TEST(SendQueueShape, NoElementsAndNoInlineData) {
    completion::CompletionQueue cq(4, nullptr);
    SendQueue queue{{3, 1, 0, 1, 0}, &cq};
    EXPECT_EQ(queue.slots(), 4u);
    for (const std::uint32_t flags : {0u, kInline, 0u}) {
        SendRequest request;
        request.flags = flags;
        EXPECT_TRUE(queue.sges(queue.push(request, 0, false)).empty());
    }
    EXPECT_TRUE(queue.full());
    EXPECT_EQ((SendQueue{{0, 0, 0, 0, 0}, &cq}.room()), 0u);
}

// A completion that waits to be polled keeps its request's place, and a new request does not make the queue
// forget where it is.
TEST_F(SendQueueTest, ARequestIsThereUntilItsCompletionIsTaken) {
    for (std::uint32_t i = 0; i < kRequests; i++) push({});
    for (std::uint32_t i = 0; i < kRequests - 1; i++) {
        queue_.completed(cq_.push({}, false));
        queue_.pop();
    }
    EXPECT_TRUE(queue_.full());
    std::vector<completion::Completion> taken(2);
    ASSERT_EQ(cq_.poll(taken), 2u);
    EXPECT_EQ(queue_.room(), 2u);
    push({}), push({});
    EXPECT_TRUE(queue_.full());
    ASSERT_EQ(cq_.poll(taken), 1u);
    EXPECT_EQ(queue_.room(), 1u);
}

}  // namespace
}  // namespace verbena::transport
