// Datagrams that are refused, or vanish.
#include "mistake.h"

namespace verbena::mistakes {
namespace {

// A datagram to a queue pair in another context, spoilt.
struct Datagram {
    std::uint32_t qkey = 0x1234;
    std::uint32_t length = 64;
    std::uint32_t room = 4096;
    bool posted = true;
};

std::string datagram(const Datagram& shape) {
    Options options;
    options.type = IBV_QPT_UD;
    Side a(options), b(options);
    EXPECT_EQ(start_datagrams(a.qp, 0x1234), 0);
    EXPECT_EQ(start_datagrams(b.qp, 0x1234), 0);
    ibv_ah* ah = address_handle(a.pd, b.gid());
    Memory memory(a.pd, 65536), buffer(b.pd, 65536);
    if (shape.posted) {
        EXPECT_EQ(b.post_receive(9, buffer.sge(0, shape.room)), 0);
    }
    ibv_sge sge = memory.sge(0, shape.length);
    Request request(7, IBV_WR_SEND, &sge, 1);
    request.wr.ud.ah = ah;
    request.wr.ud.remote_qpn = b.qp->qp_num;
    request.wr.ud.remote_qkey = shape.qkey;
    EXPECT_EQ(request.post(a.qp), 0);
    std::string text;
    if (shape.length > 4096) {
        text = reason_of(a.send_cq, IBV_WC_LOC_LEN_ERR);
    } else {
        success(a.send_cq);
        if (shape.room < 4096) {
            text = reason_of(b.receive_cq, IBV_WC_LOC_LEN_ERR);
        } else {
            std::string log;  // nothing completes; the line comes with the packet
            EXPECT_TRUE(wait_until([&] {
                ibv_wc wc;
                EXPECT_EQ(ibv_poll_cq(b.receive_cq, 1, &wc), 0);
                return !(log += new_log()).empty();
            }));
            text = log;
        }
    }
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    return text;
}

}  // namespace

const std::vector<Mistake>& datagram_mistakes() {
    static const std::vector<Mistake> table = {
        {"datagram_too_long", From::other, [] { return datagram({.length = 8192}); },
         "longer than the port's active MTU \\(8192 bytes; the MTU is [0-9]+\\)"},
        {"datagram_without_room_for_grh", From::other, [] { return datagram({.room = 64}); },
         "\\(which have 64 bytes; the datagram needs 104, the first 40 for the GRH\\)"},
        {"datagram_of_wrong_qkey", From::log, [] { return datagram({.qkey = 0x4321}); },
         "dropped a datagram of QP 0x[0-9a-f]+: its Q_Key is 0x4321, this QP's is 0x1234"},
        {"datagram_without_receive", From::log, [] { return datagram({.posted = false}); },
         "dropped a datagram of QP 0x[0-9a-f]+: no receive is posted"},
    };
    return table;
}

}  // namespace verbena::mistakes
