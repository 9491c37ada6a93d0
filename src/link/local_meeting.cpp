#include "link/local_meeting.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/own_file.h"
#include "base/uncancelled.h"

namespace verbena::link {
namespace {

constexpr std::uint32_t kMark = 0x564c4b04;  // "VLK", version 4

InboxName name_of(const std::string& fabric, std::uint32_t block) { return {"local", fabric, block}; }

// Its inode, 0 if there is no /proc. Asked each time: a child may be in another one.
std::uint64_t own_pid_namespace() {
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

bool is_stranger(const PeerProcess& who, std::uint64_t pid_namespace) {
    return who.pid == 0 || pid_namespace != own_pid_namespace();
}

}  // namespace

Greeting::~Greeting() {
    for (int fd : fds)
        if (fd >= 0) uncancelled::close(fd);
}

int Greeting::take(unsigned index) { return std::exchange(fds[index], -1); }

std::unique_ptr<NamedInbox> open_inbox(const std::string& fabric, std::uint32_t block) {
    return NamedInbox::open(name_of(fabric, block), Trust::own_user);
}

int send_greeting(const std::string& fabric, const Greeting::Text& text, const Greeting::Descriptors& fds) {
    Greeting::Text marked = text;
    marked.mark = kMark;
    marked.pid_namespace = own_pid_namespace();
    iovec piece{&marked, sizeof marked};
    alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof fds)> control{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (fds[0] >= 0) {
        const std::size_t size = fds[3] >= 0 ? sizeof fds : sizeof fds - sizeof fds[3];
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(size);
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(size);
        std::memcpy(CMSG_DATA(header), fds.data(), size);
    }
    const int fd = connect_to_inbox(name_of(fabric, text.to), Trust::own_user);
    if (fd < 0) return errno;
    const int error = uncancelled::sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno;
    uncancelled::close(fd);
    return error;
}

bool inbox_exists(const std::string& fabric, std::uint32_t block) {
    return inbox_exists(name_of(fabric, block));
}

Received receive_greeting(NamedInbox& inbox, Greeting& greeting) {
    constexpr std::size_t kMost = 8;  // descriptors taken, of which up to four are asked for
    alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(kMost * sizeof(int))> control;
    NamedInbox::Message message;
    message.into = &greeting.text;
    message.room = sizeof greeting.text;
    message.control = control.data();
    message.control_room = control.size();
    if (!inbox.next(message)) return Received::nothing;
    std::array<int, kMost> fds;
    std::size_t count = 0;
    const auto* const header = reinterpret_cast<const cmsghdr*>(control.data());
    if (message.control_size >= CMSG_LEN(0) && header->cmsg_level == SOL_SOCKET &&
        header->cmsg_type == SCM_RIGHTS) {
        count = std::min((header->cmsg_len - CMSG_LEN(0)) / sizeof(int), kMost);
        std::memcpy(fds.data(), control.data() + CMSG_LEN(0), count * sizeof(int));
    }
    const bool whole = message.size == sizeof greeting.text && greeting.text.mark == kMark &&
                       !(message.flags & (MSG_TRUNC | MSG_CTRUNC));
    if (!whole || (count != 0 && count != greeting.fds.size() && count != greeting.fds.size() - 1)) {
        for (std::size_t i = 0; i < count; i++) uncancelled::close(fds[i]);
        return Received::nonsense;
    }
    for (std::size_t i = 0; i < count; i++) greeting.fds[i] = out_of_the_way(fds[i]);
    greeting.pid = message.sender.pid;
    greeting.stranger = is_stranger(message.sender, greeting.text.pid_namespace);
    return Received::greeting;
}

}  // namespace verbena::link
