// MADs of any content, in any state of a connection. The input is a script: one byte chooses a step, the next
// ones are its arguments. Nothing may crash, and no deadline may stand still.

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cm/manager.h"
#include "cm/messages.h"

namespace {

using namespace verbena;
using namespace verbena::cm;

class World final : public Environment {
   public:
    void send_mad(const wire::Path& path, std::uint32_t, std::span<const std::uint8_t, 256> mad) override {
        Mad copy;
        std::copy(mad.begin(), mad.end(), copy.begin());
        if (sent.size() < 64) sent.push_back({path, copy});
    }
    void deliver(FileNumber, const Event& event) override {
        if (event.type == EventType::connect_request && requests.size() < 64) requests.push_back(event);
    }
    int find_local(const Endpoint& local, Route& route) override {
        route = Route{};
        route.source_gid = local.address;
        route.device = 0;
        route.path_mtu = 3;
        return 0;
    }
    int find_route(const Endpoint&, const Endpoint& remote, Route& route, Gid& source_address) override {
        source_address = Gid::from_ipv4(0x0a000001);
        route = Route{};
        route.source_gid = source_address;
        route.device = 0;
        route.destination_gid = remote.address;
        route.path_mtu = 3;
        return 0;
    }
    int resolve_neighbor(const Route&, std::uint64_t token) override {
        manager->neighbor_resolved(token, 0, now);
        return 0;
    }
    std::uint64_t node_guid(std::uint32_t) override { return 1; }
    std::uint8_t max_rd_atomic(std::uint32_t) override { return 16; }
    std::uint32_t device_count() override { return 1; }
    std::uint32_t random() override { return seed++; }
    std::pair<std::uint16_t, std::uint16_t> ephemeral_ports() override { return {32768, 60999}; }
    void quarantine_qp(std::uint32_t, Time) override {}

    Manager* manager = nullptr;
    Time now = 1;
    std::uint32_t seed = 1;
    struct Message {
        wire::Path path;
        Mad mad;
    };
    std::vector<Message> sent;
    std::vector<Event> requests;
};

class Script {
   public:
    Script(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
    bool done() const { return at_ >= size_; }
    std::uint8_t byte() { return done() ? std::uint8_t{0} : data_[at_++]; }

   private:
    const std::uint8_t* data_;
    std::size_t size_;
    std::size_t at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    World world;
    Manager manager(world);
    world.manager = &manager;
    Endpoint any;
    any.family = AF_INET;
    any.address = Gid::from_ipv4(0);
    any.port = 7471;
    for (PortSpace space : {PortSpace::tcp, PortSpace::udp}) {
        IdNumber id = 0;
        manager.create_id(1, space, QpType::rc, 1, id);
        manager.bind(id, any, false);
        manager.listen(id, 8);
    }
    Script script(data, size);
    ConnectParameters parameters;
    std::uint64_t delivered = 0;
    while (!script.done()) {
        std::uint8_t step = script.byte();
        switch (step % 8) {
            case 0: {  // connect to ourselves
                IdNumber id = 0;
                Endpoint remote = any;
                remote.address = Gid::from_ipv4(0x0a000001);
                manager.create_id(2, step & 8 ? PortSpace::udp : PortSpace::tcp, QpType::rc, 1, id);
                manager.resolve_address(id, nullptr, remote, kSecond, world.now);
                manager.resolve_route(id, kSecond, world.now);
                parameters.qp_number = script.byte() + 2u;
                manager.connect(id, parameters, world.now);
                break;
            }
            case 1:    // what was sent arrives, perhaps changed
            case 2: {  // again: more often than the rest
                if (world.sent.empty()) break;
                World::Message message = world.sent[script.byte() % world.sent.size()];
                if (step & 16)
                    for (int i = step >> 5; i > 0; i--) message.mad[script.byte()] = script.byte();
                manager.receive_mad(message.path, 1, std::span<const std::uint8_t, 256>(message.mad),
                                    world.now);
                break;
            }
            case 3: {  // anything arrives
                Mad mad;
                for (auto& byte : mad) byte = script.byte();
                mad[0] = 1, mad[1] = 7, mad[2] = 2, mad[3] = 3;
                wire::Path path{Gid::from_ipv4(0x0a000002), Gid::from_ipv4(0x0a000001), 1, 55410, 0, 64};
                manager.receive_mad(path, 1, std::span<const std::uint8_t, 256>(mad), world.now);
                break;
            }
            case 4: {  // a program acts on an id
                IdNumber id = script.byte();
                if (step & 8)
                    manager.accept(id, step & 16 ? &parameters : nullptr, 1, world.now);
                else if (step & 16)
                    manager.disconnect(id, world.now);
                else
                    manager.reject(id, {}, 28, world.now);
                break;
            }
            case 5:
                manager.destroy_id(script.byte(), delivered, world.now);
                break;
            case 6: {  // time passes
                Time next = manager.next_deadline();
                world.now = step & 8 && next != kNever ? std::max(world.now, next)
                                                       : world.now + script.byte() * 100 * kMillisecond;
                manager.advance(world.now);
                if (manager.next_deadline() <= world.now) std::abort();
                break;
            }
            case 7: {
                if (step & 8) world.sent.clear();
                if (!world.requests.empty()) manager.request_taken(world.requests.front().listen_id);
                if (!world.requests.empty()) world.requests.erase(world.requests.begin());
                manager.communication_established(script.byte() + 2u, world.now);
                break;
            }
        }
    }
    manager.close_file(2, world.now);
    manager.close_file(1, world.now);
    // Left to itself, everything ends.
    for (int i = 0; i < 100000; i++) {
        Time next = manager.next_deadline();
        if (next == kNever) break;
        if (i == 99999) std::abort();
        world.now = std::max(world.now, next);
        manager.advance(world.now);
    }
    Manager::Counts counts = manager.counts();
    if (counts.ids || counts.connections || counts.listeners || counts.timewait) std::abort();
    return 0;
}
