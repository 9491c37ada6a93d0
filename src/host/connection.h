// One connection to a daemon: finding it or starting it, the hello, and calls over it.
//
// Not thread-safe; client.cpp holds a lock.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "host/device_table.h"
#include "host/protocol.h"

namespace verbena::host {

// How long answers are waited for: a program's daemon may stand still for a while, as an adapter's may; who
// only looks wants to be told.
inline constexpr Duration kProgramsPatience = 30 * kSecond, kLookersPatience = 5 * kSecond;

struct Connection {
    int socket = -1;
    ino_t socket_inode = 0;  // a program that closes descriptors it does not know may reuse the number
    int lifeline = -1;
    const DeviceTable* table = nullptr;  // stays mapped for ever: somebody may be reading it
    pid_t daemon = 0;
    Duration patience = kProgramsPatience;
    std::uint32_t sequence = 0;
    std::vector<std::uint8_t> along;  // requests that were put off until the next one leaves
    HelloReply hello;
};

// Connects to the daemon of this user and fabric, after starting it if need be. Each answer is waited for as
// long as `patience`. 0 or an errno with a reason.
int open_connection(Connection& out, Duration patience = kProgramsPatience);

// False if the program closed our socket.
bool is_ours(const Connection& connection);
// Is ours, and the daemon is there.
bool is_alive(const Connection& connection);

// Closes the socket if it is still ours. The lifeline stays open, so that its number cannot come to mean
// another file while somebody waits on it.
void close_connection(Connection& connection);

// One request, and its reply if `reply` is not null. Answers what the daemon answered (0 or an errno;
// `*reason` then says why and lives in `header`), or -1 if the conversation broke.
struct Exchange {
    Command command{};
    std::span<const std::uint8_t> request;
    std::span<std::uint8_t> reply;
    int send_fd = -1;
    int received_fds[2] = {-1, -1};  // the caller's to close
    ReplyHeader header;
};
int exchange(Connection& connection, Exchange& exchange);
// 0 or an errno with a reason. `send_fd` goes along (-1: none); `*descriptor` gets what came along (-1:
// none).
int ask(Connection& connection, Command command, std::span<const std::uint8_t> request,
        std::span<std::uint8_t> reply, int send_fd, int* descriptor);
template <class Request, class Reply>
int ask(Connection& connection, Command command, const Request& request, Reply& reply, int send_fd = -1,
        int* descriptor = nullptr) {
    return ask(connection, command,
               {static_cast<const std::uint8_t*>(static_cast<const void*>(&request)), sizeof request},
               {static_cast<std::uint8_t*>(static_cast<void*>(&reply)), sizeof reply}, send_fd, descriptor);
}

// The kernel's, for a datagram: the conversation goes on.
inline bool is_want_of_memory(int error) { return error == ENOMEM || error == ENOBUFS; }

// Leaves in front of the next request, in one datagram with it. False if the conversation broke.
bool add_along(Connection& connection, Command command, std::span<const std::uint8_t> request);

// What was left there leaves by itself; without memory it stays. False if the conversation broke.
bool send_along(Connection& connection);

// Without reply. False if the conversation broke.
bool send_only(Connection& connection, Command command, std::span<const std::uint8_t> request);

}  // namespace verbena::host
