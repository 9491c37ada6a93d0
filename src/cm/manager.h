// The connection manager: ids, port spaces, the CM protocol on QP1, timewait; what the kernel's rdma_ucm,
// rdma_cm and ib_cm are together. It does no I/O and reads no clock: `Environment` is everything that it asks
// of the world, and time is an argument. verbenad gives it sockets and netlink; the simulator gives it a
// network that loses packets.
//
// Every call answers 0 or a positive errno, with the reason recorded by base/reason.h. Not thread-safe, and
// no function of the environment may call back into the manager but resolve_neighbor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/time.h"
#include "cm/summary.h"
#include "cm/types.h"
#include "wire/path.h"

namespace verbena::cm {

class Environment {
   public:
    virtual ~Environment() = default;

    // Sends one MAD from our QP1 to the peer's (destination_qp is 1 but for redirected peers).
    virtual void send_mad(const wire::Path& path, std::uint32_t destination_qp,
                          std::span<const std::uint8_t, 256> mad) = 0;

    // Queues an event on a file. destroy_id and migrate tell how many an id ever had; a connect_request
    // counts for its listener, whose program reads and acknowledges it.
    virtual void deliver(FileNumber file, const Event& event) = 0;

    // The route that binding to `local` fixes. ENODEV: an address of this host without a device;
    // EADDRNOTAVAIL: not an address of this host. Never called with "any".
    virtual int find_local(const Endpoint& local, Route& route) = 0;

    // Looks the way to `remote` up (source may be "any"); fills the route and the source address.
    // ENETUNREACH, EHOSTUNREACH, ENODEV, EADDRNOTAVAIL.
    virtual int find_route(const Endpoint& source, const Endpoint& remote, Route& route,
                           Gid& source_address) = 0;

    // Starts neighbour resolution for a route; the answer comes by Manager::neighbor_resolved(token, error),
    // which may be called from inside. 0 or an errno if it cannot even be asked.
    virtual int resolve_neighbor(const Route& route, std::uint64_t token) = 0;

    virtual std::uint64_t node_guid(std::uint32_t device) = 0;     // network byte order
    virtual std::uint8_t max_rd_atomic(std::uint32_t device) = 0;  // the device's limit, both directions
    virtual std::uint32_t device_count() = 0;

    virtual std::uint32_t random() = 0;

    // net.ipv4.ip_local_port_range.
    virtual std::pair<std::uint16_t, std::uint16_t> ephemeral_ports() = 0;

    // A QP number of a closed connection may not be used again until `until` (timewait).
    virtual void quarantine_qp(std::uint32_t qp_number, Time until) = 0;
};

// How a listener's program says which of its requests it has read, without a message for each.
class TakenRequests {
   public:
    virtual ~TakenRequests() = default;
    virtual std::uint32_t news() = 0;  // how many it has read since the last call
    // Nothing is left of the backlog: from now on request_taken() is called when one was read. What was read
    // before this call is among the news.
    virtual void tell_each() = 0;
};

class Manager {
   public:
    explicit Manager(Environment& environment);
    ~Manager();

