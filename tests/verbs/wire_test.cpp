// Packets that no queue pair of ours sends: forged in the name of one end of a connected pair, with a right
// ICRC unless that is the point, and sent to the other from a plain socket. What the responder does with a
// request that it refuses, and that nothing else is harmed by it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace verbena::verbs_test {
namespace {

using wire::Opcode;

constexpr std::uint32_t kFirstPsn = 0xfffff0;  // Side::to_rtr()

struct Forged {
    const char* name;
    Opcode opcode;
    std::size_t length;        // payload
    std::uint64_t offset;      // in the target's memory
    bool refused;              // the queue pair ends; otherwise the packet is dropped and nothing happens
    std::uint32_t damage = 0;  // exclusive-or to the ICRC
    std::uint32_t psn = kFirstPsn;
    std::uint8_t version = 0;
    std::uint16_t pkey = 0xffff;
};

// IBA 9.7.4.1: refused with NAK invalid request. IBA 9.6.1, 9.7.4.1: dropped.
constexpr Forged kForged[] = {
    {"MiddleWithoutFirst", Opcode::rc_send_middle, 4096, 0, true},
    {"LastWithoutFirst", Opcode::rc_write_last, 64, 0, true},
    {"FirstThatIsTooShort", Opcode::rc_send_first, 64, 0, true},
    {"AtomicThatIsNotAligned", Opcode::rc_fetch_add, 0, 4, true},
    {"CompareAndSwapThatIsNotAligned", Opcode::rc_compare_swap, 0, 1, true},
    {"WrongIcrc", Opcode::rc_write_only, 64, 0, false, 0x01000000},
    {"ReservedOpcode", static_cast<Opcode>(0x1f), 64, 0, false},
    {"ReservedService", static_cast<Opcode>(0xe4), 64, 0, false},
    {"OpcodeOfUc", Opcode::uc_write_only, 64, 0, false},
    {"OpcodeOfUd", Opcode::ud_send_only, 64, 0, false},
    {"OtherVersion", Opcode::rc_write_only, 64, 0, false, 0, kFirstPsn, 1},
    {"OtherPartition", Opcode::rc_write_only, 64, 0, false, 0, kFirstPsn, 0, 0x8001},
    {"DuplicateOfNothing", Opcode::rc_fetch_add, 0, 0, false, 0, 0xffffe0},
    {"AcknowledgementOfNothing", Opcode::rc_ack, 0, 0, false},
};

// The UDP port of the fabric, which is not 4791 for a test's: our receive queue is the one socket that shares
// its port.
std::uint16_t wire_port() {
    for (int fd = 0; fd < 2048; fd++) {
        int shares = 0, type = 0;
        socklen_t size = sizeof shares;
        sockaddr_in address{};  // or a sockaddr_in6, which has the port at the same place
        socklen_t length = sizeof address;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM &&
            getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shares, &size) == 0 && shares &&
            getsockname(fd, static_cast<sockaddr*>(static_cast<void*>(&address)), &length) == 0)
            return ntohs(address.sin_port);
    }
    return 0;
}

// The datagram, as `from` would send it to `to` from that UDP port.
std::vector<std::uint8_t> forge(const Forged& row, Side& from, Side& to, Memory& memory, std::uint16_t port) {
    wire::Headers headers;
    headers.bth.opcode = row.opcode;
    headers.bth.version = row.version;
    headers.bth.pkey = row.pkey;
    headers.bth.destination_qp = to.qp->qp_num;
    headers.bth.psn = row.psn;
    headers.bth.ack_request = true;
    headers.reth = {memory.address(row.offset), memory.mr->rkey, static_cast<std::uint32_t>(row.length)};
    headers.atomic_eth = {memory.address(row.offset), memory.mr->rkey, 1, 0};
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderLength);
    std::size_t length = wire::emit(headers, bytes.data());
    if (length == 0) {  // an opcode that does not exist: the BTH of one that does
        headers.bth.opcode = Opcode::rc_send_only;
        length = wire::emit(headers, bytes.data());
        bytes[0] = static_cast<std::uint8_t>(row.opcode);
    }
    bytes.resize(length);
    bytes.resize(length + row.length, 0x55);

    wire::Path path;
    const ibv_gid source = from.gid(), destination = to.gid();
    std::memcpy(path.source.bytes.data(), source.raw, 16);
    std::memcpy(path.destination.bytes.data(), destination.raw, 16);
    path.udp_source_port = port;
    const std::size_t size = bytes.size() + wire::kIcrcLength;
    std::uint32_t state = wire::icrc_begin(path, wire_port(), size, 0, true);
    state = wire::icrc_bth(state, bytes.data(), length);
    state = wire::crc32_update(state, bytes.data() + length, row.length);
    bytes.resize(size);
    wire::store_icrc(bytes.data() + size - wire::kIcrcLength, wire::icrc_end(state) ^ row.damage);
    return bytes;
}

