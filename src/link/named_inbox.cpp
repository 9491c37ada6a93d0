#include "link/named_inbox.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/abstract_address.h"
#include "base/keyed_hash.h"
#include "base/own_file.h"
#include "base/own_socket.h"
#include "base/uncancelled.h"

namespace verbena::link {
namespace {

constexpr int kBacklog = 128;
constexpr auto kNobody = static_cast<uid_t>(-1);

// Of any text; of the daemon's 32 digits all of their randomness.
HashKey key_of(std::string_view fabric) {
    HashKey key;
    for (const char c : fabric) key = {keyed_hash(key, static_cast<unsigned char>(c)), key.low ^ key.high};
    return key;
}

AbstractAddress address_of(const InboxName& name) {
    std::array<char, sizeof(sockaddr_un::sun_path)> text;
    std::snprintf(text.data(), text.size(), "verbena-%.*s/%016llx", static_cast<int>(name.purpose.size()),
                  name.purpose.data(),
                  static_cast<unsigned long long>(keyed_hash(key_of(name.fabric), name.block)));
    return AbstractAddress(text.data());
}

int new_socket() { return own_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK); }

void close_keeping_errno(int fd) {
    const int before = errno;
    uncancelled::close(fd);
    errno = before;
}

bool trusted(uid_t user, Trust trust) {
    return trust == Trust::anybody || is_own_user(user) || (user == 0 && trust == Trust::own_user_and_root);
}

// Whose process this was when it opened its first inbox, which the kernel says of that for ever: those that
// have laid their privileges down together know each other by it.
std::atomic<uid_t> first_user{kNobody};

int connected_to(const InboxName& name) {
    const AbstractAddress address = address_of(name);
    const int fd = new_socket();
    // (By number: connect() is a point of cancellation.)
    if (fd < 0 || syscall(SYS_connect, fd, address.get(), address.size()) == 0) return fd;
    close_keeping_errno(fd);
    return -1;
}

}  // namespace

std::unique_ptr<NamedInbox> NamedInbox::open(const InboxName& name, Trust trust) {
    const AbstractAddress address = address_of(name);
    Descriptor listener(new_socket());
    Descriptor wait_fd(listener ? out_of_the_way(epoll_create1(EPOLL_CLOEXEC)) : -1);
    Descriptor reserve(wait_fd ? duplicate_out_of_the_way(listener.get()) : -1);
    epoll_event event{};
    event.events = EPOLLIN;
    if (!reserve || bind(listener.get(), address.get(), address.size()) != 0 ||
        listen(listener.get(), kBacklog) != 0 ||
        epoll_ctl(wait_fd.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0)
        return nullptr;
    uid_t nobody = kNobody;
    if (is_own_user(geteuid())) first_user.compare_exchange_strong(nobody, geteuid());
    return std::unique_ptr<NamedInbox>(
        new NamedInbox(std::move(listener), std::move(wait_fd), std::move(reserve), trust));
}

NamedInbox::NamedInbox(Descriptor listener, Descriptor wait_fd, Descriptor reserve, Trust trust)
    : listener_(listener.release()),
      wait_fd_(wait_fd.release()),
      reserve_(reserve.release()),
      trust_(trust) {}

NamedInbox::~NamedInbox() { abandon(); }

// Nothing is taken out of the epoll, which a child shares with its parent.
void NamedInbox::abandon() {
    if (listener_ < 0) return;
    for (Connection& connection : connections_)
        if (connection.fd >= 0) uncancelled::close(std::exchange(connection.fd, -1));
    for (int* fd : {&listener_, &wait_fd_, &reserve_}) uncancelled::close(std::exchange(*fd, -1));
    current_ = nullptr;
}

bool NamedInbox::next(Message& message) {
    if (listener_ < 0) return false;
    for (unsigned i = 0; i < kMostAtOnce; i++) {
        if (current_ && in_a_row_++ < kInARow && read(*current_, message)) return true;
        epoll_event event{};
        if (uncancelled::epoll_at_once(wait_fd_, &event, 1) <= 0) return false;
        current_ = static_cast<Connection*>(event.data.ptr);
        in_a_row_ = 0;
        if (!current_) accept_one();
    }
    return false;
}

bool NamedInbox::read(Connection& connection, Message& message) {
    iovec piece{message.into, message.room};
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = message.control;
    header.msg_controllen = message.control_room;
    const ssize_t size = uncancelled::recvmsg(connection.fd, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size > 0) {
        message.size = static_cast<std::size_t>(size);
        message.control_size = header.msg_controllen;
        message.flags = header.msg_flags;
        message.sender = connection.sender;
        return true;
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) close_connection(connection);
    current_ = nullptr;
    return false;
}

void NamedInbox::accept_one() {
    int fd = accept_at_once();
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {  // or it would wake us for ever
        uncancelled::close(reserve_);
        fd = accept_at_once();
        if (fd >= 0) uncancelled::close(fd);
        reserve_ = duplicate_out_of_the_way(listener_);
        return;
    }
    if (fd < 0) return;
    PeerProcess sender;
    if (peer_of(fd, sender) != 0 || !trusted(sender.user, trust_)) {
        refused_.fetch_add(1, std::memory_order_relaxed);
        uncancelled::close(fd);
        return;
    }
    Connection& place = connections_[next_place_++ % kMostConnections];
    if (place.fd >= 0) close_connection(place);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &place;
    if (epoll_ctl(wait_fd_, EPOLL_CTL_ADD, fd, &event) == 0)
        place = {fd, sender};
    else
        uncancelled::close(fd);
}

// (By number: the library's accept4() is a point of cancellation.)
int NamedInbox::accept_at_once() const {
    return out_of_the_way(
        static_cast<int>(syscall(SYS_accept4, listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
}

// Taken out of the epoll first: a child that has it open, too, would keep it there.
void NamedInbox::close_connection(Connection& connection) {
    epoll_ctl(wait_fd_, EPOLL_CTL_DEL, connection.fd, nullptr);
    uncancelled::close(std::exchange(connection.fd, -1));
}

int connect_to_inbox(const InboxName& name, Trust trust) {
    const int fd = connected_to(name);
    PeerProcess owner;
    if (fd < 0 ||
        (peer_of(fd, owner) == 0 && (trusted(owner.user, trust) || owner.user == first_user.load())))
        return fd;
    uncancelled::close(fd);
    errno = ECONNREFUSED;
    return -1;
}

bool inbox_exists(const InboxName& name) {
    const int before = errno;
    const int fd = connected_to(name);
    const bool exists = fd >= 0 || errno != ECONNREFUSED;
    if (fd >= 0) uncancelled::close(fd);
    errno = before;
    return exists;
}

}  // namespace verbena::link
