#include "host/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/abstract_address.h"
#include "base/memcheck.h"
#include "base/own_file.h"
#include "base/own_socket.h"

namespace verbena::host {
namespace {

std::int64_t milliseconds() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

constexpr std::size_t kControlSize = CMSG_SPACE(sizeof(int) * kMaxDescriptors);

msghdr message_into(std::span<const iovec> parts, void* control) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    message.msg_control = control;
    message.msg_controllen = kControlSize;
    return message;
}

void take(msghdr& message, std::size_t size, Received& out) {
    out = {};
    out.size = size;
    out.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    out.files_missing = (message.msg_flags & MSG_CTRUNC) != 0;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; i++) {
            int received;
            std::memcpy(&received, CMSG_DATA(header) + i * sizeof(int), sizeof received);
            if (out.descriptor_count < kMaxDescriptors)
                out.descriptors[out.descriptor_count++] = out_of_the_way(received);
            else
                close(received);
        }
    }
}

}  // namespace

int bind_name(const std::string& name, int type) {
    const AbstractAddress address(name);
    if (!address) return -ENAMETOOLONG;
    int fd = own_socket(AF_UNIX, type);
    if (fd < 0) return -errno;
    if (bind(fd, address.get(), address.size()) != 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

int start_listening(int fd, int backlog) { return listen(fd, backlog) == 0 ? 0 : errno; }

int listen_on(const std::string& name, int backlog) {
    int fd = bind_name(name, SOCK_SEQPACKET);
    if (fd < 0) return fd;
    if (int error = start_listening(fd, backlog)) {
        close(fd);
        return -error;
    }
    return fd;
}

int connect_to(const std::string& name) {
    const AbstractAddress address(name);
    if (!address) return -ENAMETOOLONG;
    int fd = own_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK);
    if (fd < 0) return -errno;
    if (connect(fd, address.get(), address.size()) != 0 || fcntl(fd, F_SETFL, O_RDWR) != 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

int send_datagram(int fd, std::span<const iovec> parts, std::span<const int> descriptors, int flags) {
    if (descriptors.size() > kMaxDescriptors) return EINVAL;
    alignas(cmsghdr) char control[kControlSize] = {};
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    if (!descriptors.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    const memcheck::Unjudged unjudged;  // private data may have gaps
    while (sendmsg(fd, &message, flags | MSG_NOSIGNAL) < 0)
        if (errno != EINTR) return errno;
    return 0;
}

int send_datagrams(int fd, std::span<iovec> parts, std::size_t& sent) {
    sent = 0;
    std::array<mmsghdr, kMostDatagrams> messages;
    const std::size_t most = std::min(parts.size(), messages.size());
    for (std::size_t i = 0; i < most; i++) {
        messages[i] = {};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    const memcheck::Unjudged unjudged;
    const int n = sendmmsg(fd, messages.data(), static_cast<unsigned>(most), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return errno;
    sent = static_cast<std::size_t>(n);
    return 0;
}

int Received::take(unsigned index) {
    if (index >= descriptor_count) return -1;
    int fd = descriptors[index];
    descriptors[index] = -1;
    return fd;
}

void Received::close_all() {
    for (int& fd : descriptors) {
        if (fd >= 0) close(fd);
        fd = -1;
    }
    descriptor_count = 0;
}

int receive_datagram(int fd, std::span<const iovec> parts, Received& out, int flags) {
    out = {};
    alignas(cmsghdr) char control[kControlSize] = {};
    msghdr message = message_into(parts, control);
    const ssize_t n = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
    if (n < 0) return errno;
    take(message, static_cast<std::size_t>(n), out);
    return 0;
}

struct Datagrams::Messages {
    explicit Messages(std::size_t bytes_each) : size(bytes_each), bytes(kMostDatagrams * bytes_each) {
        for (std::size_t i = 0; i < kMostDatagrams; i++) {
            parts[i] = {bytes.data() + i * size, size};
            headers[i] = {message_into(std::span(&parts[i], 1), &controls[i * kControlSize]), 0};
        }
    }
    const std::size_t size;  // of each
    std::vector<std::uint8_t> bytes;
    std::array<iovec, kMostDatagrams> parts;
    alignas(cmsghdr) std::array<char, kMostDatagrams * kControlSize> controls{};
    std::array<mmsghdr, kMostDatagrams> headers;
};

Datagrams::Datagrams(std::size_t bytes_each) : messages_(std::make_unique<Messages>(bytes_each)) {}
Datagrams::~Datagrams() = default;

int Datagrams::receive(int fd) {
    mmsghdr* const headers = messages_->headers.data();
    for (std::size_t i = 0; i < count_; i++) headers[i].msg_hdr.msg_controllen = kControlSize;
    count_ = 0;
    const int n = recvmmsg(fd, headers, kMostDatagrams, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, nullptr);
    if (n < 0) return errno;
    count_ = static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < count_; i++) take(headers[i].msg_hdr, headers[i].msg_len, received_[i]);
    return 0;
}

std::span<const std::uint8_t> Datagrams::bytes(std::size_t index) const {
    return std::span(messages_->bytes).subspan(index * messages_->size, received_[index].size);
}

int wait_readable(int fd, int timeout_ms) {
    const std::int64_t deadline = milliseconds() + timeout_ms;
    for (;;) {
        pollfd entry{fd, POLLIN, 0};
        std::int64_t left = deadline - milliseconds();
        int n = poll(&entry, 1, left > 0 ? static_cast<int>(left) : 0);
        if (n > 0) return 0;
        if (n == 0) return ETIMEDOUT;
        if (errno != EINTR) return errno;
    }
}

}  // namespace verbena::host
