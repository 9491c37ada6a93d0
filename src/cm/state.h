// The insides of Manager: all ids, the port table, and what connects them to the protocol below. One struct,
// whose members are spread over files by concern:
//
//   manager.cpp    construction, files, packets and time
//   id.cpp         life and death of an id, query, migrate, device removal
//   address.cpp    bind, resolve_address, resolve_route
//   listen.cpp     listen, and requests that find a listener or do not
//   connect.cpp    connect, accept, reject, disconnect, and what the peers answer
//   qp.cpp         init_qp_attributes
//   options.cpp    set_option
//   multicast.cpp  join, leave
#pragma once

#include <map>

#include "cm/connections.h"
#include "cm/held_requests.h"
#include "cm/id.h"
#include "cm/manager.h"
#include "cm/ports.h"
#include "cm/sidr.h"
#include "cm/timers.h"

namespace verbena::cm {

struct Manager::State final : ConnectionUser, SidrUser {
    explicit State(Environment& world)
        : environment(world), connections(world, *this), sidr(world, *this, connections) {}

    // id.cpp. find: ENOENT, or EIO for an id whose device is gone.
    int find(IdNumber number, Id*& id);
    Id* find(IdNumber number);
    IdNumber new_numbers(std::uint32_t count);  // the first of them, in a row
    Id& add(IdNumber number, FileNumber file, PortSpace port_space, QpType qp_type,
            std::uint64_t user_handle);
    void deliver(Id& id, const Event& event);
    void deliver(Id& id, EventType type, int status);
    IdInfo info(const Id& id) const;
    void describe(Id& id, Event& event);
    int wrong_state(const Id& id, const char* wanted);
    void end_conversation(Id& id, Time now);
    void destroy(Id& id, Time now);
    void remove_device(Id& id, Time now);
    bool has_device(const Id& id) const { return id.route.device != kNoDevice; }

    // address.cpp
    int bind(Id& id, const Endpoint& local, bool privileged);
    int bind_port(Id& id, bool privileged);
    int lend_port(IdNumber holder, std::uint16_t& port);
    int resolve_address(Id& id, const Endpoint* source, const Endpoint& remote, Duration timeout,
                        bool privileged, Time now);
    void set_local_address(Id& id, const Gid& address);
    void end_query(Id& id);
    void address_resolved(Id& id, int error);
    int resolve_route(Id& id, bool told);
    void fill_route(Id& id);
    void settle_route(Id& id);

    // listen.cpp
    int listen(Id& id, int backlog);
    Id* find_listener(PortSpace space, std::uint16_t port, const Endpoint& destination);
    Id* new_child(Id& listener, const Endpoint& source, const Endpoint& destination, const Route& route);
    void announce(Id& listener, Id& child, const ConnectParameters& parameters);
    void request_taken(Id& listener);
    void learn_taken(Id& listener);
    bool has_room(Id& listener);
    struct Target {
        Id* listener = nullptr;
        Endpoint source, destination;
        Route route;
        bool malformed = false;  // the CMA header is none
        bool no_such_gid = false;
    };
    Target who_is_meant(std::uint64_t service_id, std::span<const std::uint8_t> private_data,
                        const wire::Path& sender_view);
    Target find_target(std::uint64_t service_id, std::span<const std::uint8_t> private_data,
                       const wire::Path& sender_view, const Gid& our_gid, const Gid& peer_gid);
    ConnectionUser::Verdict connection_requested(Connection& connection, const wire::Req& req,
                                                 std::uint32_t attribute_modifier,
                                                 const wire::Path& sender_view,
                                                 wire::RejReason& reason) override;
    SidrUser::Verdict service_requested(std::uint32_t request, const wire::SidrReq& req,
                                        const wire::Path& sender_view, wire::SidrStatus& status) override;

    // connect.cpp
    int connect(Id& id, ConnectParameters parameters, Time now);
    int connect_datagram(Id& id, const ConnectParameters& parameters, Time now);
    int accept(Id& id, const ConnectParameters* parameters, Time now);
    int refuse_reply(Id& id, int error, Time now);
    int accept_datagram(Id& id, const ConnectParameters* parameters, Time now);
    int reject(Id& id, std::span<const std::uint8_t> private_data, std::uint8_t reason, Time now);
    int disconnect(Id& id, Time now);
    int notify(Id& id, int event);
    int check_depths(const Id& id, ConnectParameters& parameters, const ConnectParameters* offered);
    void connection_changed(const Connection& connection, const ConnectionEvent& event) override;
    void note_near_misses(const Id& id, Event& event) const;
    void service_resolved(IdNumber owner, const ConnectionEvent& event) override;

    // manager.cpp
    void remove(Id& id, Time now, bool for_good);  // for good: its program has ended
    bool has_listener(std::uint64_t service_id) const;
    bool is_bound(std::uint64_t service_id) const;
    bool serve_held(Id& listener);
    void receive(const wire::MadHeader& header, const wire::Path& sender_view, std::uint32_t source_qp,
                 std::span<const std::uint8_t, 256> mad, Time now);
    bool hold_back(const wire::MadHeader& header, const wire::Path& sender_view, std::uint32_t source_qp,
                   std::span<const std::uint8_t, 256> mad, Time now);
    void withdraw_held(const wire::MadHeader& header, std::span<const std::uint8_t, 256> mad);
    void receive_late(const HeldRequests::Request& request, Time now);

    // qp.cpp, options.cpp, multicast.cpp
    int init_qp_attributes(Id& id, std::uint8_t qp_state, QpTransition& transition);
    int set_option(Id& id, int level, int option, std::span<const std::uint8_t> value);
    int set_path(Id& id, std::span<const std::uint8_t> value);
    int join_multicast(Id& id, const Endpoint& group, std::uint16_t join_flags, std::uint64_t handle);
    int leave_multicast(Id& id, const Endpoint& group, std::uint64_t& events_delivered);

    Environment& environment;
    Connections connections;
    Sidr sidr;
    Ports ports;
    std::uint32_t ports_lent = 0;
    HeldRequests held;
    std::map<IdNumber, Id> ids;
    Timers queries;  // of neighbours, by id
    IdNumber last_number = 0;
    std::uint32_t last_token = 0;
    std::map<IdNumber, Id*> listeners;  // of `ids`, those that listen
};

}  // namespace verbena::cm
