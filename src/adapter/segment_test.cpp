#include "adapter/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace verbena::adapter {
namespace {

constexpr Segment::Sizes kSizes{.regions = 1000, .queue_pairs = 100, .objects = 10};

TEST(SegmentTest, TablesAreAlignedSeparateAndZero) {
    for (bool shared : {false, true}) {
        auto segment = shared ? Segment::create_shared(kSizes, 5) : Segment::create_on_heap(kSizes);
        ASSERT_NE(segment, nullptr);
        EXPECT_EQ(segment->fd() >= 0, shared);
        EXPECT_EQ(segment->regions().size(), 1000u);
        EXPECT_EQ(segment->queue_pairs().size(), 100u);
        EXPECT_EQ(segment->objects().size(), 10u);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment->regions().data()) % 64, 0u);
        EXPECT_LE(static_cast<void*>(segment->regions().data() + 1000), segment->queue_pairs().data());
        EXPECT_LE(static_cast<void*>(segment->queue_pairs().data() + 100), segment->objects().data());
        for (const auto& record : segment->regions()) EXPECT_EQ(record.tag, 0u);
        for (const auto& record : segment->queue_pairs()) EXPECT_EQ(record.number, 0u);
    }
}

TEST(SegmentTest, AnotherMappingSeesTheSameTables) {
    auto segment = Segment::create_shared(kSizes, 5);
    ASSERT_NE(segment, nullptr);
    struct stat status;
    ASSERT_EQ(fstat(segment->fd(), &status), 0);
    EXPECT_EQ(static_cast<std::size_t>(status.st_size), Segment::bytes_for(kSizes));
    void* memory = mmap(nullptr, Segment::bytes_for(kSizes), PROT_READ, MAP_SHARED, segment->fd(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto* header = static_cast<const SegmentHeader*>(memory);
    EXPECT_EQ(header->magic, kSegmentMagic);
    EXPECT_EQ(std::memcmp(&header->magic, "VERBSEG1", 8), 0);
    EXPECT_EQ(header->version, kSegmentVersion);
    EXPECT_EQ(header->pid, static_cast<std::uint32_t>(getpid()));
    EXPECT_EQ(header->total_size, Segment::bytes_for(kSizes));
    EXPECT_NE(header->nonce[0], 0u);
    const auto generation = header->generation.load();
    segment->queue_pairs()[3].number = 0x123;
    const auto* bytes = static_cast<const std::uint8_t*>(memory);
    EXPECT_EQ(reinterpret_cast<const QpRecord*>(bytes + header->qp_offset)[3].number, 0x123u);
    segment.reset();
    EXPECT_NE(header->generation.load(), generation);  // a reader notices the end
    munmap(memory, Segment::bytes_for(kSizes));
}

TEST(SegmentTest, NobodyCanResizeTheFile) {
    auto segment = Segment::create_shared(kSizes, 5);
    ASSERT_NE(segment, nullptr);
    EXPECT_EQ(ftruncate(segment->fd(), 4096), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(ftruncate(segment->fd(), 1 << 30), -1);
    EXPECT_EQ(errno, EPERM);
}

TEST(SegmentTest, UnusedTablesTakeNoMemory) {
    auto segment = Segment::create_shared({}, 5);
    ASSERT_NE(segment, nullptr);
    struct stat status;
    ASSERT_EQ(fstat(segment->fd(), &status), 0);
    EXPECT_GT(status.st_size, 16 << 20);
    EXPECT_LT(status.st_blocks * 512, 64 << 10);
}

}  // namespace
}  // namespace verbena::adapter
