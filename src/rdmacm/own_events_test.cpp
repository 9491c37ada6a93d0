// What the library tells its program by itself, and what the daemon hears of it and when.
#include "rdmacm/own_events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <chrono>

#include "rdmacm/channel.h"
#include "rdmacm/channel_testing.h"
#include "rdmacm/daemon_page.h"
#include "rdmacm/process.h"

namespace verbena::rdmacm {
namespace {

using host::Command;
using host::ResolveAddressRequest;

constexpr std::uint16_t kPort = 7471;

class OwnEventsTest : public ChannelFixture {
   protected:
    void SetUp() override {
        ChannelFixture::SetUp();
        FakeDaemon::devices().sequence += 2;  // nothing is known from another test
    }

    static sockaddr_in loopback(std::uint32_t last = 1) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(kPort);
        address.sin_addr.s_addr = htonl(0x7f000000 + last);
        return address;
    }
    static int resolve(rdma_cm_id* id, sockaddr_in to = loopback()) {
        return rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 1000);
    }
    // What a daemon says of it.
    cm::Event resolved(rdma_cm_id* id, std::uint16_t own_port) {
        cm::Event event = event_for(id, 0, cm::EventType::addr_resolved);
        const auto asked = daemon.last<ResolveAddressRequest>(Command::resolve_address);
        event.info.id = event.id;
        event.info.state = cm::IdState::address_resolved;
        event.info.qp_type = cm::QpType::rc;
        event.info.port_space = cm::PortSpace::tcp;
        event.info.remote = event.info.local = asked.remote;
        event.info.local.port = own_port;
        event.info.route.device = cm::kNoDevice;
        event.info.route.path_mtu = 3;
        return event;
    }
    rdma_cm_event_type next() {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(channel, &event) != 0) return RDMA_CM_EVENT_DEVICE_REMOVAL;
        const rdma_cm_event_type type = event->event;
        rdma_ack_cm_event(event);
        return type;
    }
    bool was_asked() const {
        return daemon.last<ResolveAddressRequest>(Command::resolve_address).lent_port == 0;
    }
    // As the daemon tells it; false if the library has told it already.
    bool resolve_by_daemon(rdma_cm_id* id, sockaddr_in to = loopback()) {
        EXPECT_EQ(resolve(id, to), 0);
        if (readable(channel)) return false;
        EXPECT_TRUE(was_asked());
        daemon.deliver(file, resolved(id, 50000));
        EXPECT_EQ(next(), RDMA_CM_EVENT_ADDR_RESOLVED);
        return true;
    }
    // Makes the library one that can: an answer is known, the channel can be written to, a page is shared.
    void prepare() {
        rdma_cm_id* id = create();
        EXPECT_TRUE(resolve_by_daemon(id));
        rdma_destroy_id(id);
        Channel& known = *find_channel(channel);
        EXPECT_FALSE(can_write(known)) << "the first time";
        ASSERT_TRUE(can_write(known));
        while (!daemon.has_page()) process().page->take_port(daemon.generation);
        daemon.page().ports.lend(3, 40003);
    }
};

