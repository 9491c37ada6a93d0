// Unix sockets as the daemon and the programs use them: abstract names, and datagrams with descriptors.
//
// Thread safety: all functions. Errors are answered as positive errno values without a reason; the caller
// knows the context.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace verbena::host {

// A new SOCK_SEQPACKET socket (close on exec) bound to and listening on, or connected to, the abstract name.
// Returns the descriptor, or a negative errno. Connecting never waits: -EAGAIN says that whoever listens
// there takes nobody at the moment, which another user may have arranged to last.
int listen_on(const std::string& name, int backlog);
int connect_to(const std::string& name);
// A bound socket without any listening, for a lock that vanishes with its holder.
int bind_name(const std::string& name, int type);
int start_listening(int fd, int backlog);

// Sends one datagram, with descriptors if there are any. 0 or an errno; never SIGPIPE; EINTR is retried.
int send_datagram(int fd, std::span<const iovec> parts, std::span<const int> descriptors = {}, int flags = 0);

inline constexpr std::size_t kMostDatagrams = 16;  // by one call

// Sends each part as a datagram of its own, kMostDatagrams at most, and waits for nobody. `sent` is how many
// have left: less than asked for where the socket is full now. 0, or what kept the first one from leaving.
int send_datagrams(int fd, std::span<iovec> parts, std::size_t& sent);

inline constexpr std::size_t kMaxDescriptors = 4;

struct Received {
    std::size_t size = 0;  // bytes of the datagram that were stored; 0 with error 0: end of file
    bool truncated = false;
    bool files_missing = false;  // most often: this process may open no more
    int descriptors[kMaxDescriptors] = {-1, -1, -1, -1};
    unsigned descriptor_count = 0;

    // Hands one out, -1 if there is none; the caller closes it.
    int take(unsigned index);
    void close_all();
};

// Many at once, into memory that is kept for the next ones.
//
// Thread safety: none.
class Datagrams {
   public:
    explicit Datagrams(std::size_t bytes_each);
    ~Datagrams();
    Datagrams(const Datagrams&) = delete;
    Datagrams& operator=(const Datagrams&) = delete;

    // Receives those that have come by now, kMostDatagrams at most, in place of the ones before; waits for
    // nobody. 0, or an errno if there is none.
    int receive(int fd);
    std::size_t count() const { return count_; }
    Received& received(std::size_t index) { return received_[index]; }
    std::span<const std::uint8_t> bytes(std::size_t index) const;

   private:
    struct Messages;
    std::array<Received, kMostDatagrams> received_;
    std::size_t count_ = 0;
    const std::unique_ptr<Messages> messages_;
};

// Receives one datagram; descriptors are close-on-exec and the caller's. 0 or an errno (EAGAIN with
// MSG_DONTWAIT, or when the socket's time is over; EINTR).
int receive_datagram(int fd, std::span<const iovec> parts, Received& out, int flags = 0);

// Waits until `fd` is readable or at its end. 0, ETIMEDOUT, or another errno. EINTR is retried, with the time
// left.
int wait_readable(int fd, int timeout_ms);

}  // namespace verbena::host
