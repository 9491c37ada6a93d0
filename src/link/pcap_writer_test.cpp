#include "link/pcap_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "wire/byte_order.h"
#include "wire/icrc.h"

namespace verbena::link {
namespace {

std::uint32_t word(const std::vector<std::uint8_t>& bytes, std::size_t offset) {
    std::uint32_t value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

// The bodies of the packet blocks in a file, checking the frame of each block.
std::vector<std::vector<std::uint8_t>> read_packets(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
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

INSTANTIATE_TEST_SUITE_P(Families, PcapWriterTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "ipv4" : "ipv6"; });

}  // namespace
}  // namespace verbena::link
