// The page that a program shares with verbenad: ports that it may take, and ids that it leaves.
#include <poll.h>

#include "daemon/network_testing.h"
#include "host/program_page.h"

namespace verbena::daemon::testing {
namespace {

// A program with a page and an event channel.
struct Sharing {
    SharedPage page;
    Channel channel;

    Sharing() {
        int fd = -1;
        page = SharedPage::make("test", fd);
        host::Empty nothing;
        EXPECT_EQ(host::call(host::Command::share_page, nothing, nothing, fd), 0) << last_reason();
        close(fd);
    }
    host::ProgramPage& shared() const { return page.as<host::ProgramPage>(); }

    // 0 or an errno: as a program asks that took the port.
    static int resolve(cm::IdNumber id, const cm::Endpoint& remote, std::uint16_t lent_port) {
        host::ResolveAddressRequest request;
        request.id = id;
        request.remote = remote;
        request.lent_port = lent_port;
        host::Empty nothing;
        return host::call(host::Command::resolve_address, request, nothing);
    }
    bool is_quiet() const {
        pollfd entry{channel.fd, POLLIN, 0};
        return poll(&entry, 1, 0) == 0;
    }
};

int bind(cm::IdNumber id, const cm::Endpoint& local, cm::IdInfo* bound = nullptr) {
    host::BindRequest request;
    request.id = id;
    request.local = local;
    cm::IdInfo info;
    return host::call(host::Command::bind, request, bound ? *bound : info);
}

cm::IdSummary query(cm::IdNumber id) {
    for (const auto& entry : ask<host::IdsReply>(host::Command::next_ids, host::AfterRequest{id - 1}).entries)
        if (entry.id.id == id) return entry.id;
    return {};
}

class ProgramPagesTest : public FabricTest {};

TEST_F(ProgramPagesTest, ALentPortIsTheProgramsToTake) {
    run([] {
        Sharing me;
        const std::uint16_t port = me.shared().ports.take();
        ASSERT_NE(port, 0);
        const cm::IdNumber id = me.channel.create_id();
        EXPECT_EQ(Sharing::resolve(id, endpoint("127.0.0.1", 9), port), 0) << last_reason();
        EXPECT_TRUE(me.is_quiet()) << "it has told itself";
        const cm::IdSummary info = query(id);
        EXPECT_EQ(info.state, cm::IdState::address_resolved);
        EXPECT_EQ(info.local.port, port);
        // It is lent no more, and others are.
        EXPECT_EQ(Sharing::resolve(me.channel.create_id(), endpoint("127.0.0.1", 9), port), EINVAL);
        unsigned others = 0;
        while (const std::uint16_t other = me.shared().ports.take()) {
            EXPECT_NE(other, port);
            others++;
        }
        EXPECT_EQ(others, host::LentPorts::kPlaces);
    });
}

class FewPortsTest : public NetworkTest {};

// What an id is about to be bound to is not lent again meanwhile.
TEST_F(FewPortsTest, APortIsLentOnceAtATime) {
    shell("ip link set lo up; echo 40000 40031 > /proc/sys/net/ipv4/ip_local_port_range");
    run([] {
        Sharing me;
        for (unsigned n = 0; n < 500; n++) {
            const std::uint16_t port = me.shared().ports.take();
            ASSERT_NE(port, 0);
            const cm::IdNumber id = me.channel.create_id(), other = me.channel.create_id();
            ASSERT_EQ(bind(other, endpoint("127.0.0.1", 0)), 0);  // the port chosen last is another one
            ASSERT_EQ(Sharing::resolve(id, endpoint("127.0.0.1", 9), port), 0) << last_reason();
            for (const cm::IdNumber each : {id, other})
                ask<host::EventsReply>(host::Command::destroy_id, host::IdRequest{each});
        }
    });
}

// What is lent, or left, is not missing where there is no other.
TEST_F(FewPortsTest, WhoeverWantsAnyPortHasTheLast) {
    shell("ip link set lo up; echo 40000 40031 > /proc/sys/net/ipv4/ip_local_port_range");
    Wire shared, done;
    const pid_t lender = start([&] {
        Sharing me;
        const cm::IdNumber left = me.channel.create_id();
        EXPECT_EQ(bind(left, endpoint("127.0.0.1", 0)), 0);
        EXPECT_TRUE(me.shared().departures.leave(left));
        shared.say(1);
        done.hear();
    });
    shared.hear();
    run([] {
        Channel channel;
        for (unsigned n = 0; n < 32; n++)
            EXPECT_EQ(bind(channel.create_id(), endpoint("127.0.0.1", 0)), 0) << n << ": " << last_reason();
        EXPECT_EQ(bind(channel.create_id(), endpoint("127.0.0.1", 0)), EADDRNOTAVAIL);
    });
    done.say(1);
    EXPECT_EQ(wait_for(lender), 0);
}

TEST_F(ProgramPagesTest, WhoeverBindsToAPortThatNobodyTookHasIt) {
    Wire port, bound, looked;
    const pid_t lender = start([&] {
        Sharing me;
        std::array<std::uint16_t, host::LentPorts::kPlaces> ports{};
        for (std::uint16_t& each : ports) each = me.shared().ports.take();
        for (std::size_t i = 1; i < ports.size(); i++) me.shared().ports.lend(i, ports[i]);  // untouched
        port.say(ports[0]);
        port.say(ports[1]);
        bound.hear();
        while (const std::uint16_t left = me.shared().ports.take()) EXPECT_NE(left, ports[1]);
        looked.say(::testing::Test::HasFailure());
        pause();
    });
    const auto taken = static_cast<std::uint16_t>(port.hear()),
               free = static_cast<std::uint16_t>(port.hear());
    run([&] {
        Channel channel;
        EXPECT_EQ(bind(channel.create_id(), endpoint("127.0.0.1", taken)), EADDRNOTAVAIL);
        EXPECT_EQ(bind(channel.create_id(), endpoint("127.0.0.1", free)), 0) << last_reason();
        bound.say(1);
    });
    EXPECT_EQ(looked.hear(), 0);
    end_process(lender);
    run([&] {
        Channel channel;
        EXPECT_TRUE(eventually([&] { return bind(channel.create_id(), endpoint("127.0.0.1", taken)) == 0; }))
            << "the program that had it has ended";
    });
}

TEST_F(ProgramPagesTest, AnIdThatWasLeftIsGoneBeforeAnybodyCouldMindIt) {
    run([] {
        Sharing me;
        cm::IdInfo bound;
        const cm::IdNumber first = me.channel.create_id(), second = me.channel.create_id();
        EXPECT_EQ(bind(first, endpoint("127.0.0.1", 0), &bound), 0);
        EXPECT_EQ(status().ids, 2u);
        EXPECT_TRUE(me.shared().departures.leave(first));
        EXPECT_EQ(status().ids, 1u);
        EXPECT_EQ(bind(second, bound.local), 0) << last_reason();
        EXPECT_TRUE(me.shared().departures.leave(second));
        EXPECT_EQ(bind(second, endpoint("127.0.0.1", 0)), EINVAL);
        // What is none of its ids, or not any more, is nobody's loss.
        EXPECT_TRUE(me.shared().departures.leave(second));
        EXPECT_TRUE(me.shared().departures.leave(0));
        EXPECT_EQ(status().ids, 0u);
    });
}

TEST_F(ProgramPagesTest, WhatIsPutOffIsToldBeforeAWait) {
    Wire number, put_off, told, seen;
    const pid_t other = start([&] {
        const auto id = static_cast<cm::IdNumber>(number.hear());
        put_off.hear();
        EXPECT_EQ(query(id).state, cm::IdState::idle);
        told.say(1);
        EXPECT_TRUE(eventually([&] { return query(id).state == cm::IdState::address_bound; }));
        seen.say(1);
    });
    run([&] {
        Channel channel;
        host::BindRequest request;
        request.id = channel.create_id();
        request.local = endpoint("127.0.0.1", 0);
        number.say(request.id);
        EXPECT_FALSE(host::has_put_off());
        EXPECT_EQ(host::put_off(
                      host::Command::bind,
                      {static_cast<const std::uint8_t*>(static_cast<const void*>(&request)), sizeof request}),
                  0);
        EXPECT_TRUE(host::has_put_off());
        put_off.say(1);
        told.hear();
        host::tell_put_off();
        EXPECT_FALSE(host::has_put_off());
        seen.hear();
    });
    EXPECT_EQ(wait_for(other), 0);
}

TEST_F(ProgramPagesTest, OthersIdsAreNotItsToLeave) {
    Wire number, left;
    const pid_t other = start([&] {
        Channel channel;
        const cm::IdNumber id = channel.create_id();
        number.say(id);
        left.hear();
        EXPECT_EQ(bind(id, endpoint("127.0.0.1", 0)), 0) << last_reason();
    });
    run([&] {
        Sharing me;
        EXPECT_TRUE(me.shared().departures.leave(static_cast<cm::IdNumber>(number.hear())));
        EXPECT_EQ(status().ids, 1u);
    });
    left.say(1);
    EXPECT_EQ(wait_for(other), 0);
}

TEST_F(ProgramPagesTest, APageOfNonsenseHurtsNobody) {
    run([] {
        Sharing me;
        std::memset(static_cast<void*>(&me.shared()), 0xff, SharedPage::kSize);
        EXPECT_EQ(status().ids, 0u);
        EXPECT_EQ(bind(me.channel.create_id(), endpoint("127.0.0.1", 0xffff)), 0) << last_reason();
        EXPECT_EQ(status().ids, 1u);
        int fd = -1;
        const SharedPage another = SharedPage::make("test", fd);
        host::Empty nothing;
        EXPECT_EQ(host::call(host::Command::share_page, nothing, nothing, fd), EEXIST);
        close(fd);
    });
}

}  // namespace
}  // namespace verbena::daemon::testing