// An unconnected socket with path MTU discovery: identification 0 and DF, which the ICRC covers.
class Socket {
   public:
    Socket() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        const int discover = IP_PMTUDISC_DO;
        EXPECT_EQ(setsockopt(fd_, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover), 0);
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        EXPECT_EQ(bind(fd_, generic(address), size), 0);
        EXPECT_EQ(getsockname(fd_, generic(address), &size), 0);
        port_ = ntohs(address.sin_port);
    }
    ~Socket() { close(fd_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    std::uint16_t port() const { return port_; }
    void send(const std::vector<std::uint8_t>& bytes) {
        sockaddr_in address = loopback(wire_port());
        EXPECT_EQ(sendto(fd_, bytes.data(), bytes.size(), 0, generic(address), sizeof address),
                  static_cast<ssize_t>(bytes.size()));
    }

   private:
    static sockaddr_in loopback(std::uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return address;
    }
    static sockaddr* generic(sockaddr_in& address) {
        return static_cast<sockaddr*>(static_cast<void*>(&address));
    }

    int fd_;
    std::uint16_t port_;
};

class ForgedPackets : public testing::TestWithParam<Forged> {};

TEST_P(ForgedPackets, AreRefusedOrDropped) {
    const Forged& row = GetParam();
    Pair pair;
    Memory local(pair.a.pd, 4096), remote(pair.b.pd, 8192);
    remote.set_all(0);
    local.fill(3);
    ASSERT_EQ(pair.b.post_receive(5, remote.sge(4096, 4096)), 0);
    Socket socket;
    socket.send(forge(row, pair.a, pair.b, remote, socket.port()));

    if (row.refused) {
        EXPECT_TRUE(wait_until([&] { return pair.b.state() == IBV_QPS_ERR; }));
        ASSERT_TRUE(readable(pair.b.context->async_fd, kPatienceMs));
        ibv_async_event event;
        ASSERT_EQ(ibv_get_async_event(pair.b.context, &event), 0);
        EXPECT_EQ(event.event_type, IBV_EVENT_QP_REQ_ERR);
        EXPECT_EQ(event.element.qp, pair.b.qp);
        ibv_ack_async_event(&event);
        EXPECT_EQ(completion(pair.b.receive_cq).status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);  // a NAK of what it has not sent
    } else {                                     // it was there before these, and they are as if it were not
        ibv_sge sge = local.sge(0, 64);
        ASSERT_EQ(Request(1, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
        success(pair.a.send_cq);
        EXPECT_EQ(success(pair.b.receive_cq).wr_id, 5u);
        EXPECT_TRUE(remote.holds(3, 64, 4096));
        EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
    }
    for (std::size_t word = 0; word < 4096 / 8; word++) ASSERT_EQ(remote.word(word), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, ForgedPackets, testing::ValuesIn(kForged),
                         [](const auto& instance) { return instance.param.name; });

// The same packets with nothing wrong are executed: what the rows above show is not a mistake of the forger.
TEST(ForgedPacket, IsExecutedIfNothingIsWrong) {
    Pair pair;
    Memory remote(pair.b.pd, 4096);
    remote.set_all(0);
    Socket socket;
    socket.send(forge({"", Opcode::rc_write_only, 64, 0, false}, pair.a, pair.b, remote, socket.port()));
    socket.send(forge({"", Opcode::rc_fetch_add, 0, 128, false, 0, kFirstPsn + 1}, pair.a, pair.b, remote,
                      socket.port()));
    EXPECT_TRUE(wait_until([&] { return remote.load_word(16) == 1; }));
    EXPECT_EQ(remote.word(0), 0x5555555555555555u);
}

}  // namespace
}  // namespace verbena::verbs_test
