// For this folder's tests: hosts with a Manager each, a network between them that can lose or double any
// message, and virtual time. Everything is in one thread and deterministic.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cm/manager.h"
#include "cm/messages.h"
#include "wire/cm_messages.h"

namespace verbena::cm::testing {

inline constexpr std::uint8_t kMaxRdAtomic = 16;
inline constexpr Duration kLatency = 20 * kMicrosecond;
inline constexpr FileNumber kFile = 1;
inline constexpr Duration kMinute = 60 * kSecond;
// Until a request is repeated: two life times and the response time.
inline constexpr Duration kRequestInterval = 2 * iba_timeout(18) + iba_timeout(20);

inline Endpoint ipv4(std::uint32_t address, std::uint16_t port = 0) {
    Endpoint endpoint;
    endpoint.address = Gid::from_ipv4(address);
    endpoint.family = AF_INET;
    endpoint.port = port;
    return endpoint;
}
// fd00::<last>, or another first byte.
inline Endpoint ipv6(std::uint8_t last, std::uint16_t port = 0, std::uint8_t first = 0xfd) {
    Endpoint endpoint;
    endpoint.address.bytes[0] = first;
    endpoint.address.bytes[15] = last;
    endpoint.family = AF_INET6;
    endpoint.port = port;
    return endpoint;
}
inline Endpoint any4(std::uint16_t port = 0) { return ipv4(0, port); }
inline Endpoint any6(std::uint16_t port = 0) {
    Endpoint endpoint;
    endpoint.family = AF_INET6;
    endpoint.port = port;
    return endpoint;
}
inline Endpoint loopback4(std::uint16_t port = 0) { return ipv4(0x7f000001, port); }
inline Endpoint loopback6(std::uint16_t port = 0) { return ipv6(1, port, 0); }

class Network;

// A machine: 10.0.0.n and fd00::n on device 0, 10.0.1.n on device 1, loopback on device 2, and 192.168.0.n on
// an interface without a device. 10.0.0.200 exists nowhere (no neighbour), 10.9.0.0/16 has no route.
class Host final : public Environment {
   public:
    Host(Network& network, std::uint8_t number)
        : network_(network), number_(number), manager_(std::make_unique<Manager>(*this)) {}

    Manager* operator->() { return manager_.get(); }
    Manager& manager() { return *manager_; }
    std::uint8_t number() const { return number_; }
    Endpoint address(std::uint16_t port = 0) const { return ipv4(0x0a000000u | number_, port); }
    Endpoint second_address(std::uint16_t port = 0) const { return ipv4(0x0a000100u | number_, port); }
    Endpoint address6(std::uint16_t port = 0) const { return ipv6(number_, port); }

    void send_mad(const wire::Path& path, std::uint32_t destination_qp,
                  std::span<const std::uint8_t, 256> mad) override;
    void deliver(FileNumber file, const Event& event) override { events.push_back({file, event}); }

    int find_local(const Endpoint& local, Route& route) override {
        EXPECT_FALSE(local.is_any());
        if (local.address == ipv4(0xc0a80000u | number_).address) return ENODEV;
        std::uint32_t device = device_of(local.address);
        if (device == kNoDevice) return EADDRNOTAVAIL;
        route = Route{};
        route.source_gid = local.address;
        route.device = device;
        route.interface_index = 10 + device;
        route.path_mtu = device == 2 ? 5 : 3;
        return 0;
    }

    int find_route(const Endpoint& source, const Endpoint& remote, Route& route,
                   Gid& source_address) override {
        if (route_error) return route_error;
        Gid from = source.address;
        if (source.is_any()) {
            if (remote.is_loopback())
                from = remote.address;
            else if (remote.family == AF_INET6)
                from = address6().address;
            else if ((remote.address.ipv4() >> 16) == 0x0a09)
                return ENETUNREACH;
            else
                from =
                    (remote.address.ipv4() >> 8) == 0x0a0001 ? second_address().address : address().address;
        }
        Endpoint local = source;
        local.address = from;
        if (int error = find_local(local, route)) return error;
        route.destination_gid = remote.address;
        source_address = from;
        return 0;
    }

    int resolve_neighbor(const Route& route, std::uint64_t token) override {
        if (route.destination_gid == ipv4(0x0a0000c8).address) return 0;  // never answers
        last_token = token;
        if (neighbor_later) return 0;
        manager_->neighbor_resolved(token, neighbor_error, now());
        return 0;
    }

    std::uint64_t node_guid(std::uint32_t device) override {
        return 0x505400fffe770000ull + number_ * 256u + device;
    }
    std::uint8_t max_rd_atomic(std::uint32_t) override { return kMaxRdAtomic; }
    std::uint32_t device_count() override { return 3; }
    std::uint32_t random() override {
        seed_ = seed_ * 1664525u + 1013904223u;
        return seed_ ^ seed_ >> 16;
    }
    std::pair<std::uint16_t, std::uint16_t> ephemeral_ports() override { return ports; }
    void quarantine_qp(std::uint32_t qp_number, Time until) override { quarantine[qp_number] = until; }

