#include "host/connection.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "base/own_user.h"
#include "base/reason.h"
#include "base/thread_state.h"
#include "base/time.h"
#include "host/address_name.h"
#include "host/launch.h"
#include "host/unix_socket.h"

namespace verbena::host {
namespace {

constexpr Duration kPatience = 15 * kSecond;     // for a daemon to be there
constexpr Duration kLockPatience = 4 * kSecond;  // for another process that starts it
// For one that takes nobody. What has the service's name may be any user's, and all programs begin there.
constexpr Duration kServicePatience = 200 * kMillisecond, kBacklogPatience = 5 * kSecond;
constexpr Duration kRetryPause = 2 * kMillisecond;

Time now() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return Time{t.tv_sec} * kSecond + t.tv_nsec;
}

int milliseconds_until(Time deadline) {
    return static_cast<int>(std::max<Duration>(deadline - now(), 0) / kMillisecond);
}

void pause_briefly() {
    timespec t{0, kRetryPause};
    nanosleep(&t, nullptr);
}

ino_t inode_of(int fd) {
    struct stat status {};
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

iovec part(const void* bytes, std::size_t size) { return {const_cast<void*>(bytes), size}; }

template <class T>
std::span<std::uint8_t> bytes_of(T& object) {
    return {static_cast<std::uint8_t*>(static_cast<void*>(&object)), sizeof object};
}

RequestHeader header_of(Command command, std::span<const std::uint8_t> body) {
    RequestHeader header;
    header.command = command;
    header.length = static_cast<std::uint32_t>(body.size());
    return header;
}

// Behind what was put off, which stays if there was no memory. 0 or an errno.
int send_request(Connection& connection, const RequestHeader& header, std::span<const std::uint8_t> body,
                 int send_fd = -1) {
    const iovec out[] = {part(connection.along.data(), connection.along.size()), part(&header, sizeof header),
                         part(body.data(), body.size())};
    const int descriptors[] = {send_fd};
    const int error =
        send_datagram(connection.socket, out, std::span(descriptors).first(send_fd >= 0 ? 1 : 0));
    if (!is_want_of_memory(error)) connection.along.clear();
    return error;
}

int version_mismatch(unsigned theirs, pid_t daemon) {
    if (theirs > kProtocolVersion)
        return fail(
            EPROTO,
            "verbenad (pid %d) speaks protocol %u, this program's libraries speak %u: restart the program "
            "with the libraries that verbenad came with",
            daemon, theirs, kProtocolVersion);
    return fail(EPROTO,
                "verbenad (pid %d) speaks protocol %u, this program's libraries speak %u: the daemon is the "
                "older one; "
                "end its other programs (it leaves then) or kill it, and start again",
                daemon, theirs, kProtocolVersion);
}

int no_answer(const Connection& connection) {
    const auto seconds = static_cast<long long>(connection.patience / kSecond);
    if (is_stopped(connection.daemon))
        fail(ETIMEDOUT, "verbenad (pid %d) has not answered for %lld s: it is stopped (kill -CONT %d)",
             connection.daemon, seconds, connection.daemon);
    else
        fail(ETIMEDOUT, "verbenad (pid %d) has not answered for %lld s", connection.daemon, seconds);
    errno = ETIMEDOUT;
    return -1;
}

// Maps the device table read-only; closes `fd`.
int map_table(int fd, const DeviceTable*& table) {
    struct stat status {};
    void* address = MAP_FAILED;
    int error = EPROTO;
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(DeviceTable))) {
        address = mmap(nullptr, sizeof(DeviceTable), PROT_READ, MAP_SHARED, fd, 0);
        error = errno;
    }
    if (fd >= 0) close(fd);
    if (address == MAP_FAILED) return fail(error, "verbenad's device table cannot be mapped");
    table = static_cast<const DeviceTable*>(address);
    return 0;
}

