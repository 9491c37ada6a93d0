#include "daemon/sessions.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/own_user.h"
#include "base/reason.h"
#include "daemon/proc.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace verbena::daemon {
namespace {

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
    reserve_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
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
        if (errno != EMFILE && errno != ENFILE) return false;
        // It would stay at the head of the queue and wake us for ever: it is taken and dropped.
        log(LogLevel::error, "a program cannot connect: %s", std::strerror(errno));
        reserve_.reset();
        Descriptor refused(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        refused.reset();
        reserve_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
        return false;
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
                          // One datagram: whether there is another the loop tells, which asks anyhow.
                          [this, number](std::uint32_t) { take_datagram(number); });
    if (!error && session.process)
        error = loop_.add(session.process.get(), EPOLLIN, [this, number](std::uint32_t) {
            hear_out(number);
            end(number, "it died");
        });
    if (error) end(number, std::strerror(error));
    log(LogLevel::info, "pid %d connected", peer.pid);
    return true;
}

void Sessions::end(SessionNumber number, const char* why) {
    auto found = sessions_.find(number);
    if (found == sessions_.end()) return;
    Session session = std::move(found->second);
    sessions_.erase(found);
    loop_.remove(session.socket.get());
    if (session.process) loop_.remove(session.process.get());
    log(LogLevel::info, "pid %d is gone: %s", session.pid, why);
    handler_.ended(session);
}

void Sessions::hear_out(SessionNumber number) {
    while (take_datagram(number)) {
    }
}

// False if there was none, or the session has ended.
bool Sessions::take_datagram(SessionNumber number) {
    auto found = sessions_.find(number);
    if (found == sessions_.end()) return false;
    Session& session = found->second;
    std::array<std::uint8_t, kMaxRequestSize> buffer;
    const iovec part{buffer.data(), buffer.size()};
    host::Received received;
    const int error =
        host::receive_datagram(session.socket.get(), std::span(&part, 1), received, MSG_DONTWAIT);
    if (error == EAGAIN || error == EWOULDBLOCK) return false;
    if (error || (received.size == 0 && !received.truncated)) {
        received.close_all();
        end(number, error ? std::strerror(error) : "it closed the connection");
        return false;
    }
    auto rest = std::span<const std::uint8_t>(buffer).first(received.size);
    Malformed malformed = received.truncated ? Malformed::length : Malformed::none;
    while (malformed == Malformed::none && !rest.empty() && sessions_.contains(number)) {
        Request request;
        host::Received nothing;
        malformed = take_request(rest, received.descriptor_count, request);
        if (malformed == Malformed::none)
            answer(session, request, rest.empty() ? received : nothing);
        else if (malformed == Malformed::version)
            refuse_version(session, request.header);
    }
    received.close_all();
    if (!sessions_.contains(number)) return false;
    if (malformed == Malformed::none) return true;
    log(LogLevel::warn, "pid %d sent a request %s; it is disconnected", session.pid, to_string(malformed));
    end(number, "malformed request");
    return false;
}

void Sessions::refuse_version(Session& session, const host::RequestHeader& request) {
    char reason[200];
    std::snprintf(reason, sizeof reason, "verbenad (pid %d) speaks protocol %u, the program's libraries %u",
                  getpid(), host::kProtocolVersion, request.version);
    reply(session, request, EPROTO, reason, {}, {});
}

void Sessions::answer(Session& session, const Request& request, host::Received& received) {
    const SessionNumber number = session.number;
    std::array<std::uint8_t, kMaxReplySize> body;
    std::vector<int> descriptors;
    const auto reply_body = std::span(body).first(request.info->reply_size);
    std::ranges::fill(reply_body, std::uint8_t{0});
    Call call(request.info->name, "pid", static_cast<unsigned long long>(session.pid));
    const int error = handler_.request(session, request, received, reply_body, descriptors);
    if (request.header.sequence == 0) return;  // nobody waits; fail() has logged why it was refused
    if (!reply(session, request.header, error, error ? last_reason() : "",
               error ? std::span<const std::uint8_t>() : reply_body, descriptors))
        end(number, "it does not read its replies");
}

bool Sessions::reply(Session& session, const host::RequestHeader& request, int error, const char* reason,
                     std::span<const std::uint8_t> body, std::span<const int> descriptors) {
    host::ReplyHeader header;
    header.sequence = request.sequence;
    header.error = error;
    header.length = static_cast<std::uint32_t>(body.size());
    std::memcpy(header.reason.data(), reason, std::min(std::strlen(reason), header.reason.size() - 1));
    const iovec parts[] = {{&header, sizeof header}, {const_cast<std::uint8_t*>(body.data()), body.size()}};
    const int result = host::send_datagram(session.socket.get(), parts, descriptors, MSG_DONTWAIT);
    return result == 0 || result == EPIPE || result == ECONNRESET;  // the loop tells of its end
}

}  // namespace verbena::daemon
