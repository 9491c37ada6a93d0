// The calls of librdmacm.
#include <cstring>
#include <memory>
#include <utility>

#include "rdmacm/fabric.h"
#include "shortage.h"

namespace verbena::shortage_test {
namespace {

using rdmacm_test::Address;
using rdmacm_test::Side;

constexpr char kHere[] = "127.0.0.1";

int destroy(rdma_cm_id* id) {
    return without_memory([&] { return or_errno(rdma_destroy_id(id)); });
}

// A copy, since the call writes to what it is given.
int create_qp(rdma_cm_id* id) {
    ibv_qp_init_attr wanted = rdmacm_test::small_qp();
    wanted.qp_type = id->qp_type;
    return or_errno(rdma_create_qp(id, nullptr, &wanted));
}

int destroy_qp(rdma_cm_id* id) {
    return without_memory([&] {
        rdma_destroy_qp(id);
        return 0;
    });
}

// The next event with `spared` allocations allowed; one that was refused is there afterwards.
struct Taken {
    rdma_cm_event_type type{};
    int status = 0;
    rdma_cm_id* id = nullptr;
    bool was_short = false;
};
Taken take_event(rdma_event_channel* channel, unsigned spared, Lasts lasts) {
    Taken taken;
    rdma_cm_event* event = nullptr;
    EXPECT_TRUE(rdmacm_test::wait_readable(channel->fd, rdmacm_test::kPatienceMs));
    int error = 0;
    {
        const Shortage shortage(spared, lasts);
        error = or_errno(rdma_get_cm_event(channel, &event));
        taken.was_short = shortage.refused() > 0;
    }
    if (error != 0) {
        EXPECT_EQ(error, ENOMEM);
        EXPECT_TRUE(taken.was_short);
        error = or_errno(rdma_get_cm_event(channel, &event));
    }
    EXPECT_EQ(error, 0);
    if (error) return taken;
    taken.type = event->event;
    taken.status = event->status;
    taken.id = event->id;
    EXPECT_EQ(without_memory([&] { return or_errno(rdma_ack_cm_event(event)); }), 0);
    return taken;
}

TEST(AnId, IsMadeOrNotByWhoMakesItFirst) {
    rdma_event_channel* channel = nullptr;
    rdma_cm_id* id = nullptr;
    const auto give_back = [&] {
        const int error = id ? or_errno(rdma_destroy_id(std::exchange(id, nullptr))) : 0;
        if (channel) rdma_destroy_event_channel(std::exchange(channel, nullptr));
        return error;
    };
    const auto make = [&] {
        if (int error = kept(rdma_create_event_channel(), channel)) return error;
        if (int error = or_errno(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP))) return error;
        Address here(kHere, 0);
        if (int error = or_errno(rdma_bind_addr(id, here.get()))) return error;
        return or_errno(rdma_listen(id, 4));
    };
    sweep_in_children(
        "an id that listens",
        [&] {
            const int error = make();
            const int undone = error ? give_back() : 0;
            return undone ? undone : error;
        },
        [&] { return without_memory(give_back); });
}

TEST(AnId, IsMadeOrNot) {
    rdma_event_channel* channel = nullptr;
    sweep(
        "rdma_create_event_channel", [&] { return kept(rdma_create_event_channel(), channel); },
        [&] {
            return without_memory([&] {
                rdma_destroy_event_channel(channel);
                return 0;
            });
        });
    Side side;
    rdma_cm_id* id = nullptr;
    const auto create = [&](rdma_event_channel* of) {
        return or_errno(rdma_create_id(of, &id, nullptr, RDMA_PS_TCP));
    };
    sweep(
        "rdma_create_id", [&] { return create(side.channel); }, [&] { return destroy(id); });
    sweep(
        "rdma_create_id, synchronous", [&] { return create(nullptr); }, [&] { return destroy(id); });
    ASSERT_EQ(create(side.channel), 0);
    Side other;
    sweep(
        "rdma_migrate_id", [&] { return or_errno(rdma_migrate_id(id, other.channel)); },
        [&] { return or_errno(rdma_migrate_id(id, side.channel)); });
    EXPECT_EQ(destroy(id), 0);
}

TEST(AnId, IsBoundAndListensOrNot) {
    Side side;
    Address here(kHere, 0);
    rdma_cm_id* const id = side.id();
    sweep_until("rdma_bind_addr", [&] { return or_errno(rdma_bind_addr(id, here.get())); });
    sweep_until("rdma_listen", [&] { return or_errno(rdma_listen(id, 4)); });
}

TEST(Addresses, AreLookedUpOrNot) {
    rdma_addrinfo* found = nullptr;
    for (unsigned spared = 0;; spared++) {
        const Shortage shortage(spared);
        const int answer = rdma_getaddrinfo(kHere, "7471", nullptr, &found);
        if (shortage.refused() == 0) {
            EXPECT_EQ(answer, 0);
            break;
        }
        EXPECT_NE(answer, 0);  // -1, or the resolver's number
        EXPECT_EQ(errno, ENOMEM);
    }
    rdma_freeaddrinfo(found);
    ibv_context** devices = nullptr;
    sweep(
        "rdma_get_devices", [&] { return kept(rdma_get_devices(nullptr), devices); },
        [&] {
            rdma_free_devices(devices);
            return 0;
        });
}

// An event that tells of a device which cannot be opened tells why; the next id's can.
TEST(Events, OfAddresses) {
    for (const Lasts lasts : {Lasts::once, Lasts::on}) {
        for (unsigned spared = 0;; spared++) {
            Side side;
            rdma_cm_id* const id = side.id();
            Address there(kHere, 7471);
            ASSERT_EQ(or_errno(rdma_resolve_addr(id, nullptr, there.get(), 2000)), 0);
            const Taken taken = take_event(side.channel, spared, lasts);
            if (taken.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
                EXPECT_TRUE(id->verbs);
                EXPECT_EQ(taken.status, 0);
            } else {
                EXPECT_EQ(taken.type, RDMA_CM_EVENT_ADDR_ERROR);
                EXPECT_EQ(taken.status, -ENOMEM);
            }
            if (!taken.was_short) break;
        }
    }
}

struct Connections : testing::Test {
    void SetUp() override { server.listener(kHere, port); }