// The hello. ESHUTDOWN: the daemon is leaving; ask again.
int greet(Connection& connection) {
    HelloRequest request;
    request.pid = static_cast<std::uint32_t>(getpid());
    if (const char* capture = secure_getenv("VERBENA_CAPTURE"); capture && *capture) {
        const std::string path = absolute_path(capture);
        if (path.size() < request.capture.size())
            std::memcpy(request.capture.data(), path.data(), path.size());
        else
            log(LogLevel::warn,
                "VERBENA_CAPTURE: no capture of the connection manager's packets, since %s is longer than "
                "%zu",
                path.c_str(), request.capture.size() - 1);
    }
    if (const char* plan = secure_getenv("VERBENA_FAULT"); plan && std::strlen(plan) < request.faults.size())
        std::memcpy(request.faults.data(), plan, std::strlen(plan));
    Exchange hello;
    hello.command = Command::hello;
    hello.request = bytes_of(request);
    hello.reply = bytes_of(connection.hello);
    int error = exchange(connection, hello);
    connection.lifeline = hello.received_fds[1];
    if (error == 0 && connection.lifeline < 0)
        error = fail(EPROTO, "verbenad's hello came without its files");
    if (error != 0) {
        if (hello.received_fds[0] >= 0) close(hello.received_fds[0]);
        // A daemon that left between our connect() and its answer looks like this, too.
        if (error < 0) return errno == EPROTO || errno == ETIMEDOUT ? errno : ESHUTDOWN;
        return error == ESHUTDOWN ? error : fail(error, "%s", hello.header.reason.data());
    }
    connection.hello.fabric.name.back() = connection.hello.fabric.note.back() = '\0';
    return map_table(hello.received_fds[0], connection.table);
}

// Tries one address. ECONNREFUSED: nobody is there; EAGAIN: somebody who takes no connection; ESHUTDOWN:
// leaving; else as open_connection.
int try_address(const std::string& name, bool service, Duration patience, Connection& out) {
    int fd = connect_to(name);
    if (fd == -ECONNREFUSED || fd == -EAGAIN) return -fd;
    if (fd < 0) return fail(-fd, "connecting to verbenad: %s", std::strerror(-fd));
    PeerProcess peer;
    int error = peer_of(fd, peer);
    const timeval timeout{patience / kSecond, patience % kSecond / kMicrosecond};
    for (const int either : {SO_SNDTIMEO, SO_RCVTIMEO})
        if (!error && setsockopt(fd, SOL_SOCKET, either, &timeout, sizeof timeout) != 0) error = errno;
    if (error) {
        close(fd);
        return fail(error, "connecting to verbenad: %s", std::strerror(error));
    }
    if (!(service ? peer.user == 0 : is_own_user(peer.user))) {
        close(fd);
        if (service) return ECONNREFUSED;
        if (peer.user == geteuid())
            return fail(
                EACCES,
                "the socket @%s belongs to user %u, as this program does, which here is everybody "
                "without a number (user_namespaces(7)); map the user, as unshare --map-root-user does",
                name.c_str(), peer.user);
        return fail(EACCES, "the socket @%s belongs to user %u (pid %d), not to this user", name.c_str(),
                    peer.user, peer.pid);
    }
    out = {};
    out.socket = fd;
    out.socket_inode = inode_of(fd);
    out.daemon = peer.pid;
    out.patience = patience;
    error = unless_out_of_memory([&out] { return greet(out); });
    if (error) {
        close_connection(out);
        if (out.lifeline >= 0) close(out.lifeline);
        out = {};
    }
    return error;
}

bool may_pass(int error) { return error == ECONNREFUSED || error == ESHUTDOWN || error == EAGAIN; }

