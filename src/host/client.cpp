#include "host/client.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/own_pid.h"
#include "base/reason.h"
#include "base/standard_error.h"
#include "host/connection.h"

namespace verbena::host {
namespace {

// What one process (by pid) knows. A forked child makes its own and leaves the parent's alone: the inherited
// mutex may be locked for ever.
struct State {
    pid_t pid = 0;
    bool inherited = false;  // the parent talked to a daemon
    std::atomic<std::uint32_t> generation{1};
    std::atomic<bool> puts_off{false};  // something waits to go along; asked while others wait for answers
    std::mutex mutex;                   // guards everything below, and the writing of `puts_off`
    bool connected = false;
    bool lost = false;  // a daemon that it talked to has died
    bool announced = false;
    Connection connection;
};

std::atomic<State*> current_state{nullptr};

State& state() {
    State* known = current_state.load(std::memory_order_acquire);
    const pid_t pid = own_pid();
    while (!known || known->pid != pid) {
        auto* fresh = new State;
        fresh->pid = pid;
        if (known) {
            fresh->inherited = known->inherited || known->connected || known->lost;
            fresh->generation = known->generation + 1;
        }
        State* expected = known;
        if (current_state.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) {
            // The parent's connection is the parent's; our copy of the socket would only outlive it.
            if (known && known->connected) close_connection(known->connection);
            return *fresh;
        }
        delete fresh;
        known = expected;
    }
    return *known;
}

// The commands that need nothing from before, and so may open a connection after a daemon's death or a fork.
bool starts_anew(Command command) {
    return command == Command::hello || command == Command::open_queue || command == Command::create_file ||
           (command >= Command::status && command <= Command::capture);
}

void lose(State& s) {
    close_connection(s.connection);
    s.connected = false;
    s.lost = true;
    s.generation++;
}

int refuse(const State& s) {
    if (s.lost)
        return fail(EIO, "verbenad (pid %d) is gone, and with it what it knew of this object",
                    s.connection.daemon);
    return fail(EIO, "the object was made before fork() and belongs to the parent process");
}

int ensure_connection(State& s, Command command) {
    // Only what may go to another daemon needs to know beforehand; the others' requests fail.
    if (s.connected && !(starts_anew(command) ? is_alive(s.connection) : is_ours(s.connection))) lose(s);
    if (s.connected) return 0;
    if ((s.lost || s.inherited) && !starts_anew(command)) return refuse(s);
    if (int error = open_connection(s.connection)) return error;
    s.connected = true;
    return 0;
}

// The one line for a program that opens a device that has no wire, without having asked for that.
void announce_fabric(State& s) {
    const FabricInfo& fabric = s.connection.hello.fabric;
    if (s.announced || fabric.wire_available || fabric.chosen) return;
    s.announced = true;
    tell_user("verbena: " + std::string(fabric.note.data()) + "\n");
}

// `work(state)` under its lock. An errno value, or a pointer.
template <class Work>
auto conversing(Work work) -> decltype(work(state())) {
    NoCancellation no_cancellation;  // or the reply would be there for the next call
    return unless_out_of_memory([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        const auto result = work(s);
        s.puts_off.store(s.connected && !s.connection.along.empty(), std::memory_order_relaxed);
        return result;
    });
}

// What `send` gives to the daemon; false: the conversation broke.
template <class Send>
int without_answer(Send send) {
    return conversing([&](State& s) {
        if (s.connected && !send(s.connection)) lose(s);
        return s.connected ? 0 : refuse(s);
    });
}

// `asked`: what the answer, and what comes with it, is put into.
int converse(State& s, const Exchange& asked, int* received_fd) {
    for (bool again = false;; again = true) {
        if (int error = ensure_connection(s, asked.command)) return error;
        Exchange exchange = asked;
        int error = host::exchange(s.connection, exchange);
        if (error < 0) {
            const int why = errno;
            if (is_want_of_memory(why)) return fail(why, "no memory for a word to verbenad");
            lose(s);
            if (why == EPROTO || why == ETIMEDOUT) return errno = EIO;
            // One that is just dying may look alive until then; what needs nothing of it asks the next one.
            if ((why == ECONNRESET || why == EPIPE) && starts_anew(asked.command) && !again) continue;
            return fail(EIO, "verbenad (pid %d) is gone: it died or closed the connection",
                        s.connection.daemon);
        }
        if (exchange.received_fds[1] >= 0) close(exchange.received_fds[1]);
        if (error == 0 && received_fd)
            *received_fd = exchange.received_fds[0];
        else if (exchange.received_fds[0] >= 0)
            close(exchange.received_fds[0]);
        if (error) return fail(error, "%s", exchange.header.reason.data());
        if (asked.command == Command::open_queue) announce_fabric(s);
        return 0;
    }
}

}  // namespace

int call(Command command, std::span<const std::uint8_t> request, std::span<std::uint8_t> reply, int send_fd,
         int* received_fd) {
    if (received_fd) *received_fd = -1;
    Exchange asked;
    asked.command = command;
    asked.request = request;
    asked.reply = reply;
    asked.send_fd = send_fd;
    return conversing([&](State& s) { return converse(s, asked, received_fd); });
}

int tell(Command command, std::span<const std::uint8_t> request) {
    return without_answer([&](Connection& to) { return is_ours(to) && send_only(to, command, request); });
}

int put_off(Command command, std::span<const std::uint8_t> request) {
    return without_answer([&](Connection& to) { return add_along(to, command, request); });
}

bool has_put_off() { return state().puts_off.load(std::memory_order_relaxed); }

void tell_put_off() {
    without_answer([](Connection& to) { return to.along.empty() || (is_ours(to) && send_along(to)); });
}

const DeviceTable* devices() {
    return conversing([](State& s) -> const DeviceTable* {
        if (int error = ensure_connection(s, Command::hello)) {
            errno = error;
            return nullptr;
        }
        return s.connection.table;
    });
}

bool is_own(const Gid& address) {
    const DeviceTable* const table = devices();
    std::uint32_t index;
    return table && find_address(*table, address, index);
}

FabricInfo fabric() {
    State& s = state();
    std::lock_guard lock(s.mutex);
    return s.connected ? s.connection.hello.fabric : FabricInfo{};
}

std::uint32_t generation() { return state().generation; }

int lifeline_fd() {
    State& s = state();
    std::lock_guard lock(s.mutex);
    return s.connected || s.lost ? s.connection.lifeline : -1;
}

bool take_news(int lifeline) {
    char news[64];
    for (;;) {
        const ssize_t size = read(lifeline, news, sizeof news);
        if (size == 0) return false;
        if (size < 0 && errno != EINTR) return errno == EAGAIN;
    }
}

}  // namespace verbena::host
