#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "report/recording.h"

namespace verbena::report {
namespace {

std::string of_pid(int pid, const std::string& rest) {
    return R"({"k":"process","pid":)" + std::to_string(pid) + ',' + rest + "}\n";
}

bool read(const std::string& text, Recording& recording, std::string& error) {
    std::istringstream stream(text);
    return read_recording("file", stream, recording, error);
}

TEST(ReadRecording, a_process_is_known_by_file_and_pid) {
    Recording recording;
    std::string error;
    const std::string two = of_pid(1, R"("exe":"a")") + of_pid(2, R"("exe":"b")");
    ASSERT_TRUE(read(two + of_pid(1, R"("exe":"c")"), recording, error)) << error;
    ASSERT_TRUE(read(two, recording, error)) << error;
    std::string seen;
    for (const Process& process : recording.processes)
        seen += std::to_string(process.file) + " " + process.name() + ", ";
    EXPECT_EQ(seen, "0 c (pid 1), 0 b (pid 2), 1 a (pid 1), 1 b (pid 2), ");
}

// A search for each line takes a minute here.
TEST(ReadRecording, of_many_processes_each_is_found_at_once) {
    constexpr int kCount = 300'000;
    std::string text;
    for (int pid = 0; pid < kCount; pid++) text += of_pid(pid, R"("exe":"a")");
    Recording recording;
    std::string error;
    ASSERT_TRUE(read(text, recording, error)) << error;
    EXPECT_EQ(recording.processes.size(), std::size_t{kCount});
}

TEST(ReadRecording, a_line_without_an_end_is_refused) {
    const std::string longest(1 << 24, ' ');
    Recording recording;
    std::string error;
    EXPECT_TRUE(read(longest + "\n" + of_pid(1, R"("exe":"a")"), recording, error)) << error;
    EXPECT_EQ(recording.processes.size(), 1u);
    EXPECT_FALSE(read(of_pid(1, R"("exe":"a")") + longest + " ", recording, error));
    EXPECT_EQ(error, "file:2: the line is longer than 16777216 bytes");
}

std::string bytes(std::initializer_list<unsigned> values) {
    std::string text;
    for (const unsigned value : values) text.push_back(static_cast<char>(value));
    return text;
}

std::string number(std::uint32_t value) {
    return bytes({value & 0xff, value >> 8 & 0xff, value >> 16 & 0xff, value >> 24});
}

// tcpdump's file of Ethernet frames, of which it has kept so many bytes each.
std::string pcap_of(const std::vector<std::string>& frames, std::size_t snapshot) {
    std::string file =
        number(0xa1b2c3d4) + number(0x40002) + number(0) + number(0) + number(262144) + number(1);
    for (const std::string& frame : frames) {
        const std::string kept = frame.substr(0, snapshot);
        file += number(1) + number(0) + number(static_cast<std::uint32_t>(kept.size())) +
                number(static_cast<std::uint32_t>(frame.size())) + kept;
    }
    return file;
}

// To UDP port 4791, with 20 bytes in it.
std::string frame_with(const std::string& tags) {
    const std::string ip = bytes({0x45, 0, 0, 48, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2});
    const std::string udp = bytes({0xc0, 0, 0x12, 0xb7, 0, 28, 0, 0});
    return std::string(12, 'm') + tags + bytes({8, 0}) + ip + udp + std::string(20, '\0');
}

TEST(ReadRecording, frames_of_vlans_are_read) {
    const std::string tag = bytes({0x81, 0, 0, 5}), outer = bytes({0x88, 0xa8, 0, 7});
    Recording recording;
    std::string error;
    ASSERT_TRUE(
        read(pcap_of({frame_with(""), frame_with(tag), frame_with(outer + tag)}, 1000), recording, error));
    EXPECT_EQ(recording.packets.size(), 3u);
    EXPECT_TRUE(recording.remarks.empty());
}

TEST(ReadRecording, what_a_capture_lacks_is_told) {
    const std::vector<std::string> frames(3, frame_with(""));
    Recording recording;
    std::string error;
    ASSERT_TRUE(read(pcap_of(frames, 60), recording, error));
    EXPECT_TRUE(recording.packets.empty());
    const std::string half = pcap_of(frames, 1000);
    ASSERT_TRUE(read(half.substr(0, half.size() - 1), recording, error));
    EXPECT_EQ(recording.packets.size(), 2u);
    EXPECT_EQ(recording.remarks,
              (std::vector<std::string>{
                  "file: 3 packets were captured in part; a longer snapshot (tcpdump -s 0) has all of them",
                  "file: it ends in the middle of a packet, which is missing"}));
}

}  // namespace
}  // namespace verbena::report