    // --- what programs ask for (ucma's commands). `privileged`: may bind ports below 1024.
    int create_id(FileNumber file, PortSpace port_space, QpType qp_type, std::uint64_t user_handle,
                  IdNumber& id);
    // Numbers in a row, of which this is the first, that ids get by the next call only. EEXIST: one has it.
    IdNumber reserve_ids(std::uint32_t count);
    int create_id_as(IdNumber id, FileNumber file, PortSpace port_space, QpType qp_type,
                     std::uint64_t user_handle);
    int destroy_id(IdNumber id, std::uint64_t& events_delivered, Time now);
    int bind(IdNumber id, const Endpoint& local, bool privileged);
    // Without `taken` request_taken() is called for each request that was read.
    int listen(IdNumber id, int backlog, std::unique_ptr<TakenRequests> taken = nullptr);
    // A route that is missing is an error here; what comes to light later, and a route without a device, is
    // an event. `timeout` < 0: as long as it takes. `told`: its program has told itself what the event would
    // say, from what it was told of that address before.
    int resolve_address(IdNumber id, const Endpoint* source, const Endpoint& remote, Duration timeout,
                        Time now, bool privileged = false, bool told = false);
    // `told`: its program knows all that the event would say from addr_resolved, and has told itself.
    int resolve_route(IdNumber id, Duration timeout, Time now, bool told = false);
    // A port of PortSpace::tcp that nobody else can have until the loan ends, whatever the address. `holder`
    // is a number that no id gets (reserve_ids). EADDRNOTAVAIL: there is none to spare.
    int lend_port(IdNumber holder, std::uint16_t& port);
    void end_loan(IdNumber holder, std::uint16_t port);
    // The event channel's file that the id's events go to; 0: there is no such id.
    FileNumber file(IdNumber id) const;
    int query(IdNumber id, IdInfo& info);
    int connect(IdNumber id, const ConnectParameters& parameters, Time now);
    // Passive side: sends REP or SIDR_REP. Active side with parameters == nullptr: RTU. Also sets the id's
    // user handle.
    int accept(IdNumber id, const ConnectParameters* parameters, std::uint64_t user_handle, Time now);
    int reject(IdNumber id, std::span<const std::uint8_t> private_data, std::uint8_t reason, Time now);
    int disconnect(IdNumber id, Time now);
    int init_qp_attributes(IdNumber id, std::uint8_t qp_state, QpTransition& transition);
    int set_option(IdNumber id, int level, int option, std::span<const std::uint8_t> value);
    int notify(IdNumber id, int event);  // IBV_EVENT_COMM_EST
    // Moves the id to another file. Events that the old file's reader has not taken yet are the caller's to
    // move.
    int migrate(IdNumber id, FileNumber file, std::uint64_t& events_delivered);
    int write_event(IdNumber id, EventType type, int status, std::uint64_t argument);
    // A call whose answer nobody waits for was refused, for the reason recorded last: an event of that kind
    // says so, or that the device is gone. Of a child that was to be accepted it reaches the program, too.
    void refuse(IdNumber id, EventType as, int error);
    void refuse_accept(IdNumber id, int error, std::uint64_t user_handle);
    int join_multicast(IdNumber id, const Endpoint& group, std::uint16_t join_flags, std::uint64_t handle,
                       Time now);
    int leave_multicast(IdNumber id, const Endpoint& group, std::uint64_t& events_delivered);
    // The reader took a connect_request from its file: one place of the listener's backlog is free again. Or,
    // of a listener that has `taken`: some may have been.
    void request_taken(IdNumber listen_id);

    // A file is gone with all its ids (the channel was closed, or the process died): DREQ, REJ, ports freed.
    void close_file(FileNumber file, Time now);

    // --- what the world tells
    void receive_mad(const wire::Path& sender_view, std::uint32_t source_qp,
                     std::span<const std::uint8_t, 256> mad, Time now);
    void neighbor_resolved(std::uint64_t token, int error, Time now);
    bool awaits_neighbor(std::uint64_t token) const;  // whether that would mean anything
    // The first data packet of a connection arrived before the RTU.
    void communication_established(std::uint32_t local_qp_number, Time now);
    void device_removed(std::uint32_t device, Time now);
    // Of the device's network interface. Its ids hear of it (ADDR_CHANGE); nothing else happens to them.
    void hardware_address_changed(std::uint32_t device);

    // --- time
    Time next_deadline() const;  // kNever if nothing is waited for
    void advance(Time now);      // retransmissions, timeouts, timewait

    struct Counts {
        std::size_t ids, connections, listeners, timewait;
    };
    Counts counts() const;
    // The id with the next higher number; false if there is none. 0 finds the first one.
    bool next_id(IdNumber after, IdSummary& out) const;

   private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace verbena::cm
