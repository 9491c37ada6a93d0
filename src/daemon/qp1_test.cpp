#include "daemon/qp1.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <vector>

#include "base/descriptor.h"
#include "link/hooks.h"
#include "link/steering.h"

namespace verbena::daemon {
namespace {

const Gid kHere = Gid::from_ipv4(0x7f000001);

class Qp1Test : public ::testing::Test, private link::PacketObserver {
   protected:
    Qp1Test() : queue_(link::open_group_socket(0, false)) {
        EXPECT_TRUE(queue_);
        EXPECT_EQ(qp1_.open(
                      queue_.get(), {.port = link::bound_port(queue_.get()), .fabric = "qp1-test"}, 0,
                      [this](const wire::Path& path) { return ours_ && path.destination == kHere; },
                      [this](const wire::Path& path, std::uint32_t source_qp,
                             std::span<const std::uint8_t, wire::kMadLength> mad) {
                          EXPECT_EQ(path.source, kHere);
                          EXPECT_EQ(source_qp, wire::kQp1);
                          arrived_.push_back(mad[0]);
                          if (mad[0] == answered_) send(mad[0] + 1);
                      }),
                  0);
    }
    ~Qp1Test() override { link::set_packet_observer(nullptr); }

    void send(int first_byte) {
        std::array<std::uint8_t, wire::kMadLength> mad{};
        mad[0] = static_cast<std::uint8_t>(first_byte);
        wire::Path path;
        path.source = path.destination = kHere;
        qp1_.send(path, wire::kQp1, mad);
    }
    bool reads_from_the_kernel() {
        pollfd entry{qp1_.wait_fd(), POLLIN, 0};
        return poll(&entry, 1, 0) == 1;
    }
    void look_at_packets() { link::set_packet_observer(this); }

    Descriptor queue_;
    Qp1 qp1_;
    bool ours_ = true;
    std::vector<int> arrived_;
    int answered_ = -1;
    unsigned seen_ = 0;

   private:
    void packet(const link::PacketEvent&) override { seen_++; }
};

TEST_F(Qp1Test, WhatGoesToOneselfIsHandedOverLaterAndInOrder) {
    answered_ = 2;
    send(1);
    send(2);
    EXPECT_TRUE(arrived_.empty());
    EXPECT_FALSE(reads_from_the_kernel());
    qp1_.deliver_own();
    EXPECT_EQ(arrived_, (std::vector{1, 2, 3}));
    EXPECT_EQ(qp1_.counters().sent, 3u);
    EXPECT_EQ(qp1_.counters().received, 3u);
}

TEST_F(Qp1Test, WhatGoesElsewhereIsTheKernels) {
    ours_ = false;
    send(1);
    qp1_.deliver_own();
    EXPECT_TRUE(arrived_.empty());
    ASSERT_TRUE(reads_from_the_kernel());
    qp1_.receive();
    EXPECT_EQ(arrived_, std::vector{1});
}

TEST_F(Qp1Test, WhoLooksAtPacketsSeesThem) {
    look_at_packets();
    send(1);
    ASSERT_TRUE(reads_from_the_kernel());
    qp1_.receive();
    EXPECT_EQ(arrived_, std::vector{1});
    EXPECT_EQ(seen_, 2u);  // leave, and arrive
}

TEST_F(Qp1Test, NoneOvertakesAnother) {
    look_at_packets();
    send(1);
    link::set_packet_observer(nullptr);
    send(2);
    qp1_.deliver_own();
    EXPECT_EQ(arrived_, (std::vector{1, 2}));
}

}  // namespace
}  // namespace verbena::daemon
