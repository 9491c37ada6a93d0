// Memory windows, invalidates, ATOMIC WRITE and FLUSH: what a queue pair does with them.
#include <gtest/gtest.h>

#include <cerrno>

#include "transport/rc_harness.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;
using Done = completion::Opcode;
using wire::Opcode;

// Side 1 has a region that only windows open; side 0 accesses it.
struct Rig : Harness {
    explicit Rig(memory::Access region_access = memory::kLocalWrite | memory::kWindowBind) {
        start();
        EXPECT_EQ(
            side[1].regions.add(1, side[1].memory.data(), 65536, side[1].address(), region_access, bindable),
            0);
    }
    std::uint32_t window(memory::RecordKind kind) {
        std::uint32_t rkey = 0;
        EXPECT_EQ(side[1].regions.add_window(1, kind, rkey), 0);
        return rkey + 1;
    }
    // By side 1: bytes 4096..8191.
    int bind(std::uint32_t rkey, std::uint64_t wr_id = 1, std::uint32_t flags = kSignaled,
             memory::Access rights = memory::kRemoteRead | memory::kRemoteWrite,
             std::uint64_t length = 4096) {
        SendRequest r;
        r.operation = Operation::bind_window;
        r.wr_id = wr_id;
        r.flags = flags;
        r.rkey = rkey;
        r.immediate_or_key = bindable.lkey;
        r.remote_address = side[1].address(4096);
        r.range = length;
        r.range_access = rights;
        return post(1, r);
    }
    int invalidate(int i, std::uint32_t rkey, std::uint64_t wr_id = 2) {
        SendRequest r;
        r.operation = Operation::local_invalidate;
        r.wr_id = wr_id;
        r.flags = kSignaled;
        r.immediate_or_key = rkey;
        return post(i, r);
    }
    SendRequest request(Operation operation, std::uint32_t rkey, std::size_t offset) const {
        SendRequest r = Harness::request(operation, 77, offset);
        r.rkey = rkey;
        return r;
    }
    // What becomes of an RDMA WRITE by side 0; nothing else is going on.
    Status write(std::uint32_t rkey, std::size_t offset = 4096, std::uint32_t length = 64) {
        fill(0, 0, length, ++seed);
        EXPECT_EQ(post(0, request(Operation::rdma_write, rkey, offset), {side[0].sge(0, length)}), 0);
        run();
        const auto done = sends(0);
        EXPECT_EQ(done.size(), 1u);
        if (done.at(0).status == Status::success) {
            EXPECT_TRUE(equal(0, offset, length));
        }
        return done.at(0).status;
    }
    void send_with_invalidate(std::uint32_t rkey) {
        post_receive(1, 7, {side[1].sge(0, 64)});
        SendRequest send = request(Operation::send_with_invalidate, 0, 0);
        send.immediate_or_key = rkey;
        ASSERT_EQ(post(0, send, {side[0].sge(0, 8)}), 0);
        run();
    }
    completion::Completion only(int i) {
        const auto done = sends(i);
        EXPECT_EQ(done.size(), 1u);
        return done.empty() ? completion::Completion{} : done[0];
    }

    memory::Keys bindable{};
    unsigned seed = 0;
};

TEST(Memory, BoundWindowOpensItsRange) {
    for (const auto kind : {memory::RecordKind::window_type1, memory::RecordKind::window_type2}) {
        Rig rig;
        const std::uint32_t rkey = rig.window(kind);
        ASSERT_EQ(rig.bind(rkey), 0);
        rig.run();
        const auto done = rig.only(1);
        EXPECT_EQ(done.status, Status::success);
        EXPECT_EQ(done.opcode, Done::bind_window);
        EXPECT_TRUE(rig.log.empty()) << "a bind sends nothing";
        EXPECT_EQ(rig.write(rkey), Status::success);
        EXPECT_EQ(rig.write(rkey, 8128, 65), Status::remote_access_error);
    }
}

