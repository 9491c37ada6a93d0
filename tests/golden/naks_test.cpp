// The refusals of the capture "naks": our responder, given the same request in the same situation, answers
// with the packet that Linux answered with, but for MigReq and the numbers of queue pairs. Where it says
// something else on purpose (soft-RoCE calls a queue pair's missing permission and a message longer than its
// receive otherwise), tests/verbs/table.cpp has both.
#include <gtest/gtest.h>

#include "pcap_reader.h"
#include "transport/rc_harness.h"

namespace verbena::golden {
namespace {

using transport::testing::Harness;

struct Refusal {
    const char* name;
    std::uint32_t responder;  // the queue pair in the capture
    std::uint8_t syndrome;
};

constexpr Refusal kRefusals[] = {{"NoReceive", 0x2c, 0x2c},
                                 {"WriteUnknownKey", 0x2f, 0x62},
                                 {"WriteForeignKey", 0x30, 0x62},
                                 {"ReadUnknownKey", 0x31, 0x62},
                                 {"AtomicUnknownKey", 0x35, 0x62}};

class Naks : public testing::TestWithParam<Refusal> {};

TEST_P(Naks, AreThoseOfLinux) {
    std::string error;
    const std::vector<Datagram> capture = read_capture(VERBENA_CAPTURES "/naks.pcap", error);
    ASSERT_EQ(error, "");
    wire::Packet request, answer;
    bool requested = false, answered = false;
    for (const Datagram& datagram : capture) {
        wire::Packet packet;
        if (wire::parse(datagram.payload, packet) != wire::ParseError::none) continue;
        const bool is_answer = packet.headers.bth.opcode == wire::Opcode::rc_ack;
        if (!requested && !is_answer && packet.headers.bth.destination_qp == GetParam().responder) {
            request = packet;
            requested = true;
        } else if (requested && !answered && is_answer) {
            answer = packet;
            answered = true;
        }
    }
    ASSERT_TRUE(requested && answered);
    ASSERT_EQ(answer.headers.aeth.syndrome, GetParam().syndrome);

    Harness h;
    h.start_psn[0] = request.headers.bth.psn;
    h.start();
    h.inject(1, request.headers, {request.payload.begin(), request.payload.end()});
    h.run(100 * kMillisecond);
    const auto ours = h.packets(1);
    ASSERT_EQ(ours.size(), 1u);
    const wire::Headers& headers = ours[0].headers;
    EXPECT_EQ(headers.bth.opcode, answer.headers.bth.opcode);
    EXPECT_EQ(headers.bth.psn, answer.headers.bth.psn);
    EXPECT_EQ(headers.bth.pkey, answer.headers.bth.pkey);
    EXPECT_EQ(headers.bth.solicited, answer.headers.bth.solicited);
    EXPECT_EQ(headers.bth.ack_request, answer.headers.bth.ack_request);
    EXPECT_EQ(headers.bth.pad_count, answer.headers.bth.pad_count);
    EXPECT_EQ(headers.aeth.syndrome, answer.headers.aeth.syndrome);
    EXPECT_EQ(headers.aeth.msn, answer.headers.aeth.msn);
    EXPECT_EQ(ours[0].payload, answer.payload.size());
}

INSTANTIATE_TEST_SUITE_P(All, Naks, testing::ValuesIn(kRefusals),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace verbena::golden
