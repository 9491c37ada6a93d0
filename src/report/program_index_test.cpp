// Calls are found by the objects that they name.

#include "report/program_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::report {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Call call(std::uint64_t time, std::uint64_t duration, int depth, Pairs arguments, std::string result = "0") {
    Call made;
    made.time = time;
    made.duration = duration;
    made.depth = depth;
    made.arguments = std::move(arguments);
    made.result = std::move(result);
    return made;
}

TEST(ProgramIndex, CallsByWhatTheyName) {
    Recording recording;
    recording.processes.resize(2);
    recording.calls = {call(1, 1, 0, {{"id", "id 1"}}),
                       call(2, 1, 0, {{"a", "id 12"}, {"b", "{\"x\":\"id 1\"}"}}),
                       call(3, 1, 0, {{"a", "grid 1"}, {"b", "id 1, id 1"}}, "qp 0x11"),
                       call(4, 1, 0, {{"a", "id 1_"}, {"b", "id "}, {"c", "qp 0x110"}, {"d", " 1"}})};
    recording.calls[3].process = 1;
    const auto all = index_programs(recording);
    EXPECT_THAT(all[0].calls, ElementsAre(0, 1, 2));
    EXPECT_THAT(ProgramIndex::find(all[0].calls_of, "id 1"), ElementsAre(0, 1, 2));
    EXPECT_THAT(ProgramIndex::find(all[0].calls_of, "id 12"), ElementsAre(1));
    EXPECT_THAT(ProgramIndex::find(all[0].calls_of, "qp 0x11"), ElementsAre(2));
    EXPECT_THAT(ProgramIndex::find(all[1].calls_of, "id 1"), ElementsAre(3));
    EXPECT_THAT(ProgramIndex::find(all[1].calls_of, "qp 0x11"), IsEmpty());
}

TEST(ProgramIndex, QueuePairs) {
    Recording recording;
    recording.processes.resize(1);
    recording.completions.resize(3);
    recording.completions[1].qp = 17;
    recording.transitions.resize(2);
    recording.transitions[0].qp = 17;
    const auto index = index_programs(recording)[0];
    EXPECT_THAT(index.completions, ElementsAre(0, 1, 2));
    EXPECT_THAT(ProgramIndex::find(index.completions_of, 17), ElementsAre(1));
    EXPECT_THAT(ProgramIndex::find(index.completions_of, 0), ElementsAre(0, 2));
    EXPECT_THAT(ProgramIndex::find(index.transitions_of, 17), ElementsAre(0));
}

TEST(ProgramIndex, TheCallAroundACall) {
    Recording recording;
    recording.processes.resize(1);
    recording.calls = {call(10, 5, 0, {}), call(12, 1, 1, {}), call(20, 5, 0, {}), call(21, 1, 1, {}),
                       call(30, 1, 1, {})};
    recording.calls[3].thread = 1;  // which has none
    const auto index = index_programs(recording)[0];
    const auto outer = [&](std::size_t i) { return outer_call(recording, index, recording.calls[i]); };
    EXPECT_EQ(outer(0), &recording.calls[0]);
    EXPECT_EQ(outer(1), &recording.calls[0]);
    EXPECT_EQ(outer(3), nullptr);
    EXPECT_EQ(outer(4), nullptr);  // ended before
}

}  // namespace
}  // namespace verbena::report
