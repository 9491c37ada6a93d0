// Whose an inbox's name is. (What comes through one: udp_link_test.cpp.)
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

TEST(StrayInboxTest, ANameIsOnes) {
    auto inbox = StrayInbox::open(fabric(), 7);
    ASSERT_NE(inbox, nullptr);
    EXPECT_EQ(StrayInbox::open(fabric(), 7), nullptr);
    EXPECT_NE(StrayInbox::open(fabric(), 8), nullptr);
    inbox.reset();
    EXPECT_NE(StrayInbox::open(fabric(), 7), nullptr);
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
    EXPECT_EQ(StrayInbox::open(fabric(), 7), nullptr) << "the parent's is open";
    link.reset();
    EXPECT_NE(StrayInbox::open(fabric(), 7), nullptr);
    end_process(child);
    waitpid(child, nullptr, 0);
    for (const int end : said) close(end);
}

}  // namespace
}  // namespace verbena::link