// `crowded_since`: since when the service's name takes nobody; kNever, or what the call before left.
int try_daemons(const std::string& fabric, Time& crowded_since, Duration patience, Connection& out) {
    if (fabric == kDefaultFabric) {
        int error = try_address(service_address(), true, patience, out);
        if (error == EAGAIN) {
            if (crowded_since == kNever) crowded_since = now();
            if (now() - crowded_since > kServicePatience) {
                log(LogLevel::warn, "whoever has the name @%s takes no connections: it is passed over",
                    service_address().c_str());
                error = ECONNREFUSED;
            }
        }
        if (error != ECONNREFUSED) return error;
    }
    return try_address(daemon_address(geteuid(), fabric), false, patience, out);
}

}  // namespace

int open_connection(Connection& out, Duration patience) {
    std::string fabric;
    if (int error = fabric_of_environment(fabric)) return error;
    const Time begin = now();
    Time crowded_since = kNever;
    const std::string lock_name = start_lock_address(geteuid(), fabric);
    for (;;) {
        const Duration waited = now() - begin;
        int error = try_daemons(fabric, crowded_since, patience, out);
        if (!may_pass(error)) return error;
        if (error == EAGAIN && waited > kBacklogPatience)
            return fail(
                ETIMEDOUT,
                "whoever has the name @%s, which is verbenad's, takes no connections (\"ss -xlp\" shows "
                "who it is)",
                daemon_address(geteuid(), fabric).c_str());
        if (waited > kPatience) return fail(ETIMEDOUT, "verbenad does not come up; it was tried for 15 s");
        if (error == ECONNREFUSED) {
            const int lock = bind_name(lock_name, SOCK_DGRAM);
            if (lock < 0 && lock != -EADDRINUSE)
                return fail(-lock, "the name @%s: %s", lock_name.c_str(), std::strerror(-lock));
            // A holder that never finishes must not stop us; the daemons themselves agree on one of them.
            if (lock >= 0 || waited > kLockPatience) {
                // Whoever held the lock before us may have just succeeded.
                bool nobody = false;
                error = unless_out_of_memory([&] {
                    const int tried = try_daemons(fabric, crowded_since, patience, out);
                    nobody = tried == ECONNREFUSED;
                    return nobody ? launch_daemon(fabric) : tried;
                });
                if (lock >= 0) close(lock);
                if (nobody ? error != 0 : !may_pass(error)) return error;
                continue;
            }
        }
        pause_briefly();
    }
}

bool is_ours(const Connection& connection) {
    return connection.socket >= 0 && inode_of(connection.socket) == connection.socket_inode;
}

bool is_alive(const Connection& connection) {
    if (!is_ours(connection)) return false;
    pollfd entry{connection.lifeline, 0, 0};  // news may wait in it; only its end counts
    return poll(&entry, 1, 0) <= 0;           // an error says that the process may open no files at all
}

void close_connection(Connection& connection) {
    if (is_ours(connection)) close(connection.socket);
    connection.socket = -1;
}

