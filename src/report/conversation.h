// Who talks with whom: the packets of a recording sorted into conversations of two ends, with what each end's
// program did and was told meanwhile. This is the model behind the ladder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/gid.h"
#include "report/program_index.h"
#include "report/recording.h"
#include "wire/fields.h"
#include "wire/packet.h"

namespace verbena::report {

enum class Kind : std::uint8_t {
    connection,   // REQ, REP, RTU
    service,      // SIDR, datagrams
    multicast,    // one sender and a group
    queue_pairs,  // connected without the connection manager
};

constexpr std::size_t kNone = SIZE_MAX;
constexpr int kLeft = 0, kRight = 1;

// A packet as the report needs it, parsed once.
struct ViewedPacket {
    wire::Packet parsed;
    bool valid = false;     // else only `parsed.headers.bth` may be there
    bool cm = false;        // carries a message of the connection manager
    bool repeated = false;  // its PSN, or its message, was sent before
    bool refusal = false;   // NAK or RNR NAK
    std::size_t conversation = kNone;
    int side = kLeft;  // who sent it
};

struct End {
    Gid address;
    std::uint16_t port = 0;
    std::uint32_t comm_id = 0;
    std::uint32_t qpn = 0;
    std::size_t process = kNone;
};

enum class What : std::uint8_t { message, packet, traffic, call, event, transition, completion };

// One line of the ladder, at one side or from one to the other.
struct Step {
    What what = What::message;
    std::uint64_t time = 0;
    int side = kLeft;
    std::string label;                 // REQ, rc_send_only, rdma_connect
    std::vector<std::string> details;  // short: "QPN 0x000011"
    std::string before[2], after[2];   // the ends' CM states around a message
    std::size_t packet = kNone;        // its index in Recording::packets
    bool lost = false, repeated = false, bad = false;
    std::string remark;  // why it is bad, what a plan of faults did
    unsigned packets = 0;
    std::uint64_t bytes = 0;  // of payload; traffic and packets
};

struct Conversation {
    Kind kind = Kind::connection;
    End ends[2];
    std::uint64_t service_id = 0;
    std::uint32_t request_id = 0;  // SIDR
    std::vector<std::size_t> packets;
    std::vector<Step> steps;
    unsigned data_packets = 0;
    unsigned left_out = 0;  // notes of programs that are not among the steps
};

// Parses the packets and sorts them into conversations, whose `packets` and `ends` are filled.
std::vector<Conversation> find_conversations(const Recording& recording, std::vector<ViewedPacket>& views);

// Fills the steps of `count` of them, from the one at `first`: as many as there are.
void find_steps(const Recording& recording, const std::vector<ViewedPacket>& views,
                std::vector<Conversation>& conversations, std::size_t first, std::size_t count);

// What a program did and was told at one end of a conversation (notes.cpp); adds to `left_out` what is too
// much to draw.
std::vector<Step> notes_of(const Recording& recording, const std::vector<ProgramIndex>& programs,
                           const std::vector<Conversation>& all, const Conversation& conversation, int side,
                           unsigned& left_out);

// The CM state of both ends, followed through a conversation's messages (IBA 12.9).
class CmStates {
   public:
    explicit CmStates(Kind kind);
    // What the message does to both ends; with `lost`, to the sender's only.
    void take(wire::CmAttribute attribute, int sender, bool lost, Step& step);

   private:
    std::string state_[2];
    wire::CmAttribute missed_[2] = {wire::CmAttribute::class_port_info,
                                    wire::CmAttribute::class_port_info};  // lost on its way there
};

}  // namespace verbena::report
