#include "sim/cm_exhaustive.h"

#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/coverage.h"
#include "sim/cm_program.h"

namespace verbena::sim {
namespace {

using Ending = CmScript::Ending;

enum class Mishap : std::uint8_t { lost, doubled, echo, late_echo };
constexpr Mishap kMishaps[] = {Mishap::lost, Mishap::doubled, Mishap::echo, Mishap::late_echo};
constexpr const char* kMishapNames[] = {"lost", "doubled", "doubled with 0.9 s between",
                                        "doubled with 30 s between"};
constexpr Duration kEcho = 900 * kMillisecond;  // within the life time of a packet
constexpr Duration kLateEcho = 30 * kSecond;    // long after; only nonsense is forbidden then
constexpr Duration kTogether = 1200 * kSecond;
constexpr std::uint16_t kPort = 7000;

struct Disturbance {
    unsigned message = 0;  // by the order of sending
    Mishap mishap = Mishap::lost;
};

class Conversation final : private CoverageObserver {
   public:
    Conversation(const CmScript& script, std::vector<Disturbance> disturbances)
        : script_(script), disturbances_(std::move(disturbances)), world_(1), registry_(world_) {}

    std::string run();
    unsigned messages() const { return messages_; }
    const Coverage& coverage() const { return world_.coverage; }

   private:
    Network::Fate fate();
    void judge(CmHost& a, CmHost& b);
    void cm_message(std::uint16_t attribute, int state) override {
        world_.coverage.cm[attribute][static_cast<std::size_t>(state) + 1]++;
    }

