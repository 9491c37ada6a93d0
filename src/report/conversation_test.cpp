// Which packets belong together.

#include "report/conversation.h"

#include <gtest/gtest.h>

#include "wire/cm_messages.h"

namespace verbena::report {
namespace {

const Gid kHere = Gid::from_ipv4(0x0a000001), kThere = Gid::from_ipv4(0x0a000002),
          kElsewhere = Gid::from_ipv4(0x0a000003);

class ConversationTest : public testing::Test {
   protected:
    void add(const Gid& from, const Gid& to, const wire::Headers& headers,
             std::span<const std::uint8_t> payload = {}) {
        RecordedPacket& packet = recording_.packets.emplace_back();
        packet.captured.path.source = from;
        packet.captured.path.destination = to;
        auto& bytes = packet.captured.bytes;
        bytes.resize(wire::kMaxHeaderLength);
        bytes.resize(wire::emit(headers, bytes.data()));
        bytes.insert(bytes.end(), payload.begin(), payload.end());
        bytes.resize(bytes.size() + wire::kIcrcLength);
    }
    void datagram(const Gid& from, std::uint32_t qp, const Gid& to, std::uint32_t to_qp,
                  std::span<const std::uint8_t> payload = {}) {
        wire::Headers headers;
        headers.bth.opcode = wire::Opcode::ud_send_only;
        headers.bth.destination_qp = to_qp;
        headers.deth.source_qp = qp;
        add(from, to, headers, payload);
    }
    template <class Message>
    void mad(const Gid& from, const Gid& to, const Message& message) {
        std::array<std::uint8_t, wire::kMadLength> bytes{};
        wire::MadHeader header;
        header.attribute_id = Message::kAttribute;
        const std::span<std::uint8_t, wire::kMadLength> all(bytes);
        wire::encode(header, wire::mad_header(all));
        wire::encode(message, wire::cm_message(all));
        datagram(from, wire::kQp1, to, wire::kQp1, bytes);
    }
    void look_up(std::uint32_t request, std::uint32_t answer) {
        wire::SidrReq req;
        req.request_id = request;
        mad(kHere, kThere, req);
        wire::SidrRep rep;
        rep.request_id = request;
        rep.qpn = answer;
        mad(kThere, kHere, rep);
    }
    void send(const Gid& from, const Gid& to, std::uint32_t to_qp) {
        wire::Headers headers;
        headers.bth.destination_qp = to_qp;
        add(from, to, headers);
    }
    void connect(std::uint32_t qp, const char* peer) {
        Transition& transition = recording_.transitions.emplace_back();
        transition.qp = qp;
        transition.attributes = {{"dest_qp_num", peer}};
    }
    // The conversation of each packet, and who sent it.
    std::vector<std::pair<std::size_t, int>> places() {
        std::vector<ViewedPacket> views;
        recording_.processes.resize(1);
        all_ = find_conversations(recording_, views);
        std::vector<std::pair<std::size_t, int>> found;
        for (const ViewedPacket& view : views) found.emplace_back(view.conversation, view.side);
        return found;
    }

    Recording recording_;
    std::vector<Conversation> all_;
    using Places = std::vector<std::pair<std::size_t, int>>;
};

TEST_F(ConversationTest, ClientsOfOneService) {
    look_up(1, 0x50);
    look_up(2, 0x50);
    datagram(kHere, 0x11, kThere, 0x50);
    datagram(kHere, 0x12, kThere, 0x50);
    datagram(kThere, 0x50, kHere, 0x12);
    datagram(kHere, 0x11, kThere, 0x50);
    datagram(kHere, 0x13, kThere, 0x50);  // looked up by nobody
    const Places expected{{0, kLeft}, {0, kRight}, {1, kLeft}, {1, kRight}, {0, kLeft},
                          {1, kLeft}, {1, kRight}, {0, kLeft}, {2, kLeft}};
    EXPECT_EQ(places(), expected);
    EXPECT_EQ(all_[1].ends[kLeft].qpn, 0x12u);
    EXPECT_EQ(all_[2].kind, Kind::queue_pairs);
}

TEST_F(ConversationTest, AServiceForQueuePairsThatKnowEachOther) {
    datagram(kThere, 0x50, kHere, 0x11);
    look_up(1, 0x50);
    datagram(kHere, 0x11, kThere, 0x50);
    datagram(kThere, 0x50, kHere, 0x11);
    look_up(1, 0x51);  // the number again
    const Places expected{{0, kLeft},  {1, kLeft}, {1, kRight}, {1, kLeft},
                          {1, kRight}, {1, kLeft}, {1, kRight}};
    EXPECT_EQ(places(), expected);
}

TEST_F(ConversationTest, QueuePairsByTheirAttributes) {
    connect(0x11, "0x21");
    connect(0x21, "0x11");
    send(kHere, kThere, 0x21);
    send(kThere, kHere, 0x11);
    EXPECT_EQ(places(), (Places{{0, kLeft}, {0, kRight}}));
}

TEST_F(ConversationTest, TheSameNumberOnAnotherHost) {
    connect(0x11, "0x21");
    send(kThere, kHere, 0x11);
    send(kHere, kElsewhere, 0x21);
    EXPECT_EQ(places(), (Places{{0, kLeft}, {1, kLeft}}));
}

}  // namespace
}  // namespace verbena::report
