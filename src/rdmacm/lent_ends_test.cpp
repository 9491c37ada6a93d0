#include "rdmacm/lent_ends.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "rdmacm/channel.h"

namespace verbena::rdmacm {
namespace {

struct Pair {
    Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0); }
    ~Pair() { close(ends[0]); }
    // What the program finds: a type, -1 if there is nothing, or -2 at the end.
    int next() const {
        cm::Event event;
        const ssize_t size = recv(ends[0], &event, sizeof event, MSG_DONTWAIT);
        return size > 0 ? static_cast<int>(event.type) : size == 0 ? -2 : -1;
    }
    int ends[2];
};

cm::Event of(cm::EventType type) {
    cm::Event event;
    event.type = type;
    return event;
}

TEST(LentEnds, WhatIsWrittenIsReadBeforeTheDaemonsEnd) {
    LentEnds lent;
    const Channel channel;
    const Pair pair;
    EXPECT_FALSE(lent.write(channel, of(cm::EventType::user)));
    EXPECT_TRUE(lent.keep(channel, 3, pair.ends[1]));
    EXPECT_TRUE(lent.has(channel));
    EXPECT_TRUE(lent.write(channel, of(cm::EventType::user)));
    lent.daemon_ended(2);
    EXPECT_TRUE(lent.write(channel, of(cm::EventType::route_resolved)));
    lent.daemon_ended(3);
    EXPECT_FALSE(lent.write(channel, of(cm::EventType::user)));
    EXPECT_EQ(pair.next(), static_cast<int>(cm::EventType::user));
    EXPECT_EQ(pair.next(), static_cast<int>(cm::EventType::route_resolved));
    EXPECT_EQ(pair.next(), -2);
}

TEST(LentEnds, AnEndThatComesBehindTheDaemonsEndIsShut) {
    LentEnds lent;
    const Channel channel, next;
    const Pair pair, other;
    lent.daemon_ended(3);
    EXPECT_TRUE(lent.keep(channel, 3, pair.ends[1]));
    EXPECT_EQ(pair.next(), -2);
    EXPECT_TRUE(lent.keep(next, 4, other.ends[1]));
    EXPECT_EQ(other.next(), -1);
}

TEST(LentEnds, AFullSocketOrAnotherFileIsNotWrittenTo) {
    LentEnds lent;
    const Channel channel;
    const Pair pair;
    const FileIdentity end = FileIdentity::of(pair.ends[1]);
    EXPECT_TRUE(lent.keep(channel, 1, pair.ends[1]));
    unsigned written = 0;
    while (lent.write(channel, of(cm::EventType::user))) ASSERT_LT(++written, 100'000u);
    for (; written > 0; written--) EXPECT_EQ(pair.next(), static_cast<int>(cm::EventType::user));
    EXPECT_EQ(pair.next(), -1);
    // The program closes what it does not know, and opens a file of its own.
    const Pair others;
    for (int fd = 0; fd < 1024; fd++)
        if (end.is(fd)) dup2(others.ends[1], fd);
    EXPECT_FALSE(lent.write(channel, of(cm::EventType::user)));
    lent.daemon_ended(1);
    EXPECT_EQ(others.next(), -1) << "shut down, or written to";
    close(others.ends[1]);
}

TEST(LentEnds, WhatIsGivenBackIsForgotten) {
    LentEnds lent;
    const Channel channel;
    const Pair pair;
    EXPECT_TRUE(lent.keep(channel, 1, pair.ends[1]));
    lent.give_back(channel);
    EXPECT_FALSE(lent.has(channel));
    EXPECT_EQ(pair.next(), -2) << "nobody has the other end";
    lent.give_back(channel);
}

}  // namespace
}  // namespace verbena::rdmacm