TEST(Memory, LocalInvalidateClosesTheWindow) {
    Rig rig;
    const std::uint32_t rkey = rig.window(memory::RecordKind::window_type2);
    ASSERT_EQ(rig.bind(rkey), 0);
    ASSERT_EQ(rig.invalidate(1, rkey), 0);
    ASSERT_EQ(rig.bind(rkey + 1, 3), 0);
    rig.run();
    const auto done = rig.sends(1);
    ASSERT_EQ(done.size(), 3u);
    EXPECT_EQ(done[1].opcode, Done::local_invalidate);
    for (std::uint64_t i = 0; i < 3; i++) {
        EXPECT_EQ(done[i].wr_id, i + 1);
        EXPECT_EQ(done[i].status, Status::success);
    }
    EXPECT_EQ(rig.write(rkey + 1), Status::success);
    EXPECT_EQ(rig.write(rkey), Status::remote_access_error);
}

TEST(Memory, SendWithInvalidateClosesTheWindow) {
    Rig rig;
    const std::uint32_t rkey = rig.window(memory::RecordKind::window_type2);
    ASSERT_EQ(rig.bind(rkey), 0);
    rig.send_with_invalidate(rkey);
    EXPECT_EQ(rig.only(0).status, Status::success);
    const auto received = rig.receives(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].flags, completion::kHasInvalidatedKey);
    EXPECT_EQ(received[0].immediate, rkey);
    EXPECT_EQ(rig.write(rkey), Status::remote_access_error);
}

TEST(Memory, SendWithInvalidateOfAType1WindowIsRefused) {
    Rig rig;
    const std::uint32_t rkey = rig.window(memory::RecordKind::window_type1);
    ASSERT_EQ(rig.bind(rkey), 0);
    rig.send_with_invalidate(rkey);
    EXPECT_EQ(rig.only(0).status, Status::remote_access_error);
    EXPECT_EQ(rig.receives(1).at(0).vendor_error, static_cast<std::uint32_t>(VendorError::invalidate_failed));
}

TEST(Memory, FailedBindEndsTheQueuePairInItsTurn) {
    Rig rig(memory::kWindowBind);  // not writable
    const std::uint32_t rkey = rig.window(memory::RecordKind::window_type2);
    rig.post_receive(0, 5, {rig.side[0].sge(0, 64)});
    SendRequest send;
    send.wr_id = 10;
    send.flags = kSignaled;
    ASSERT_EQ(rig.post(1, send, {rig.side[1].sge(0, 8)}), 0);
    ASSERT_EQ(rig.bind(rkey, 11, 0), 0);  // unsignaled: an error completes all the same
    send.wr_id = 12;
    ASSERT_EQ(rig.post(1, send, {rig.side[1].sge(0, 8)}), 0);
    rig.run();
    const auto done = rig.sends(1);
    ASSERT_EQ(done.size(), 3u);
    EXPECT_EQ(done[0].status, Status::success);
    EXPECT_EQ(done[1].status, Status::memory_window_bind_error);
    EXPECT_EQ(done[1].opcode, Done::bind_window);
    EXPECT_EQ(done[1].vendor_error, static_cast<std::uint32_t>(VendorError::bind_region_not_writable));
    EXPECT_EQ(done[2].status, Status::work_request_flushed);
    EXPECT_EQ(rig.side[1].qp->state(), QpState::error);
    EXPECT_EQ(rig.receives(0).at(0).status, Status::success);
}

TEST(Memory, FailedInvalidate) {
    Rig rig;
    ASSERT_EQ(rig.invalidate(1, 0x4711), 0);
    rig.run();
    const auto done = rig.only(1);
    EXPECT_EQ(done.status, Status::memory_window_bind_error);
    EXPECT_EQ(done.opcode, Done::local_invalidate);
    EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(VendorError::window_unknown));
}