int exchange(Connection& connection, Exchange& exchange) {
    RequestHeader request = header_of(exchange.command, exchange.request);
    if (++connection.sequence == 0) connection.sequence++;
    request.sequence = connection.sequence;
    const int unsent = send_request(connection, request, exchange.request, exchange.send_fd);
    if (unsent == EAGAIN) return no_answer(connection);
    // One that cannot serve us says so unasked and closes: sending fails then, or receiving does, once.
    bool reset = unsent == EPIPE || unsent == ECONNRESET;
    if (unsent && !reset) {
        errno = unsent;
        return -1;
    }
    const Time deadline = now() + connection.patience;
    for (;;) {
        const iovec in[] = {part(&exchange.header, sizeof exchange.header),
                            part(exchange.reply.data(), exchange.reply.size())};
        Received received;
        int error = receive_datagram(connection.socket, in, received, unsent ? MSG_DONTWAIT : 0);
        if (error == EAGAIN && unsent) error = unsent;
        if (error == ECONNRESET && !std::exchange(reset, true)) continue;
        if (error == EINTR) {  // the socket's time begins anew with each call
            error = wait_readable(connection.socket, milliseconds_until(deadline));
            if (error == 0) continue;
        }
        if (error == EAGAIN || error == ETIMEDOUT) return no_answer(connection);
        if (error) {
            errno = error;
            return -1;
        }
        constexpr std::size_t kCommonSize = offsetof(ReplyHeader, reserved);
        if (received.size >= kCommonSize && exchange.header.magic == kProtocolMagic &&
            exchange.header.version != kProtocolVersion) {
            received.close_all();
            if (exchange.header.error == ESHUTDOWN) return ESHUTDOWN;
            version_mismatch(exchange.header.version, connection.daemon);
            return -1;
        }
        bool whole = received.size == sizeof exchange.header + exchange.header.length &&
                     (!received.truncated || received.files_missing);
        bool fitting = exchange.header.length == (exchange.header.error ? 0 : exchange.reply.size());
        if (received.size < sizeof exchange.header || exchange.header.magic != kProtocolMagic || !whole ||
            !fitting) {
            received.close_all();
            if (received.size == 0)
                errno = ECONNRESET;
            else
                fail(EPROTO, "verbenad (pid %d) gave an answer of %zu bytes that is none", connection.daemon,
                     received.size);
            return -1;
        }
        const bool unasked = exchange.header.sequence == 0 && exchange.header.error != 0;
        if (exchange.header.sequence != request.sequence && !unasked) {  // of a call that was given up
            received.close_all();
            if (now() >= deadline) return no_answer(connection);
            continue;
        }
        // What is lent one can do without.
        if (received.files_missing && exchange.command != Command::lend_file) {
            received.close_all();
            exchange.header.error = EMFILE;
            std::snprintf(exchange.header.reason.data(), exchange.header.reason.size(),
                          "this process may not open the files that verbenad (pid %d) sent it (ulimit -n)",
                          connection.daemon);
        }
        exchange.header.reason.back() = '\0';
        exchange.received_fds[0] = received.take(0);
        exchange.received_fds[1] = received.take(1);
        received.close_all();
        return exchange.header.error;
    }
}

int ask(Connection& connection, Command command, std::span<const std::uint8_t> request,
        std::span<std::uint8_t> reply, int send_fd, int* descriptor) {
    Exchange asked;
    asked.command = command;
    asked.request = request;
    asked.reply = reply;
    asked.send_fd = send_fd;
    const int error = exchange(connection, asked);
    if (descriptor)
        *descriptor = asked.received_fds[0];
    else if (asked.received_fds[0] >= 0)
        close(asked.received_fds[0]);
    if (asked.received_fds[1] >= 0) close(asked.received_fds[1]);
    if (error > 0) return fail(error, "%s", asked.header.reason.data());
    return error < 0 ? fail(EIO, "verbenad (pid %d) is gone", connection.daemon) : 0;
}

bool send_along(Connection& connection) {
    const iovec out[] = {part(connection.along.data(), connection.along.size())};
    const int error = send_datagram(connection.socket, out, {});
    if (is_want_of_memory(error)) return true;
    connection.along.clear();
    return error == 0;
}

bool send_only(Connection& connection, Command command, std::span<const std::uint8_t> request) {
    return send_request(connection, header_of(command, request), request) == 0;
}

bool add_along(Connection& connection, Command command, std::span<const std::uint8_t> request) {
    RequestHeader header = header_of(command, request);
    if (connection.along.size() + sizeof header + request.size() > kMostAlong)
        return is_ours(connection) && send_only(connection, command, request);
    connection.along.reserve(kMostAlong);  // all of it, or nothing
    for (const std::span<const std::uint8_t> bytes :
         {std::span<const std::uint8_t>(bytes_of(header)), request})
        connection.along.insert(connection.along.end(), bytes.begin(), bytes.end());
    return true;
}

}  // namespace verbena::host
