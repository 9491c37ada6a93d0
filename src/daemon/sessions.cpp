#include "daemon/sessions.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/own_user.h"
#include "base/reason.h"
#include "daemon/proc.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace verbena::daemon {
namespace {

constexpr const char* kNoReader = "it does not read its replies";

bool lacks_descriptors(int error) { return error == EMFILE || error == ENFILE; }

// Whose limit it is: the program that hears it has one of its own.
std::string no_descriptors(int error) {
    char text[200];
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (error == ENFILE)
        std::snprintf(text, sizeof text, "verbenad (pid %d): %s", getpid(), std::strerror(error));
    else
        std::snprintf(text, sizeof text,
                      "verbenad (pid %d) may open no more than %llu files (ulimit -Hn of the program that "
                      "started it)",
                      getpid(), static_cast<unsigned long long>(limit.rlim_cur));
    return text;
}

// The others' programs go on.
int no_memory() {
    return fail(ENOMEM,
                "verbenad (pid %d) has no memory for that (ulimit -v and -d of the program that started it)",
                getpid());
}

bool send_reply(int socket, const host::ReplyHeader& header, std::span<const std::uint8_t> body,
                std::span<const int> descriptors) {
    const iovec parts[] = {{const_cast<host::ReplyHeader*>(&header), sizeof header},
                           {const_cast<std::uint8_t*>(body.data()), body.size()}};
    const int result = host::send_datagram(socket, parts, descriptors, MSG_DONTWAIT);
    return result == 0 || result == EPIPE || result == ECONNRESET;  // the loop tells of its end
}

host::ReplyHeader refusal(std::uint32_t sequence, int error, std::string_view reason) {
    host::ReplyHeader header;
    header.sequence = sequence;
    header.error = error;
    reason.copy(header.reason.data(), header.reason.size() - 1);
    return header;
}

// Whether that one could be followed by what serving a program takes: how it is watched and told of news, its
// tables, a queue, and the files that are looked into for it. Else errno says why.
bool has_room_beside(const Descriptor& one) {
    std::array<Descriptor, 6> others;
    return std::ranges::all_of(others, [&](Descriptor& each) {
        each.reset(fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
        return bool(each);
    });
}

// To a program that is not let in, whatever it asks.
void tell_why(const Descriptor& newcomer, int error) {
    const std::string reason = no_descriptors(error);
    log(LogLevel::error, "a program cannot connect: %s", reason.c_str());
    send_reply(newcomer.get(), refusal(0, error, reason), {}, {});
}

Descriptor open_process(int socket, pid_t pid) {
    int fd = -1;
    socklen_t size = sizeof fd;
    // The process that connected, even if its number means another one by now.
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return Descriptor(fd);
    if (pid <= 0) return Descriptor();
    return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

Sessions::~Sessions() { stop_listening(); }

int Sessions::serve(Descriptor listener) {
    listener_ = std::move(listener);
    reserve_.reset(eventfd(0, EFD_CLOEXEC));
    if (!reserve_ || !has_room_beside(reserve_)) return errno;
    return loop_.add(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_one(); });
}

void Sessions::stop_listening() {
    if (!listener_) return;
    loop_.remove(listener_.get());
    listener_.reset();
}

bool Sessions::accept_waiting() {
    bool any = false;
    while (accept_one()) any = true;
    return any;
}

void Sessions::tell_news() {
    // A pipe that is full has news enough.
    for (auto& [number, session] : sessions_) {
        if (!session.lifeline) continue;
        [[maybe_unused]] auto written = write(session.lifeline.get(), "", 1);
    }
}

// True if somebody was waiting, let in or not.
bool Sessions::accept_one() {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
        if (lacks_descriptors(errno)) refuse_newcomer(errno);
        return false;
    }
    if (!has_room_beside(socket)) {
        tell_why(socket, errno);
        return true;
    }
    PeerProcess peer;
    if (peer_of(socket.get(), peer) != 0) return true;
    if (!all_users_ && !is_own_user(peer.user)) {
        log(LogLevel::warn, "pid %d of user %u is refused: this daemon serves user %u", peer.pid, peer.user,
            geteuid());
        return true;
    }
    const SessionNumber number = next_number_++;
    Session& session = sessions_[number];
    session.number = number;
    session.pid = peer.pid;
    session.user = peer.user;
    session.low_ports = peer.pid > 0 ? may_bind_low_ports(peer.pid) : peer.user == 0;
    session.process = open_process(socket.get(), peer.pid);
    session.socket = std::move(socket);
    int error = loop_.add(session.socket.get(), EPOLLIN | EPOLLRDHUP,
                          // Whether there are more the loop tells, which asks anyhow.
                          [this, number](std::uint32_t) { take_datagrams(number); });
    if (!error && session.process)
        error = loop_.add(session.process.get(), EPOLLIN, [this, number](std::uint32_t) {
            hear_out(number);
            end(number, "it died");
        });
    if (error) end(number, std::strerror(error));
    log(LogLevel::info, "pid %d connected", peer.pid);
    return true;
}

// It would stay at the head of the queue and wake us for ever: it is taken, told and dropped.
void Sessions::refuse_newcomer(int error) {
    reserve_.reset();
    if (const Descriptor refused(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); refused)
        tell_why(refused, error);
    reserve_.reset(eventfd(0, EFD_CLOEXEC));
}

void Sessions::end(SessionNumber number, const char* why) {
    auto found = sessions_.find(number);
    if (found == sessions_.end()) return;
    Session& session = found->second;
    // Where memory is too short for its end, the loop tells of that until it is done.
    shutdown(session.socket.get(), SHUT_RDWR);
    handler_.ended(session);
    log(LogLevel::info, "pid %d is gone: %s", session.pid, why);
    loop_.remove(session.socket.get());
    if (session.process) loop_.remove(session.process.get());
    sessions_.erase(found);
}

void Sessions::hear_out(SessionNumber number) {
    while (take_datagrams(number)) {
    }
}

// As many as one call brings. False if there was none, or the session has ended.
bool Sessions::take_datagrams(SessionNumber number) {
    auto found = sessions_.find(number);
    if (found == sessions_.end()) return false;
    Session& session = found->second;
    const int error = inbox_.receive(session.socket.get());
    if (error == EAGAIN || error == EWOULDBLOCK) return false;
    if (error) {
        end(number, std::strerror(error));
        return false;
    }
    bool open = true;
    for (std::size_t i = 0; i < inbox_.count(); i++) {
        open = open && take_datagram(session, inbox_.bytes(i), inbox_.received(i));
        inbox_.received(i).close_all();
    }
    return open;
}

// False if the session has ended.
bool Sessions::take_datagram(Session& session, std::span<const std::uint8_t> rest, host::Received& received) {
    const SessionNumber number = session.number;
    if (received.size == 0 && !received.truncated) {
        end(number, "it closed the connection");
        return false;
    }
    // A file went along for which this process has no number.
    const bool lost = received.files_missing && received.descriptor_count == 0;
    Malformed malformed = received.truncated && !lost ? Malformed::length : Malformed::none;
    while (malformed == Malformed::none && !rest.empty() && sessions_.contains(number)) {
        Request request;
        host::Received nothing;
        malformed = take_request(rest, lost ? 1 : received.descriptor_count, request);
        if (malformed == Malformed::version)
            refuse(session, request.header, EPROTO,
                   "verbenad (pid " + std::to_string(getpid()) + ") speaks protocol " +
                       std::to_string(host::kProtocolVersion) + ", the program's libraries " +
                       std::to_string(request.header.version));
        else if (malformed == Malformed::none)
            answer(session, request, rest.empty() ? received : nothing);
    }
    if (!sessions_.contains(number)) return false;
    if (malformed == Malformed::none) return true;
    log(LogLevel::warn, "pid %d sent a request %s; it is disconnected", session.pid, to_string(malformed));
    end(number, "malformed request");
    return false;
}

void Sessions::refuse(Session& session, const host::RequestHeader& request, int error,
                      std::string_view reason) {
    const host::ReplyHeader header = refusal(request.sequence, error, reason);
    if (!send_reply(session.socket.get(), header, {}, {})) end(session.number, kNoReader);
}

void Sessions::answer(Session& session, const Request& request, host::Received& received) {
    std::array<std::uint8_t, kMaxReplySize> body;
    std::vector<int> descriptors;
    const auto reply_body = std::span(body).first(request.info->reply_size);
    std::ranges::fill(reply_body, std::uint8_t{0});
    Call call(request.info->name, "pid", static_cast<unsigned long long>(session.pid));
    int error;
    try {
        error = received.files_missing
                    ? fail(EMFILE, "%s", no_descriptors(EMFILE).c_str())
                    : handler_.request(session, request, received, reply_body, descriptors);
    } catch (const std::bad_alloc&) {
        error = no_memory();
    }
    if (request.header.sequence == 0) return;  // nobody waits; fail() has logged why it was refused
    if (error && lacks_descriptors(error))
        return refuse(session, request.header, error, no_descriptors(error));
    if (error)
        return refuse(session, request.header, error, last_reason());  // which may be that memory is short
    host::ReplyHeader header;
    header.sequence = request.header.sequence;
    header.length = static_cast<std::uint32_t>(reply_body.size());
    if (!send_reply(session.socket.get(), header, reply_body, descriptors)) end(session.number, kNoReader);
}

}  // namespace verbena::daemon