    Side server, client;
    std::uint16_t port = 0;
    rdma_conn_param parameters = rdmacm_test::parameters_for(0);
};

TEST_F(Connections, ComeUpWhenThereIsMemoryAgain) {
    rdma_cm_id* const active = client.resolved(kHere, port);
    sweep(
        "rdma_create_qp", [&] { return create_qp(active); }, [&] { return destroy_qp(active); });
    ASSERT_EQ(create_qp(active), 0);
    sweep_until("rdma_connect", [&] { return or_errno(rdma_connect(active, &parameters)); });
    rdma_cm_id* const passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    ASSERT_TRUE(passive);
    sweep(
        "rdma_create_qp", [&] { return create_qp(passive); }, [&] { return destroy_qp(passive); });
    ASSERT_EQ(create_qp(passive), 0);
    sweep_until("rdma_accept", [&] { return or_errno(rdma_accept(passive, &parameters)); });
    client.expect(RDMA_CM_EVENT_ESTABLISHED);
    server.expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(without_memory([&] { return or_errno(rdma_disconnect(active)); }), 0);
    server.expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(without_memory([&] { return or_errno(rdma_disconnect(passive)); }), 0);
    client.expect(RDMA_CM_EVENT_DISCONNECTED);
}

// A request for whose id there is no memory is rejected; the listener goes on.
TEST_F(Connections, AreRejectedByWhoCannotKeepThem) {
    bool came = false;
    for (unsigned spared = 1; !came; spared++) {  // 0: of the event itself
        Side one;
        rdma_cm_id* const active = one.resolved(kHere, port);
        parameters.qp_num = rdmacm_test::unused_qp_number();
        ASSERT_EQ(or_errno(rdma_connect(active, &parameters)), 0);
        ASSERT_TRUE(rdmacm_test::wait_readable(server.channel->fd, rdmacm_test::kPatienceMs));
        rdma_cm_event* event = nullptr;
        {
            const Shortage shortage(spared);
            const int error = or_errno(rdma_get_cm_event(server.channel, &event));
            came = shortage.refused() == 0;
            EXPECT_EQ(error, came ? 0 : ENOMEM);
        }
        if (came) {
            server.adopt(event->id);
            EXPECT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
            EXPECT_EQ(or_errno(rdma_ack_cm_event(event)), 0);
        } else {
            EXPECT_EQ(one.expect(RDMA_CM_EVENT_REJECTED, 28).id, active);
        }
    }
}

// An event that tells of a connection whose queue pair cannot be moved tells why.
TEST_F(Connections, FailWhereTheReplyCannotBeFollowed) {
    bool came = false;
    for (unsigned spared = 1; !came; spared++) {
        Side one;
        rdma_cm_id* const active = one.resolved(kHere, port);
        ASSERT_EQ(create_qp(active), 0);
        ASSERT_EQ(or_errno(rdma_connect(active, &parameters)), 0);
        rdma_cm_id* const passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
        ASSERT_EQ(create_qp(passive), 0);
        ASSERT_EQ(or_errno(rdma_accept(passive, &parameters)), 0);
        const Taken taken = take_event(one.channel, spared, Lasts::on);
        came = !taken.was_short;
        if (taken.type == RDMA_CM_EVENT_ESTABLISHED) {
            EXPECT_EQ(taken.status, 0);
            server.expect(RDMA_CM_EVENT_ESTABLISHED);
        } else {
            EXPECT_EQ(taken.type, RDMA_CM_EVENT_CONNECT_ERROR);
            EXPECT_EQ(taken.status, -ENOMEM);
        }
        EXPECT_EQ(server.destroy(passive), 0);
    }
}

// Events of an id that is destroyed lie in front of another's in the socket; that one's is not lost.
TEST_F(Connections, LeaveNothingOfOthersBehindUnread) {
    rdma_cm_id* gone = nullptr;
    ASSERT_EQ(or_errno(rdma_create_id(client.channel, &gone, nullptr, RDMA_PS_TCP)), 0);
    rdma_cm_id* const stays = client.id();
    for (rdma_cm_id* id : {gone, stays, gone, stays})
        ASSERT_EQ(or_errno(rdma_write_cm_event(id, static_cast<rdma_cm_event_type>(18), 0, 1)), 0);
    EXPECT_EQ(destroy(gone), 0);
    for (int i = 0; i < 2; i++) EXPECT_EQ(client.next().id, stays);
}

TEST_F(Connections, OfEndpoints) {
    rdma_addrinfo hints{}, *info = nullptr;
    hints.ai_port_space = RDMA_PS_TCP;
    ASSERT_EQ(rdma_getaddrinfo(kHere, std::to_string(port).c_str(), &hints, &info), 0);
    rdma_cm_id* id = nullptr;
    const auto create = [&] {
        ibv_qp_init_attr wanted = rdmacm_test::small_qp();
        wanted.qp_type = IBV_QPT_RC;
        return or_errno(rdma_create_ep(&id, info, nullptr, &wanted));
    };
    const auto end = [&] {
        return without_memory([&] {
            rdma_destroy_ep(id);
            return 0;
        });
    };
    sweep("rdma_create_ep", create, end);
    rdma_freeaddrinfo(info);
    hints.ai_flags = RAI_PASSIVE;
    ASSERT_EQ(rdma_getaddrinfo(kHere, "0", &hints, &info), 0);
    sweep("rdma_create_ep, passive", create, end);
    rdma_freeaddrinfo(info);
}

TEST(Groups, AreJoinedOrNot) {
    Side side;
    rdma_cm_id* const id = side.id(RDMA_PS_UDP);
    Address here(kHere, 0), group("239.1.2.3", 0);
    ASSERT_EQ(or_errno(rdma_resolve_addr(id, here.get(), group.get(), 2000)), 0);
    side.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(create_qp(id), 0);
    sweep(
        "rdma_join_multicast", [&] { return or_errno(rdma_join_multicast(id, group.get(), nullptr)); },
        [&] {
            side.expect(RDMA_CM_EVENT_MULTICAST_JOIN);
            return without_memory([&] { return or_errno(rdma_leave_multicast(id, group.get())); });
        });
}

}  // namespace
}  // namespace verbena::shortage_test
