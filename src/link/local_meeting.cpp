#include "link/local_meeting.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/uncancelled.h"

namespace verbena::link {
namespace {

constexpr std::uint32_t kMark = 0x564c4b03;  // "VLK", version 3

socklen_t address_of(const std::string& fabric, std::uint32_t block, sockaddr_un& address) {
    address = {};
    address.sun_family = AF_UNIX;
    // The leading zero byte makes the name abstract.
    const int size = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "verbena-local/%s/%03x",
                                   fabric.c_str(), block);
    if (size <= 0 || static_cast<std::size_t>(size) >= sizeof address.sun_path - 1) return 0;
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(size));
}

uid_t overflow_user() {
    static const uid_t user = [] {
        std::array<char, 16> text{};
        const int fd = open("/proc/sys/kernel/overflowuid", O_RDONLY | O_CLOEXEC);
        const bool known = fd >= 0 && read(fd, text.data(), text.size() - 1) > 0;
        if (fd >= 0) close(fd);
        return known ? static_cast<uid_t>(std::strtoul(text.data(), nullptr, 10)) : uid_t{65534};
    }();
    return user;
}

// Its inode, 0 if there is no /proc. Asked each time: a child may be in another one.
std::uint64_t own_pid_namespace() {
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

bool is_stranger(const ucred& who, std::uint64_t pid_namespace) {
    return who.pid == 0 || who.uid != geteuid() || who.uid == overflow_user() ||
           pid_namespace != own_pid_namespace();
}

}  // namespace

Greeting::~Greeting() {
    for (int fd : fds)
        if (fd >= 0) close(fd);
}

int Greeting::take(unsigned index) { return std::exchange(fds[index], -1); }

int open_inbox(const std::string& fabric, std::uint32_t block) {
    sockaddr_un address;
    const socklen_t size = address_of(fabric, block, address);
    if (size == 0) return errno = ENAMETOOLONG, -1;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
        bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int send_greeting(const std::string& fabric, const Greeting::Text& text, const std::array<int, 3>& fds) {
    sockaddr_un address;
    const socklen_t size = address_of(fabric, text.to, address);
    if (size == 0) return ENAMETOOLONG;
    Greeting::Text marked = text;
    marked.mark = kMark;
    marked.pid_namespace = own_pid_namespace();
    iovec piece{&marked, sizeof marked};
    alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof fds)> control{};
    msghdr message{};
    message.msg_name = &address;
    message.msg_namelen = size;
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (fds[0] >= 0) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fds);
        std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    const int error = uncancelled::sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno;
    close(fd);
    return error;
}

bool inbox_exists(const std::string& fabric, std::uint32_t block) {
    sockaddr_un address;
    const socklen_t size = address_of(fabric, block, address);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return true;  // who knows
    const bool exists =
        connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 || errno != ECONNREFUSED;
    close(fd);
    return exists;
}

Received receive_greeting(int inbox, Greeting& greeting) {
    constexpr std::size_t kMost = 8;  // descriptors taken, of which three are asked for
    iovec piece{&greeting.text, sizeof greeting.text};
    alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(kMost * sizeof(int)) + CMSG_SPACE(sizeof(ucred))>
        control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = uncancelled::recvmsg(inbox, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0) return Received::nothing;
    std::array<int, kMost> fds;
    std::size_t count = 0;
    ucred credentials{};
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET) continue;
        if (header->cmsg_type == SCM_RIGHTS) {
            count = std::min((header->cmsg_len - CMSG_LEN(0)) / sizeof(int), kMost);
            std::memcpy(fds.data(), CMSG_DATA(header), count * sizeof(int));
        } else if (header->cmsg_type == SCM_CREDENTIALS) {
            std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
        }
    }
    const bool whole = size == sizeof greeting.text && greeting.text.mark == kMark &&
                       !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if (!whole || (count != 0 && count != greeting.fds.size())) {
        for (std::size_t i = 0; i < count; i++) close(fds[i]);
        return Received::nonsense;
    }
    for (std::size_t i = 0; i < count; i++) greeting.fds[i] = fds[i];
    greeting.pid = credentials.pid;
    greeting.stranger = is_stranger(credentials, greeting.text.pid_namespace);
    return Received::greeting;
}

}  // namespace verbena::link