// The first packet of the SEND is lost: the bind behind it is not done twice, the invalidate waits for it.
TEST(Memory, LocalRequestsBetweenPacketsThatAreLost) {
    Rig rig;
    const std::uint32_t rkey = rig.window(memory::RecordKind::window_type2);
    rig.post_receive(0, 5, {rig.side[0].sge(0, 8192)});
    rig.post_receive(0, 6, {rig.side[0].sge(8192, 8192)});
    int seen = 0;
    rig.filter = [&](const Sent& s) { return s.from == 1 && seen++ < 3 ? kDrop : kDeliver; };
    SendRequest send;
    send.wr_id = 10;
    send.flags = kSignaled;
    ASSERT_EQ(rig.post(1, send, {rig.side[1].sge(0, 3000)}), 0);
    ASSERT_EQ(rig.bind(rkey, 11), 0);
    send.wr_id = 12;
    ASSERT_EQ(rig.post(1, send, {rig.side[1].sge(0, 3000)}), 0);
    ASSERT_EQ(rig.invalidate(1, rkey, 13), 0);
    rig.transmit(1, true);
    EXPECT_TRUE(rig.side[1].regions.remote(rkey, 1, rig.side[1].address(4096), 1, memory::kRemoteRead,
                                           rig.side[1].qp->number()))
        << "the bind need not wait for the SEND's acknowledgement";
    rig.run();
    const auto done = rig.sends(1);
    ASSERT_EQ(done.size(), 4u);
    for (std::uint64_t i = 0; i < 4; i++) {
        EXPECT_EQ(done[i].wr_id, 10 + i);
        EXPECT_EQ(done[i].status, Status::success) << i;
    }
    EXPECT_EQ(rig.receives(0).size(), 2u);
    EXPECT_EQ(rig.write(rkey), Status::remote_access_error);
}

TEST(Memory, BindWithFenceWaitsForTheRead) {
    for (const bool fence : {false, true}) {
        Rig rig;
        const std::uint32_t rkey = rig.window(memory::RecordKind::window_type1);
        SendRequest read;
        read.operation = Operation::rdma_read;
        read.remote_address = rig.side[0].address();
        read.rkey = rig.side[0].keys.rkey;
        ASSERT_EQ(rig.post(1, read, {rig.side[1].sge(0, 64)}), 0);
        ASSERT_EQ(rig.bind(rkey, 1, fence ? kFence : 0), 0);
        rig.transmit(1, true);
        EXPECT_EQ(!rig.side[1].regions.remote(rkey, 1, rig.side[1].address(4096), 1, memory::kRemoteRead, 0),
                  fence);
        rig.run();
        EXPECT_TRUE(
            rig.side[1].regions.remote(rkey, 1, rig.side[1].address(4096), 1, memory::kRemoteRead, 0));
    }
}

// The completion of a bind waits until nobody can use the old key any more.
TEST(Memory, BindCompletesAfterTheGracePeriod) {
    Rig rig;
    const std::uint32_t rkey = rig.window(memory::RecordKind::window_type1);
    auto& stripes = rig.side[1].sections.stripes;
    for (auto& stripe : stripes) stripe.inside++;  // as if others were at work
    ASSERT_EQ(rig.bind(rkey), 0);
    rig.run(1 * kMillisecond);
    EXPECT_TRUE(rig.sends(1).empty());
    for (auto& stripe : stripes) stripe.inside--;
    rig.run(1 * kMillisecond);
    EXPECT_EQ(rig.only(1).status, Status::success);
}

// A region's rkey may be in use by a process of this host, a window's not.
TEST(Memory, InvalidateOfARegionWaitsForOutsiders) {
    struct Others final : memory::Outsiders {
        explicit Others(Harness& harness) : h(harness) {}
        void wait_for_them(const memory::Work&, Duration most) override {
            waited += most == ShownReceives::kWritten && h.sends(1).empty();
        }
        Harness& h;
        unsigned waited = 0;
    };
    Rig rig;
    Others others(rig);
    const std::uint32_t rkey = rig.window(memory::RecordKind::window_type2);
    ASSERT_EQ(rig.bind(rkey), 0);
    rig.run();
    EXPECT_EQ(rig.only(1).status, Status::success);
    rig.side[1].regions.set_outsiders(&others);
    ASSERT_EQ(rig.invalidate(1, rkey), 0);
    rig.run();
    EXPECT_EQ(rig.only(1).status, Status::success);
    EXPECT_EQ(others.waited, 0u);
    ASSERT_EQ(rig.invalidate(1, rig.side[1].keys.rkey), 0);
    rig.run();
    EXPECT_EQ(rig.only(1).status, Status::success);
    EXPECT_EQ(others.waited, 1u);
    rig.side[1].regions.set_outsiders(nullptr);
}