    bool owns(const Gid& gid) const { return device_of(gid) != kNoDevice; }
    Time now() const;

    // Takes the oldest event; fails the test if there is none.
    Event take(FileNumber file = kFile) {
        for (auto at = events.begin(); at != events.end(); ++at) {
            if (at->first != file) continue;
            Event event = at->second;
            events.erase(at);
            if (event.type == EventType::connect_request) manager_->request_taken(event.listen_id);
            return event;
        }
        ADD_FAILURE() << "no event";
        return {};
    }
    bool quiet() const { return events.empty(); }
    void forget_manager() { manager_ = std::make_unique<Manager>(*this); }  // the daemon died

    std::deque<std::pair<FileNumber, Event>> events;
    std::map<std::uint32_t, Time> quarantine;
    std::pair<std::uint16_t, std::uint16_t> ports{32768, 60999};
    int route_error = 0;
    int neighbor_error = 0;
    bool neighbor_later = false;
    std::uint64_t last_token = 0;

   private:
    std::uint32_t device_of(const Gid& gid) const {
        if (gid == address().address || gid == address6().address) return 0;
        if (gid == second_address().address) return 1;
        if (gid == loopback4().address || gid == loopback6().address) return 2;
        return kNoDevice;
    }

    Network& network_;
    std::uint8_t number_;
    std::uint32_t seed_ = 0x9e3779b9u * (number_ + 1u);
    std::unique_ptr<Manager> manager_;
};

struct Sent {
    Time time;
    std::uint8_t from;
    wire::Path path;
    Mad mad;

    wire::MadHeader header() const {
        wire::MadHeader header;
        wire::decode(
            std::span<const std::uint8_t, wire::kMadHeaderLength>(mad.data(), wire::kMadHeaderLength),
            header);
        return header;
    }
    wire::CmAttribute type() const { return header().attribute_id; }
    template <class Message>
    Message as() const {
        Message message;
        wire::decode(wire::CmConstBytes(mad.data() + wire::kMadHeaderLength, wire::kCmMessageLength),
                     message);
        return message;
    }
};

class Network {
   public:
    Host& add(std::uint8_t number) {
        hosts_.push_back(std::make_unique<Host>(*this, number));
        return *hosts_.back();
    }

    void send(Host& from, const wire::Path& path, std::span<const std::uint8_t, 256> bytes) {
        Sent sent{now, from.number(), path, {}};
        std::copy(bytes.begin(), bytes.end(), sent.mad.begin());
        log.push_back(sent);
        int copies = fate ? fate(sent) : 1;
        for (int i = 0; i < copies; i++) flying_.push_back({now + kLatency * (i + 1), &from, sent});
    }

    // Runs the world until `until`: packets and deadlines in the order of time.
    void run_to(Time until) {
        for (;;) {
            Time next = kNever;
            for (const Flying& packet : flying_) next = std::min(next, packet.arrival);
            for (const auto& host : hosts_) next = std::min(next, host->manager().next_deadline());
            if (next > until) break;
            ASSERT_GE(next, now) << "a deadline in the past";
            now = next;
            for (const auto& host : hosts_)
                if (host->manager().next_deadline() <= now) {
                    host->manager().advance(now);
                    ASSERT_GT(host->manager().next_deadline(), now) << "a busy deadline";
                }
            std::vector<Flying> arrived;
            for (auto packet = flying_.begin(); packet != flying_.end();) {
                bool due = packet->arrival <= now;
                if (due) arrived.push_back(*packet);
                packet = due ? flying_.erase(packet) : packet + 1;
            }
            for (const Flying& packet : arrived) arrive(packet);
        }
        now = until;
    }
    void run(Duration duration = kMillisecond) { run_to(now + duration); }

    // Hands a MAD to a host as if it had come from the network.
    void inject(Host& to, const wire::Path& sender_view, const Mad& mad) {
        to.manager().receive_mad(sender_view, wire::kQp1, std::span<const std::uint8_t, 256>(mad), now);
    }

    std::vector<Sent> sent(wire::CmAttribute type) const {
        std::vector<Sent> found;
        for (const Sent& one : log)
            if (one.type() == type) found.push_back(one);
        return found;
    }

    // "REQ REP RTU", in the order of sending.
    std::string conversation(std::size_t from = 0) const {
        std::string text;
        for (std::size_t i = from; i < log.size(); i++)
            text += (text.empty() ? "" : " ") + std::string(wire::to_string(log[i].type()));
        return text;
    }

    Time now = 1'000 * kSecond;
    std::deque<Sent> log;                  // references into it stay good
    std::function<int(const Sent&)> fate;  // how many copies arrive

   private:
    struct Flying {
        Time arrival;
        Host* from;
        Sent sent;
    };