    const CmScript script_;
    const std::vector<Disturbance> disturbances_;
    World world_;
    CmRegistry registry_;
    unsigned messages_ = 0;
};

Network::Fate Conversation::fate() {
    const unsigned index = messages_++;
    Network::Fate fate;
    for (const Disturbance& d : disturbances_) {
        if (d.message != index) continue;
        switch (d.mishap) {
            case Mishap::lost:
                fate.copies = 0;
                break;
            case Mishap::doubled:
                fate.copies = 2;
                break;
            case Mishap::echo:
                fate.late = kEcho;
                break;
            case Mishap::late_echo:
                fate.late = kLateEcho;
                break;
        }
    }
    return fate;
}

std::string Conversation::run() {
    coverage_observer = this;
    world_.network.add_host();
    world_.network.add_host();
    world_.network.script = [this](const Frame&) { return fate(); };
    CmHost client_host(world_, 0, 10), server_host(world_, 1, 11);
    CmHabits habits;
    habits.script = &script_;
    CmProgram client(world_, registry_, client_host, 1, habits, 20),
        server(world_, registry_, server_host, 1, habits, 21);
    server.listen(cm::PortSpace::tcp, kPort, 10, false, false);
    client.connect_at(world_.now(), server_host.address(false, kPort), cm::PortSpace::tcp);

    const Time end = world_.now() + kTogether;
    auto pass_until = [&](Time time) {
        while (world_.verdict.good() && !world_.scheduler.empty() && world_.scheduler.next() <= time)
            world_.scheduler.step();
    };
    pass_until(end);
    if (world_.verdict.good()) {
        client.finish();
        server.finish();
        pass_until(end + kTogether);
        if (world_.verdict.good()) judge(client_host, server_host);
    }
    coverage_observer = nullptr;
    world_.coverage.events = world_.scheduler.events();
    return world_.verdict.text();
}

void Conversation::judge(CmHost& a, CmHost& b) {
    registry_.judge(false);
    for (CmHost* host : {&a, &b}) {
        const cm::Manager::Counts counts = host->manager().counts();
        if (counts.ids || counts.connections || counts.listeners || counts.timewait ||
            host->manager().next_deadline() != kNever)
            world_.verdict.violation(world_.now(), "host %u does not forget the conversation",
                                     host->number());
    }
    // Two messages less or more are nothing that repetition could not repair.
    for (const Disturbance& d : disturbances_)
        if (d.mishap == Mishap::late_echo) return;
    if (script_.ending == Ending::client_gives_up) return;
    const CmTrack* client = registry_.only_client();
    const CmTrack* server = client ? registry_.server(client->key) : nullptr;
    auto must = [&](bool condition, const char* what) {
        if (!condition) world_.verdict.violation(world_.now(), "%s", what);
    };
    using cm::EventType;
    if (!client || !server) return must(false, "the request did not reach the server");
    if (script_.ending == Ending::refused)
        return must(client->reason == 28, "the client was not REJECTED with reason 28");
    must(client->confirmed, "the client is not connected");
    must(server->count(EventType::established) + server->count(EventType::disconnected) > 0,
         "the server is not connected");
    const bool client_left = script_.ending == Ending::client_destroys,
               server_left = script_.ending == Ending::server_destroys;
    must(client_left || client->count(EventType::disconnected) == 1, "the client was not DISCONNECTED");
    must(server_left || server->count(EventType::disconnected) == 1, "the server was not DISCONNECTED");
    must(client_left || client->reason == 0, "the client's DISCONNECTED reports an error");
    must(server_left || server->reason == 0, "the server's DISCONNECTED reports an error");
    must(client_left || client->count(EventType::timewait_exit) == 1, "the client got no TIMEWAIT_EXIT");
    must(server_left || server->count(EventType::timewait_exit) == 1, "the server got no TIMEWAIT_EXIT");
}

struct Variant {
    CmScript script;
    const char* name;
};

// Answers within a millisecond, answers after the peer's first repetition, and every way to end.
std::vector<Variant> variants() {
    constexpr Duration kVerySlow = 150 * kSecond, kSlow = 8 * kSecond, kLinger = 10 * kSecond;
    return {
        {{0, 0, 0, Ending::client, false}, "the client disconnects"},
        {{0, 0, 0, Ending::server, true}, "the server disconnects; data overtakes the RTU"},
        {{0, 0, kLinger, Ending::client, true}, "the client disconnects, the server lingers"},
        {{0, 0, kLinger, Ending::server, false}, "the server disconnects, the client lingers"},
        {{0, 0, 0, Ending::both, false}, "both disconnect"},
        {{0, 0, 0, Ending::client_destroys, false}, "the client destroys its id"},
        {{0, 0, 0, Ending::server_destroys, false}, "the server destroys its id"},
        {{0, 0, 0, Ending::refused, false}, "the server refuses"},
        {{kSlow, 0, 0, Ending::client, false}, "a slow server"},
        {{0, kSlow, 0, Ending::server, false}, "a slow client"},
        {{kSlow, kSlow, kLinger, Ending::both, true}, "both slow"},
        {{kVerySlow, 0, 0, Ending::client, false}, "a very slow server, whose MRA keeps the client waiting"},
        {{kSlow, 0, kLinger, Ending::refused, false}, "a slow refusal"},
        {{0, 0, kLinger, Ending::refused, false}, "the server refuses, both linger"},
        {{kSlow, 0, 0, Ending::client_gives_up, false}, "the client gives up, the server is slow"},
        {{0, 0, 0, Ending::client_gives_up, false}, "the client gives up, the server is not"}};
}

class Exhaustive {
   public:
    ExhaustiveResult run() {
        for (const Variant& variant : variants()) {
            const unsigned messages = go(variant, {});
            for (unsigned i = 0; i < messages + 2 && result_.violation.empty(); i++)
                for (Mishap m : kMishaps) {
                    const unsigned more = go(variant, {{i, m}});
                    for (unsigned j = i + 1; j < more + 1; j++)
                        for (Mishap n : kMishaps) go(variant, {{i, m}, {j, n}});
                }
        }
        return std::move(result_);
    }

   private:
    unsigned go(const Variant& variant, const std::vector<Disturbance>& disturbances) {
        if (!result_.violation.empty()) return 0;
        Conversation conversation(variant.script, disturbances);
        const std::string violation = conversation.run();
        result_.runs++;
        result_.coverage.add(conversation.coverage());
        if (!violation.empty()) describe(variant, disturbances, violation);
        return conversation.messages();
    }

    void describe(const Variant& variant, const std::vector<Disturbance>& disturbances,
                  const std::string& violation) {
        result_.violation = std::string("conversation \"") + variant.name + "\"";
        for (const Disturbance& d : disturbances)
            result_.violation += ", message " + std::to_string(d.message) + " " +
                                 kMishapNames[static_cast<std::size_t>(d.mishap)];
        result_.violation += ": " + violation;
    }

    ExhaustiveResult result_;
};

}  // namespace

ExhaustiveResult run_all_conversations() { return Exhaustive().run(); }

}  // namespace verbena::sim