TEST(Memory, FlushedLocalRequests) {
    Rig rig;
    const std::uint32_t rkey = rig.window(memory::RecordKind::window_type1);
    ASSERT_EQ(rig.modify(1, QpState::error), 0);
    ASSERT_EQ(rig.bind(rkey), 0);
    EXPECT_EQ(rig.only(1).status, Status::work_request_flushed);
}

TEST(Memory, AtomicWrite) {
    Rig rig;
    rig.fill(0, 0, 8, 3);
    ASSERT_EQ(
        rig.post(0, rig.request(Operation::atomic_write, rig.side[1].keys.rkey, 64), {rig.side[0].sge(0, 8)}),
        0);
    rig.run();
    const auto done = rig.only(0);
    EXPECT_EQ(done.status, Status::success);
    EXPECT_EQ(done.opcode, Done::atomic_write);
    EXPECT_TRUE(rig.equal(0, 64, 8));
    EXPECT_EQ(rig.packets(0).at(0).headers.bth.opcode, Opcode::rc_atomic_write);
    EXPECT_EQ(rig.packets(0).at(0).headers.reth.length, 8u);
    EXPECT_EQ(rig.packets(1).at(0).headers.bth.opcode, Opcode::rc_read_response_only);
    EXPECT_EQ(rig.packets(1).at(0).payload, 0u);
}

TEST(Memory, AtomicWriteOfAValueInTheRequest) {
    Rig rig;
    SendRequest r = rig.request(Operation::atomic_write, rig.side[1].keys.rkey, 64);
    r.compare_add = 0x1122334455667788;
    ASSERT_EQ(rig.post(0, r), 0);
    rig.run();
    EXPECT_EQ(rig.only(0).status, Status::success);
    EXPECT_EQ(std::memcmp(rig.side[1].memory.data() + 64, &r.compare_add, 8), 0);
}

struct FlushRig : Rig {
    FlushRig() {
        attributes[1].access |= memory::kFlushGlobal;
        Attributes a = attributes[1];
        EXPECT_EQ(side[1].qp->modify(a, kAttrAccessFlags, now), 0);
        EXPECT_EQ(side[1].regions.add(1, side[1].memory.data(), 65536, side[1].address(),
                                      memory::kFlushGlobal, keys),
                  0);
    }
    Status flush(std::uint32_t kind, std::uint64_t length, std::uint32_t rkey) {
        SendRequest r = request(Operation::flush, rkey, 64);
        r.range = length;
        r.range_access = kind;
        EXPECT_EQ(post(0, r), 0);
        run();
        const auto done = only(0);
        EXPECT_EQ(done.opcode, Done::flush);
        return done.status;
    }
    memory::Keys keys{};
};

TEST(Memory, Flush) {
    FlushRig rig;
    EXPECT_EQ(rig.flush(flush_kind(kFlushGlobal, kFlushRange), 1000, rig.keys.rkey), Status::success);
    const auto sent = rig.packets(0).at(0).headers;
    EXPECT_EQ(sent.bth.opcode, Opcode::rc_flush);
    EXPECT_EQ(sent.reth.length, 1000u);
    EXPECT_EQ(sent.feth, (wire::Feth{1, 0}));
    EXPECT_EQ(rig.flush(flush_kind(kFlushGlobal, kFlushRegion), 0, rig.keys.rkey), Status::success);
    EXPECT_EQ(rig.flush(flush_kind(kFlushGlobal, kFlushRange), 65536, rig.keys.rkey),
              Status::remote_access_error);
}

