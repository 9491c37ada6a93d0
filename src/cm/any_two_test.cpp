// Whatever two CM messages are lost or doubled: programs that do the usual things end with the usual events,
// nothing keeps waiting and nothing is left over.

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using wire::CmAttribute;

// What becomes of the n-th message sent, for two n.
struct Plan {
    std::size_t first, second;
    int first_copies, second_copies;
};

std::vector<Plan> all_plans(std::size_t messages) {
    std::vector<Plan> plans;
    for (std::size_t i = 0; i < messages; i++)
        for (std::size_t j = i + 1; j < messages; j++)
            for (int a : {0, 2})
                for (int b : {0, 2}) plans.push_back({i, j, a, b});
    return plans;
}

enum class Ending { disconnect, destroy, peer_disconnects, both_disconnect };

struct World {
    Network net;
    Host& client = net.add(3);
    Host& server = net.add(2);
    std::vector<EventType> at_client, at_server;

    explicit World(const Plan& plan) {
        net.fate = [plan, n = std::size_t{0}](const Sent&) mutable {
            std::size_t at = n++;
            return at == plan.first ? plan.first_copies : at == plan.second ? plan.second_copies : 1;
        };
    }

    IdNumber make_listener(PortSpace space) {
        IdNumber id = 0;
        EXPECT_EQ(server->create_id(kFile, space, QpType::rc, 1, id), 0);
        EXPECT_EQ(server->bind(id, any4(7471), false), 0);
        EXPECT_EQ(server->listen(id, 0), 0);
        return id;
    }
    IdNumber make_client(PortSpace space) {
        IdNumber id = 0;
        EXPECT_EQ(client->create_id(kFile, space, QpType::rc, 1, id), 0);
        EXPECT_EQ(client->resolve_address(id, nullptr, server.address(7471), kSecond, net.now), 0);
        EXPECT_EQ(client->resolve_route(id, kSecond, net.now), 0);
        client.take();
        client.take();
        EXPECT_EQ(client->connect(id, parameters(0x11), net.now), 0);
        return id;
    }

    // Lets the programs react until nothing has happened for a long time.
    void run(const std::function<void(const Event&)>& client_program,
             const std::function<void(const Event&)>& server_program) {
        for (int i = 0; i < 4000; i++) {
            net.run(100 * kMillisecond);
            while (!client.quiet()) {
                Event event = client.take();
                at_client.push_back(event.type);
                client_program(event);
            }
            while (!server.quiet()) {
                Event event = server.take();
                at_server.push_back(event.type);
                server_program(event);
            }
        }
    }

    void expect_nothing_left() {
        EXPECT_EQ(client->next_deadline(), kNever);
        EXPECT_EQ(server->next_deadline(), kNever);
        client->close_file(kFile, net.now);
        server->close_file(kFile, net.now);
        net.run(kMinute);
        for (Host* host : {&client, &server}) {
            EXPECT_EQ((*host)->counts().ids, 0u);
            EXPECT_EQ((*host)->counts().connections, 0u);
            EXPECT_EQ((*host)->counts().timewait, 0u);
        }
    }
};

class AnyTwo : public ::testing::TestWithParam<Ending> {};

