#include "link/pcap_writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "link/capture_reader.h"
#include "wire/byte_order.h"
#include "wire/icrc.h"

namespace verbena::link {
namespace {

std::uint32_t word(const std::vector<std::uint8_t>& bytes, std::size_t offset) {
    std::uint32_t value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

std::vector<std::uint8_t> content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The bodies of the packet blocks in a file, checking the frame of each block.
std::vector<std::vector<std::uint8_t>> read_packets(const std::string& path) {
    const std::vector<std::uint8_t> bytes = content_of(path);
    std::vector<std::vector<std::uint8_t>> packets;
    for (std::size_t offset = 0; offset < bytes.size();) {
        const std::uint32_t type = word(bytes, offset), length = word(bytes, offset + 4);
        EXPECT_EQ(length % 4, 0u);
        EXPECT_LE(offset + length, bytes.size());
        EXPECT_EQ(word(bytes, offset + length - 4), length);
        if (type == 6) {
            const std::uint32_t captured = word(bytes, offset + 20);
            const auto start = bytes.begin() + static_cast<std::ptrdiff_t>(offset) + 28;
            packets.emplace_back(start, start + captured);
        }
        offset += length;
    }
    return packets;
}

PacketEvent event_of(const wire::Path& path, const std::vector<std::uint8_t>& payload) {
    PacketEvent event;
    event.sent = true;
    event.path = &path;
    event.bytes = payload;
    return event;
}

class PcapWriterTest : public ::testing::TestWithParam<bool> {
   protected:
    PcapWriterTest() : path_(::testing::TempDir() + "verbena-pcap-test." + std::to_string(getpid())) {}
    ~PcapWriterTest() override { unlink(path_.c_str()); }
    const std::string path_;
};

TEST_P(PcapWriterTest, ThePacketsIcrcRecomputesFromTheFile) {
    wire::Path path;
    if (GetParam()) {
        path.source = Gid::from_ipv4(0x0a000001);
        path.destination = Gid::from_ipv4(0x0a000002);
    } else {
        path.source.bytes[0] = path.destination.bytes[0] = 0xfd;
        path.source.bytes[15] = 1;
        path.destination.bytes[15] = 2;
    }
    path.udp_source_port = 0xc001;
    path.hop_limit = 9;
    path.traffic_class = 0x1c;
    std::vector<std::uint8_t> payload(61);
    for (std::size_t i = 0; i < payload.size(); i++) payload[i] = static_cast<std::uint8_t>(i);
    wire::store_icrc(payload.data() + 57, wire::icrc_compute(path, wire::kUdpPort, payload, 7, true));

    PacketEvent event;
    event.sent = true;
    event.path = &path;
    event.ip_id = 7;
    event.bytes = payload;
    auto writer = PcapWriter::create(path_, "test", "test");
    ASSERT_NE(writer, nullptr);
    writer->write(event, 1'700'000'000 * kSecond + 5);
    event.sent = false;
    writer->write(event, 1'700'000'000 * kSecond + 6);

    const auto packets = read_packets(path_);
    ASSERT_EQ(packets.size(), 2u);
    EXPECT_EQ(packets[0], packets[1]);
    const std::size_t headers = GetParam() ? 28 : 48;
    ASSERT_EQ(packets[0].size(), headers + payload.size());
    const std::uint8_t* ip = packets[0].data();
    EXPECT_EQ(std::memcmp(ip + headers, payload.data(), payload.size()), 0);
    EXPECT_EQ(wire::load_be16(ip + headers - 8), 0xc001);
    EXPECT_EQ(wire::load_be16(ip + headers - 6), wire::kUdpPort);
    EXPECT_EQ(wire::load_be16(ip + headers - 4), 8 + payload.size());
    if (GetParam()) {
        EXPECT_EQ(wire::load_be16(ip + 4), 7);
        EXPECT_EQ(ip[8], 9);
        EXPECT_EQ(ip[1], 0x1c);
        std::uint32_t sum = 0;
        for (int i = 0; i < 20; i += 2) sum += wire::load_be16(ip + i);
        EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu);
    } else {
        EXPECT_EQ(ip[7], 9);
        EXPECT_EQ((ip[0] & 15) << 4 | ip[1] >> 4, 0x1c);
    }
}

TEST_P(PcapWriterTest, AFileThatCannotBeMadeIsAReason) {
    EXPECT_EQ(PcapWriter::create("/nowhere/at/all", "test", "test"), nullptr);
    EXPECT_EQ(errno, ENOENT);
}

// Of three blocks the second is there in part, whatever part; but for the last words, for which those of the
// third may be taken, as long as it.
TEST_P(PcapWriterTest, WhoReadsPassesOverWhatSomebodyLeftHalfWritten) {
    wire::Path path;
    path.source = path.destination = Gid::from_ipv4(0x7f000001);
    auto writer = PcapWriter::create(path_, "test", "test");
    ASSERT_NE(writer, nullptr);
    std::size_t ends[3];
    for (std::size_t& end : ends) {
        writer->write(event_of(path, std::vector<std::uint8_t>(40, 6)), kSecond);
        end = content_of(path_).size();
    }
    const auto whole = content_of(path_);
    CaptureGaps gaps;
    EXPECT_EQ(packets_of_capture(whole, &gaps).size(), 3u);
    EXPECT_EQ(gaps.damaged + gaps.cut_off + gaps.shortened, 0u);
    for (std::size_t kept = 1; kept < ends[1] - ends[0] - 8; kept++) {
        auto content = whole;
        const auto at = content.begin() + static_cast<std::ptrdiff_t>(ends[0]);
        content.erase(at + static_cast<std::ptrdiff_t>(kept),
                      at + static_cast<std::ptrdiff_t>(ends[1] - ends[0]));
        gaps = {};
        EXPECT_EQ(packets_of_capture(content, &gaps).size(), 2u) << kept;
        EXPECT_EQ(gaps.damaged, 1u) << kept;
        EXPECT_FALSE(gaps.cut_off) << kept;
        content.resize(ends[0] + kept);
        gaps = {};
        EXPECT_EQ(packets_of_capture(content, &gaps).size(), 1u) << kept;
        EXPECT_EQ(gaps.damaged, 0u) << kept;
        EXPECT_TRUE(gaps.cut_off) << kept;
    }
}

// A full disk, as far as a test has one: what does not fit is missing, and what comes when there is room
// again is there.
TEST_P(PcapWriterTest, WhatFindsNoRoomIsMissing) {
    wire::Path path;
    path.source = path.destination = Gid::from_ipv4(0x7f000001);
    const std::vector<std::uint8_t> payload(40, 6);
    auto writer = PcapWriter::create(path_, "test", "test");
    ASSERT_NE(writer, nullptr);
    writer->write(event_of(path, payload), kSecond);
    const std::size_t size = content_of(path_).size();
    EXPECT_FALSE(PcapWriter::lacks_packets(writer->fd()));
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    for (const std::size_t room : {0, 1, 60}) {
        const rlimit full{size + room, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &full);
        writer->write(event_of(path, payload), 2 * kSecond);
        setrlimit(RLIMIT_FSIZE, &before);
        EXPECT_EQ(content_of(path_).size(), size);
        EXPECT_TRUE(PcapWriter::lacks_packets(writer->fd()));
    }
    signal(SIGXFSZ, handler);
    writer->write(event_of(path, payload), 3 * kSecond);
    EXPECT_EQ(read_packets(path_).size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Families, PcapWriterTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "ipv4" : "ipv6"; });

}  // namespace
}  // namespace verbena::link
