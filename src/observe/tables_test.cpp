// What is read of a process's tables, and that nonsense is not.
#include "observe/tables.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "observe/counters.h"

namespace verbena::observe {
namespace {

using adapter::Segment;

constexpr Segment::Sizes kSizes{.regions = 100, .queue_pairs = 200, .objects = 100};

class TablesTest : public testing::Test {
   protected:
    void SetUp() override {
        ASSERT_NE(segment_, nullptr);
        fd_ = open(("/proc/self/fd/" + std::to_string(segment_->fd())).c_str(), O_RDONLY | O_CLOEXEC);
        ASSERT_GE(fd_, 0);
    }
    void TearDown() override { close(fd_); }
    adapter::QpRecord& use(std::uint32_t index, std::uint32_t number, std::uint32_t device) {
        adapter::QpRecord& record = segment_->queue_pairs()[index];
        record.created = 1;
        record.number = number;
        record.device = device;
        record.peer_device = adapter::kNoDevice;
        return record;
    }

    transport::BusyCounters& busy(const adapter::QpRecord& record) {
        return segment_->busy_counters_of(record);
    }

    std::unique_ptr<Segment> segment_ = Segment::create_shared(kSizes, 7);
    int fd_ = -1;
    Tables tables_;
};

TEST_F(TablesTest, WhatIsThere) {
    // More than are read at once, with holes.
    for (std::uint32_t i = 0; i < 150; i++) busy(use(i, i % 3 == 0 ? 0 : 0x1000 + i, 4)).packets_sent = i;
    auto& region = segment_->regions()[1];
    region.tag = 0x24;
    region.pd = 3;
    region.length = 4096;
    segment_->regions()[2].tag = memory::kDead;
    auto& window = segment_->regions()[3];
    window.tag = 0x126;
    window.kind = memory::RecordKind::window_type2;
    auto& object = segment_->objects()[1];
    segment_->objects()[0].kind = adapter::ObjectKind::free;
    object.kind = adapter::ObjectKind::completion_queue;
    object.number = 9;
    object.size = 16;

    ASSERT_TRUE(read_tables(fd_, Depth::everything, tables_));
    EXPECT_EQ(tables_.pid, static_cast<std::uint32_t>(getpid()));
    EXPECT_EQ(tables_.started, 7u);
    EXPECT_FALSE(tables_.command.empty());
    ASSERT_EQ(tables_.queue_pairs.size(), 100u);
    EXPECT_EQ(tables_.queue_pairs.back().number, 0x1000u + 149);
    EXPECT_EQ(tables_.queue_pairs.back().counters.packets_sent, 149u);
    ASSERT_EQ(tables_.regions.size(), 1u);
    EXPECT_EQ(tables_.regions[0].lkey, 0x124u);
    EXPECT_EQ(tables_.regions[0].rkey, 0x125u);
    EXPECT_EQ(tables_.regions[0].length, 4096u);
    ASSERT_EQ(tables_.objects.size(), 1u);
    EXPECT_EQ(tables_.objects[0].size, 16u);

    ASSERT_TRUE(read_tables(fd_, Depth::counters, tables_));
    EXPECT_EQ(tables_.queue_pairs.size(), 100u);
    EXPECT_TRUE(tables_.regions.empty());
}

TEST_F(TablesTest, SumsOfTheLivingAndTheEnded) {
    busy(use(0, 0x1001, 4)).bytes_sent = 100;
    adapter::QpRecord& local = use(1, 0x1002, 4);
    local.counters.direct_packets_out = 3;
    local.counters.direct_bytes_out = 3000;
    local.counters.direct_packets_in = 1;
    local.peer_device = 5;
    segment_->totals_of(4).own.bytes_sent = 11;
    segment_->totals_of(6).receive_errors = 2;

    ASSERT_TRUE(read_tables(fd_, Depth::counters, tables_));
    Ports ports;
    tables_.add_to(ports);
    ASSERT_EQ(ports.size(), 3u);
    EXPECT_EQ(ports[4].own.bytes_sent, 111u);
    EXPECT_EQ(ports[4].own.direct_bytes_out, 3000u);
    EXPECT_EQ(ports[5].mirrored_packets_in, 3u);
    EXPECT_EQ(ports[5].mirrored_bytes_in, 3000u);
    EXPECT_EQ(ports[5].mirrored_packets_out, 1u);
    EXPECT_EQ(ports[6].receive_errors, 2u);
    EXPECT_EQ(tables_.total().bytes_sent, 111u);
}

TEST_F(TablesTest, AQueuePairThatIsRetiringForEverIsReadOnce) {
    busy(use(0, 0x1001, 4)).bytes_sent = 100;
    segment_->header().retirements = 1;  // a program that was killed in the middle
    ASSERT_TRUE(read_tables(fd_, Depth::counters, tables_));
    EXPECT_EQ(tables_.queue_pairs.size(), 1u);
}

TEST_F(TablesTest, ReadingMakesNothingReal) {
    struct stat before, after;
    ASSERT_EQ(fstat(fd_, &before), 0);
    ASSERT_TRUE(read_tables(fd_, Depth::everything, tables_));
    ASSERT_EQ(fstat(fd_, &after), 0);
    EXPECT_EQ(before.st_blocks, after.st_blocks);
}

TEST_F(TablesTest, Nonsense) {
    segment_->header().qp_count = 0xffffffff;
    EXPECT_FALSE(read_tables(fd_, Depth::counters, tables_));
    segment_->header().qp_count = 1;
    std::uint64_t& queue_pairs = segment_->header().qp_offset;
    const std::uint64_t right = std::exchange(queue_pairs, ~std::uint64_t{0});
    EXPECT_FALSE(read_tables(fd_, Depth::counters, tables_));
    queue_pairs = right;
    segment_->header().busy_offset = ~std::uint64_t{0};
    EXPECT_FALSE(read_tables(fd_, Depth::counters, tables_));
    segment_->header().version++;
    EXPECT_FALSE(read_tables(fd_, Depth::counters, tables_));
    const int empty = memfd_create("empty", MFD_CLOEXEC);
    EXPECT_FALSE(read_tables(empty, Depth::counters, tables_));
    close(empty);
    EXPECT_FALSE(read_tables(-1, Depth::counters, tables_));
}

std::uint64_t value(std::span<const Counter> counters, const char* name, const adapter::PortTotals& totals) {
    for (const Counter& counter : counters)
        if (std::string(counter.name) == name) return counter.value(totals);
    ADD_FAILURE() << "no " << name;
    return 0;
}

TEST(Counters, WordsOfFourBytesAndWhatMemoryStoodFor) {
    adapter::PortTotals totals{};
    totals.own.wire_bytes_sent = 400;
    totals.own.packets_sent = 2;
    totals.own.multicast_sent = 1;
    totals.mirrored_packets_out = 1;
    totals.mirrored_bytes_out = 4080;
    EXPECT_EQ(value(port_counters(), "port_xmit_data", totals), (400 + 4080 + 16) / 4);
    EXPECT_EQ(value(port_counters(), "port_xmit_packets", totals), 3u);
    EXPECT_EQ(value(port_counters(), "unicast_xmit_packets", totals), 2u);
    EXPECT_EQ(value(hw_counters(), "sent_pkts", totals), 3u);
}

TEST(Counters, NamesDiffer) {
    std::map<std::string, int> names, metrics;
    for (auto list : {port_counters(), hw_counters()})
        for (const Counter& counter : list) {
            // link_downed is in both lists, as it is in sysfs.
            if (std::string(counter.name) != "link_downed") {
                EXPECT_EQ(names[counter.name]++, 0) << counter.name;
            }
            if (counter.metric) {
                EXPECT_EQ(metrics[counter.metric]++, 0) << counter.metric;
                EXPECT_TRUE(std::string(counter.metric).ends_with("_total"));
            }
        }
}

}  // namespace
}  // namespace verbena::observe