    void arrive(const Flying& packet) {
        Host* to = nullptr;
        Endpoint destination;
        destination.address = packet.sent.path.destination;
        if (destination.is_loopback()) to = packet.from;
        for (const auto& host : hosts_)
            if (!to && host->owns(packet.sent.path.destination)) to = host.get();
        if (to) inject(*to, packet.sent.path, packet.sent.mad);
    }

    std::vector<std::unique_ptr<Host>> hosts_;
    std::vector<Flying> flying_;
};

inline void Host::send_mad(const wire::Path& path, std::uint32_t, std::span<const std::uint8_t, 256> mad) {
    network_.send(*this, path, mad);
}
inline Time Host::now() const { return network_.now; }

// Drops (0) or doubles (2) the n-th message of a type, counted from 0; everything else arrives.
inline std::function<int(const Sent&)> on_nth(wire::CmAttribute type, int n, int copies) {
    return [=, seen = 0](const Sent& sent) mutable {
        if (sent.type() != type) return 1;
        return seen++ == n ? copies : 1;
    };
}
inline std::function<int(const Sent&)> drop_all(wire::CmAttribute type) {
    return [=](const Sent& sent) { return sent.type() == type ? 0 : 1; };
}

inline ConnectParameters parameters(std::uint32_t qpn, std::string_view data = "") {
    ConnectParameters p;
    p.responder_resources = 1;
    p.initiator_depth = 1;
    p.retry_count = 7;
    p.rnr_retry_count = 7;
    p.qp_number = qpn;
    p.private_data_length = static_cast<std::uint8_t>(data.size());
    std::copy(data.begin(), data.end(), p.private_data.begin());
    return p;
}

inline std::string text_of(const ConnectParameters& p) {
    return std::string(reinterpret_cast<const char*>(p.private_data.data()));
}

// Two hosts, a client and a server program.
class Pair : public ::testing::Test {
   protected:
    IdNumber create(Host& host, PortSpace space = PortSpace::tcp, QpType type = QpType::rc,
                    FileNumber file = kFile) {
        IdNumber id = 0;
        EXPECT_EQ(host->create_id(file, space, type, 0x1000, id), 0);
        EXPECT_NE(id, 0u);
        return id;
    }
    IdNumber listener(Host& host, const Endpoint& local, PortSpace space = PortSpace::tcp, int backlog = 0) {
        IdNumber id = create(host, space);
        EXPECT_EQ(host->bind(id, local, false), 0);
        EXPECT_EQ(host->listen(id, backlog), 0);
        return id;
    }
    // An id with a route to `remote`.
    IdNumber routed(Host& host, const Endpoint& remote, PortSpace space = PortSpace::tcp,
                    FileNumber file = kFile) {
        IdNumber id = create(host, space, QpType::rc, file);
        EXPECT_EQ(host->resolve_address(id, nullptr, remote, kSecond, net.now), 0);
        EXPECT_EQ(host.take(file).type, EventType::addr_resolved);
        EXPECT_EQ(host->resolve_route(id, kSecond, net.now), 0);
        EXPECT_EQ(host.take(file).type, EventType::route_resolved);
        return id;
    }
    IdNumber connecting(Host& host, const Endpoint& remote, std::uint32_t qpn, std::string_view data = "") {
        IdNumber id = routed(host, remote);
        EXPECT_EQ(host->connect(id, parameters(qpn, data), net.now), 0);
        return id;
    }

    struct Connected {
        IdNumber listen = 0, active = 0, passive = 0;
    };
    // A connection from client to server, established on both sides.
    Connected establish(std::uint16_t port = 7471, std::uint32_t active_qpn = 0x11,
                        std::uint32_t passive_qpn = 0x21) {
        Connected c;
        c.listen = listener(server, any4(port));
        c.active = connecting(client, server.address(port), active_qpn);
        net.run();
        c.passive = server.take().id;
        EXPECT_EQ(accept(server, c.passive, passive_qpn), 0);
        net.run();
        EXPECT_EQ(client.take().type, EventType::connect_response);
        EXPECT_EQ(client->accept(c.active, nullptr, 0x1000, net.now), 0);
        net.run();
        EXPECT_EQ(server.take().type, EventType::established);
        EXPECT_TRUE(client.quiet());
        EXPECT_TRUE(server.quiet());
        return c;
    }
    int accept(Host& host, IdNumber id, std::uint32_t qpn, std::string_view data = "") {
        ConnectParameters p = parameters(qpn, data);
        return host->accept(id, &p, 0x2000, net.now);
    }
    std::uint64_t destroy(Host& host, IdNumber id) {
        std::uint64_t delivered = 0;
        EXPECT_EQ(host->destroy_id(id, delivered, net.now), 0);
        return delivered;
    }
    IdInfo query(Host& host, IdNumber id) {
        IdInfo info;
        EXPECT_EQ(host->query(id, info), 0);
        return info;
    }

    Network net;
    Host& client = net.add(3);
    Host& server = net.add(2);
};

}  // namespace verbena::cm::testing
