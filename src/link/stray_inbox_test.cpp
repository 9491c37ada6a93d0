// Who gets a stray. (Whom an inbox belongs to: named_inbox_test.cpp.)
#include "link/stray_inbox.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/process_testing.h"
#include "link/steering.h"
#include "link/udp_link.h"

namespace verbena::link {
namespace {

class Nothing final : public Receiver {
   public:
    void datagram(const Datagram&) override { FAIL() << "nobody sends"; }
};

const std::string& fabric() {
    static const std::string name = "stray-test-" + std::to_string(getpid());
    return name;
}

std::unique_ptr<StrayInbox> open_inbox(std::uint32_t block) {
    return StrayInbox::open(fabric(), block, Trust::own_user);
}

// A child that lives on does not keep the names from the blocks' next owner.
TEST(StrayInboxTest, AForkedChildGivesTheNamesUp) {
    UdpLink::Setup setup;
    setup.fabric = fabric();
    auto link = UdpLink::create(setup);
    const int fd = open_group_socket(0, true);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(link->add_queue(fd, 7), 0);
    std::array<int, 2> said;
    ASSERT_EQ(pipe(said.data()), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        link->abandon();
        Nothing nothing;
        for (int i = 0; i < 100; i++) link->receive(nothing, 1);
        if (write(said[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char byte;
    ASSERT_EQ(read(said[0], &byte, 1), 1);
    EXPECT_EQ(open_inbox(7), nullptr) << "the parent's is open";
    link.reset();
    EXPECT_NE(open_inbox(7), nullptr);
    end_process(child);
    waitpid(child, nullptr, 0);
    for (const int end : said) close(end);
}

// Who has the block now is found, whatever became of the one before; a block of nobody's is none of an error.
TEST(StrayInboxTest, AStrayGoesToTheBlocksOwnerOfNow) {
    class Count final : public Receiver {
       public:
        void datagram(const Datagram& datagram) override {
            EXPECT_EQ(datagram.bytes.size(), 3u);
            EXPECT_TRUE(datagram.forwarded);
            arrived++;
        }
        int arrived = 0;
    } count;
    StraySender sender(fabric(), Trust::own_user);
    const std::array<std::uint8_t, 3> bytes{1, 2, 3};
    const wire::Path path;
    Datagram datagram;
    datagram.bytes = bytes;
    datagram.path = &path;
    EXPECT_FALSE(sender.send(datagram, 7));
    for (int owner = 1; owner <= 3; owner++) {
        const auto inbox = open_inbox(7);
        EXPECT_TRUE(sender.send(datagram, 7));
        EXPECT_TRUE(sender.send(datagram, 7));
        EXPECT_FALSE(sender.send(datagram, 7 + 16)) << "which shares its place";
        EXPECT_EQ(inbox->receive(count, 16), 2u);
        EXPECT_EQ(count.arrived, 2 * owner);
        EXPECT_EQ(inbox->refused(), 0u);
    }
}

}  // namespace
}  // namespace verbena::link
