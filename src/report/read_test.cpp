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

}  // namespace
}  // namespace verbena::report
