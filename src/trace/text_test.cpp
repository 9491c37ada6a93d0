// Events as lines, files that grow.

#include "trace/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "trace/tail.h"

namespace verbena::trace {
namespace {

std::string line(std::string_view json, Part part = Part::whole) {
    const std::string text = Text{}.line(Json::parse(json), part);
    return text.substr(text.find_first_not_of("0123456789. -"));
}

TEST(Text, ACall) {
    EXPECT_EQ(line(R"({"k":"call","t":5,"d":1500,"pid":1,"tid":2,"depth":0,"call":"ibv_modify_qp",
                       "args":{"qp":"qp 0x11","attr":{"qp_state":"RTR","path_mtu":1024},"attr_mask":"STATE|AV"},
                       "ret":22,"errno":"EINVAL","reason":"is_global is 0"})"),
              "ibv_modify_qp(qp 0x11, attr={qp_state=RTR, path_mtu=1024}, attr_mask=STATE|AV) = 22 EINVAL "
              "<0.000002> "
              "(is_global is 0)");
}

TEST(Text, QueuesOfAKindAreToldApart) {
    EXPECT_EQ(line(R"({"k":"begin","t":5,"tid":2,"call":"ibv_create_qp","args":{"pd":"pd 1","send_cq":"cq 1",
                       "recv_cq":"cq 2"}})",
                   Part::unfinished),
              "ibv_create_qp(pd 1, send_cq=cq 1, recv_cq=cq 2 <unfinished ...>");
}

TEST(Text, ACompletion) {
    EXPECT_EQ(
        line(
            R"({"k":"wc","t":5,"pid":1,"tid":2,"cq":"cq 1","qp":17,"wr_id":"0x7","status":"IBV_WC_RNR_RETRY_EXC_ERR",
                       "vendor_err":9,"reason":"nobody posted"})"),
        "* completion cq 1 qp 0x11 IBV_WC_RNR_RETRY_EXC_ERR wr_id=0x7 vendor_err=9 (nobody posted)");
}

TEST(Text, TrailingZerosOfPrivateData) {
    EXPECT_EQ(show_value("0102000000", "private_data"), "0102... (5 bytes)");
    EXPECT_EQ(show_value("0000", "private_data"), "zeros (2 bytes)");
    EXPECT_EQ(show_value("01f0", "private_data"), "01f0");
}

TEST(Text, NothingThatATerminalObeys) {
    const Json event{{"k", "process"}, {"t", 1}, {"pid", 7}, {"argv", {"\x1b[2J", "two\nlines\x7f"}}};
    EXPECT_THAT(Text{}.line(event, Part::whole), testing::EndsWith("process 7: ?[2J two?lines?"));
}

TEST(Text, WhatIsNoPacketIsNotShown) { EXPECT_EQ(show_packet("////"), ""); }

TEST(Base64, ThereAndBack) {
    const std::vector<std::uint8_t> bytes{0, 255, 16, 131, 7};
    for (std::size_t size = 0; size <= bytes.size(); size++) {
        const std::string text = to_base64(bytes.data(), size);
        EXPECT_EQ(text.size() % 4, 0u);
        EXPECT_EQ(from_base64(text),
                  std::vector<std::uint8_t>(bytes.begin(), bytes.begin() + static_cast<long>(size)));
    }
    EXPECT_EQ(to_base64(bytes.data(), 5), "AP8Qgwc=");
}

TEST(EventTail, LinesAreReadWhenTheyHaveEnded) {
    const int fd = memfd_create("events", MFD_CLOEXEC);
    ASSERT_GE(fd, 0);
    EventTail tail(fd);
    const auto append = [&](std::string_view text) {
        ASSERT_EQ(write(fd, text.data(), text.size()), ssize_t(text.size()));
    };
    append("{\"k\":\"wc\",\"t\":1}\n{\"k\":\"w");
    EXPECT_EQ(tail.read().size(), 1u);
    EXPECT_EQ(tail.read().size(), 0u);
    append("c\",\"t\":2}\nnonsense\n[]\n");
    const auto events = tail.read();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0]["t"], 2);
    EXPECT_EQ(tail.left_out(), 2u);
    close(fd);
}

TEST(EventTail, OnlyLinesThatAreWanted) {
    const int fd = memfd_create("events", MFD_CLOEXEC);
    ASSERT_GE(fd, 0);
    const std::string_view text = "{\"k\":\"wc\",\"t\":1}\n{\"k\":\"qp\",\"t\":2}\nnonsense\n";
    ASSERT_EQ(write(fd, text.data(), text.size()), ssize_t(text.size()));
    EventTail tail(fd, R"("k":"qp")");
    const auto events = tail.read();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0]["t"], 2);
    EXPECT_EQ(tail.left_out(), 0u);
    close(fd);
}

// So that it does not fill memory.
TEST(Tails, WhatHasBeenReadGoes) {
    const int fd = memfd_create("packets", MFD_CLOEXEC);
    ASSERT_GE(fd, 0);
    const std::vector<char> much(1 << 20);
    const auto size = static_cast<ssize_t>(much.size());
    const auto blocks = [&] {
        struct stat status {};
        EXPECT_EQ(fstat(fd, &status), 0);
        return status.st_blocks;
    };
    ASSERT_EQ(write(fd, much.data(), much.size()), size);
    EXPECT_GT(blocks(), 0);
    PacketTail packets(fd);
    packets.read();
    EXPECT_EQ(blocks(), 0);
    EventTail events(fd, Afterwards::goes);
    ASSERT_EQ(write(fd, much.data(), much.size()), size);
    events.read();
    EXPECT_EQ(blocks(), 0);
    EXPECT_EQ(lseek(fd, 0, SEEK_END), 2 * size);
    close(fd);
}

}  // namespace
}  // namespace verbena::trace