TEST_P(AnyTwo, ConnectionComesUpAndEnds) {
    for (const Plan& plan : all_plans(9)) {
        SCOPED_TRACE(::testing::Message()
                     << "messages " << plan.first << " and " << plan.second << ", copies "
                     << plan.first_copies << " and " << plan.second_copies);
        World w(plan);
        w.make_listener(PortSpace::tcp);
        IdNumber active = w.make_client(PortSpace::tcp);
        IdNumber passive = 0;
        bool active_destroyed = false;
        auto client_program = [&](const Event& event) {
            if (event.type == EventType::connect_response) {
                EXPECT_EQ(w.client->accept(active, nullptr, 1, w.net.now), 0);
            } else if (event.type == EventType::disconnected) {
                EXPECT_EQ(event.status, 0);
                EXPECT_EQ(w.client->disconnect(active, w.net.now), 0);
            }
        };
        auto server_program = [&](const Event& event) {
            if (event.type == EventType::connect_request) {
                passive = event.id;
                ConnectParameters p = parameters(0x21);
                EXPECT_EQ(w.server->accept(passive, &p, 2, w.net.now), 0);
            } else if (event.type == EventType::established) {
                std::uint64_t delivered;
                if (GetParam() != Ending::peer_disconnects && GetParam() != Ending::destroy) {
                    EXPECT_EQ(w.client->disconnect(active, w.net.now), 0);
                }
                if (GetParam() == Ending::peer_disconnects || GetParam() == Ending::both_disconnect) {
                    EXPECT_EQ(w.server->disconnect(passive, w.net.now), 0);
                }
                if (GetParam() == Ending::destroy) {
                    EXPECT_EQ(w.client->destroy_id(active, delivered, w.net.now), 0);
                    active_destroyed = true;
                }
            } else if (event.type == EventType::disconnected) {
                EXPECT_EQ(event.status, 0);
                EXPECT_EQ(w.server->disconnect(passive, w.net.now), 0);
            }
        };
        w.run(client_program, server_program);
        EXPECT_EQ(w.at_server, (std::vector<EventType>{EventType::connect_request, EventType::established,
                                                       EventType::disconnected, EventType::timewait_exit}));
        std::vector<EventType> expected{EventType::connect_response};
        if (!active_destroyed) {
            expected.push_back(EventType::disconnected);
            expected.push_back(EventType::timewait_exit);
        }
        EXPECT_EQ(w.at_client, expected);
        w.expect_nothing_left();
        if (HasFailure()) {
            ADD_FAILURE() << w.net.conversation();
            return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Endings, AnyTwo,
                         ::testing::Values(Ending::disconnect, Ending::destroy, Ending::peer_disconnects,
                                           Ending::both_disconnect));

TEST(AnyTwo, RejectionArrives) {
    for (bool listening : {false, true})
        for (const Plan& plan : all_plans(4)) {
            SCOPED_TRACE(::testing::Message() << listening << plan.first << plan.second << plan.first_copies);
            World w(plan);
            if (listening) w.make_listener(PortSpace::tcp);
            w.make_client(PortSpace::tcp);
            int status = 0;
            auto server_program = [&](const Event& event) {
                ASSERT_EQ(event.type, EventType::connect_request);
                EXPECT_EQ(w.server->reject(event.id, {}, 28, w.net.now), 0);
            };
            w.run([&](const Event& event) { status = event.status; }, server_program);
            EXPECT_EQ(w.at_client, std::vector<EventType>{EventType::rejected});
            EXPECT_EQ(w.at_server.size(), listening ? 1u : 0u);
            EXPECT_EQ(status, listening ? 28 : 8);
            w.net.run(kMinute);
            w.expect_nothing_left();
        }
}

TEST(AnyTwo, DatagramServiceIsFound) {
    for (const Plan& plan : all_plans(4)) {
        SCOPED_TRACE(::testing::Message() << plan.first << plan.second << plan.first_copies);
        World w(plan);
        w.make_listener(PortSpace::udp);
        w.make_client(PortSpace::udp);
        auto server_program = [&](const Event& event) {
            ASSERT_EQ(event.type, EventType::connect_request);
            ConnectParameters p = parameters(0x21);
            EXPECT_EQ(w.server->accept(event.id, &p, 2, w.net.now), 0);
        };
        w.run([](const Event&) {}, server_program);
        EXPECT_EQ(w.at_client, std::vector<EventType>{EventType::established});
        EXPECT_EQ(w.at_server, std::vector<EventType>{EventType::connect_request});
        w.expect_nothing_left();
    }
}

}  // namespace
}  // namespace verbena::cm::testing