// Executed once, though the request or the answer is lost.
TEST(Memory, AtomicWriteAndFlushOverLoss) {
    for (int lost = 0; lost < 4; lost++) {
        FlushRig rig;
        int seen = 0;
        rig.filter = [&](const Sent&) { return seen++ == lost ? kDrop : kDeliver; };
        SendRequest r = rig.request(Operation::atomic_write, rig.side[1].keys.rkey, 64);
        r.compare_add = 42;
        ASSERT_EQ(rig.post(0, r), 0);
        r = rig.request(Operation::flush, rig.side[1].keys.rkey, 64);
        r.range_access = flush_kind(kFlushGlobal, kFlushRange);
        r.wr_id = 78;
        ASSERT_EQ(rig.post(0, r), 0);  // of no bytes: needs no key's right
        rig.run();
        const auto done = rig.sends(0);
        ASSERT_EQ(done.size(), 2u) << lost;
        EXPECT_EQ(done[0].status, Status::success);
        EXPECT_EQ(done[1].status, Status::success) << lost;
        EXPECT_EQ(rig.side[1].memory[64], 42) << lost;
    }
}

// Linux' rxe may have more of them outstanding than it was allowed READs and atomics.
TEST(Memory, AFlushTooManyIsAskedForAgain) {
    Harness h;
    h.attributes[1].max_destination_rd_atomic = 2;
    h.attributes[1].access |= memory::kFlushGlobal;
    h.start();
    wire::Headers headers;
    headers.bth.opcode = Opcode::rc_flush;
    headers.feth = {kFlushGlobal, kFlushRange};  // of no bytes: needs no key's right
    const auto inject = [&](std::uint32_t n) {
        headers.bth.psn = h.start_psn[0] + n;
        h.inject(1, headers);
    };
    for (std::uint32_t n = 0; n < 3; n++) inject(n);
    h.transmit(1, true);
    auto answers = h.packets(1);
    ASSERT_EQ(answers.size(), 3u);
    for (std::uint32_t n = 0; n < 2; n++) {
        EXPECT_EQ(answers[n].headers.bth.opcode, Opcode::rc_read_response_only);
        EXPECT_EQ(answers[n].headers.bth.psn, h.start_psn[0] + n);
    }
    EXPECT_EQ(answers[2].headers.aeth.syndrome, 0x60);
    EXPECT_EQ(answers[2].headers.bth.psn, h.start_psn[0] + 2);
    EXPECT_EQ(h.side[1].qp->state(), QpState::rts);
    for (std::uint32_t n = 2; n < 5; n++) inject(n);  // too many once more
    h.transmit(1, true);
    answers = h.packets(1);
    ASSERT_EQ(answers.size(), 6u);
    EXPECT_EQ(answers[3].headers.bth.opcode, Opcode::rc_read_response_only);
    EXPECT_EQ(answers[3].headers.bth.psn, h.start_psn[0] + 2);
    EXPECT_EQ(answers[5].headers.aeth.syndrome, 0x60);
    EXPECT_EQ(answers[5].headers.bth.psn, h.start_psn[0] + 4);
    EXPECT_EQ(h.side[1].qp->state(), QpState::rts);
}

TEST(Memory, RefusedFlushes) {
    EXPECT_EQ(FlushRig().flush(flush_kind(kFlushPersistent, kFlushRange), 8, 0),
              Status::remote_invalid_request)
        << "the queue pair allows none";
    {
        FlushRig rig;
        EXPECT_EQ(rig.flush(flush_kind(kFlushGlobal, kFlushRange), 8, rig.bindable.rkey),
                  Status::remote_access_error);
    }
    {
        FlushRig rig;
        EXPECT_EQ(rig.flush(flush_kind(kFlushGlobal, kFlushRegion), 8, rig.bindable.rkey),
                  Status::remote_access_error);
    }
    Rig rig;
    SendRequest r = rig.request(Operation::flush, 0, 64);
    EXPECT_EQ(rig.post(0, r), EINVAL) << "no placement type";
    r.range_access = flush_kind(4, 0);
    EXPECT_EQ(rig.post(0, r), EINVAL);
    r.range_access = flush_kind(kFlushGlobal, 2);
    EXPECT_EQ(rig.post(0, r), EINVAL);
    r = rig.request(Operation::atomic_write, 0, 63);
    EXPECT_EQ(rig.post(0, r), EINVAL) << "unaligned";
    r = rig.request(Operation::atomic_write, 0, 64);
    EXPECT_EQ(rig.post(0, r, {rig.side[0].sge(0, 4)}), EINVAL);
}

}  // namespace
}  // namespace verbena::transport::testing