TEST_F(OwnEventsTest, AKnownAddressIsToldWithALentPort) {
    prepare();
    const unsigned calls = daemon.count(Command::resolve_address);
    rdma_cm_id* id = create();
    ASSERT_EQ(resolve(id), 0);
    EXPECT_TRUE(readable(channel));
    EXPECT_EQ(next(), RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(ntohs(rdma_get_src_port(id)), 40003);
    EXPECT_EQ(ntohs(rdma_get_dst_port(id)), kPort);
    const auto told = daemon.last<ResolveAddressRequest>(Command::resolve_address);
    EXPECT_EQ(daemon.count(Command::resolve_address), calls + 1);
    EXPECT_EQ(told.id, numbers[id]);
    EXPECT_EQ(told.lent_port, 40003);
    EXPECT_EQ(told.remote.port, kPort);
    rdma_destroy_id(id);

    rdma_cm_id* without_port = create();
    EXPECT_TRUE(resolve_by_daemon(without_port)) << "none is left";
    rdma_destroy_id(without_port);
}

// What the daemon has not heard yet it hears before the program waits.
TEST_F(OwnEventsTest, WhoWaitsPutsNothingOff) {
    prepare();
    rdma_cm_id* id = create();
    ASSERT_EQ(resolve(id), 0);
    EXPECT_TRUE(daemon.has_put_off);
    EXPECT_EQ(next(), RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_TRUE(daemon.has_put_off) << "nobody has waited";
    ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(channel, &event), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_FALSE(daemon.has_put_off);
    rdma_destroy_id(id);
}

TEST_F(OwnEventsTest, OtherwiseTheDaemonIsAsked) {
    prepare();
    rdma_cm_id *elsewhere = create(), *bound = create(), *again = create(), *datagram = nullptr;
    EXPECT_TRUE(resolve_by_daemon(elsewhere, loopback(9))) << "an address that it has not been asked about";

    sockaddr_in any{};
    any.sin_family = AF_INET;
    ASSERT_EQ(rdma_bind_addr(bound, reinterpret_cast<sockaddr*>(&any)), 0);
    EXPECT_EQ(resolve(bound), 0);
    EXPECT_TRUE(was_asked());

    daemon.answers[Command::resolve_address] = [](const void*, void*) { return EINVAL; };
    sockaddr_in to = loopback();
    EXPECT_EQ(
        rdma_resolve_addr(again, reinterpret_cast<sockaddr*>(&any), reinterpret_cast<sockaddr*>(&to), 1000),
        -1);
    EXPECT_EQ(resolve(again), -1) << "a second call on an id";
    EXPECT_TRUE(was_asked());

    ASSERT_EQ(rdma_create_id(channel, &datagram, nullptr, RDMA_PS_UDP), 0);
    EXPECT_EQ(resolve(datagram), 0);
    EXPECT_TRUE(was_asked());
    EXPECT_FALSE(readable(channel));

    EXPECT_EQ(daemon.page().ports.take(), 40003) << "nobody has taken it";
    for (rdma_cm_id* each : {elsewhere, bound, again, datagram}) rdma_destroy_id(each);
}

TEST_F(OwnEventsTest, WhatTheDevicesWereIsNotWhatTheyAre) {
    prepare();
    FakeDaemon::devices().sequence += 2;
    rdma_cm_id *first = create(), *second = create();
    EXPECT_TRUE(resolve_by_daemon(first));
    EXPECT_FALSE(resolve_by_daemon(second)) << "it is known again";
    EXPECT_EQ(next(), RDMA_CM_EVENT_ADDR_RESOLVED);

    // Between the question and the answer: whatever that means.
    FakeDaemon::devices().sequence += 2;
    daemon.page().ports.lend(0, 40000);
    rdma_cm_id *third = create(), *fourth = create();
    EXPECT_EQ(resolve(third), 0);
    FakeDaemon::devices().sequence += 2;
    daemon.deliver(file, resolved(third, 50000));
    EXPECT_EQ(next(), RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_TRUE(resolve_by_daemon(fourth));
    for (rdma_cm_id* each : {first, second, third, fourth}) rdma_destroy_id(each);
}

// A question that came to nothing says nothing of the next one's answer.
TEST_F(OwnEventsTest, AnErrorIsNothingToLearnFrom) {
    prepare();
    sockaddr_in elsewhere = loopback();
    elsewhere.sin_addr.s_addr = htonl(0xc0000201);  // 192.0.2.1 (RFC 5737)
    rdma_cm_id *id = create(), *another = create();
    ASSERT_EQ(resolve(id, loopback(7)), 0);
    daemon.deliver(file, event_for(id, -ENODEV, cm::EventType::addr_error));
    EXPECT_EQ(next(), RDMA_CM_EVENT_ADDR_ERROR);
    EXPECT_TRUE(resolve_by_daemon(id, elsewhere));
    EXPECT_TRUE(resolve_by_daemon(another, elsewhere)) << "it is no address of this host";
    for (rdma_cm_id* each : {id, another}) rdma_destroy_id(each);
}

class QuietIdTest : public OwnEventsTest {
   protected:
    enum class Left { in_page, told };
    // An id that has had a connection, and whose program knows that it is over.
    Left end_one(bool disconnects) {
        constexpr auto kLater = std::chrono::seconds(10);
        rdma_cm_id* id = create();
        cm::Event over = event_for(id, 0, cm::EventType::disconnected);
        over.argument = static_cast<std::uint64_t>(
            std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch() + kLater).count());
        daemon.deliver(file, over);
        EXPECT_EQ(next(), RDMA_CM_EVENT_DISCONNECTED);
        EXPECT_EQ(disconnects ? rdma_disconnect(id) : 0, 0);
        const unsigned before = daemon.count(Command::destroy_id);
        EXPECT_EQ(rdma_destroy_id(id), 0);
        if (daemon.count(Command::destroy_id) != before) return Left::told;
        EXPECT_EQ(daemon.page().departures.hear(heard_), numbers[id]);
        return Left::in_page;
    }

   private:
    std::uint32_t heard_ = 0;
};

// An id for which no event can come is left in the page, if there is one; otherwise the daemon is told.
TEST_F(QuietIdTest, IsLeft) {
    EXPECT_EQ(end_one(true), Left::told) << "who has one connection shares no page";
    for (unsigned i = 0; i < 4; i++) EXPECT_EQ(end_one(true), Left::in_page);
    rdma_cm_id* busy = create();
    EXPECT_EQ(rdma_destroy_id(busy), 0);
    EXPECT_EQ(daemon.last<host::IdRequest>(Command::destroy_id).id, numbers[busy]);
}

// By destroying its id a program answers the peer's DREQ, if it has not disconnected.
TEST_F(QuietIdTest, IsToldIfThePeerWaitsForIt) {
    for (unsigned i = 0; i < 4; i++) end_one(true);
    EXPECT_EQ(end_one(false), Left::told);
    EXPECT_EQ(end_one(true), Left::in_page);
}

}  // namespace
}  // namespace verbena::rdmacm
