// Where a process gets what others of its host send it, under a name of its block of queue pair numbers:
// greetings (local_meeting.h), and packets that reached the wrong process (stray_inbox.h). Whoever knows the
// fabric and a queue pair's number finds its process.
//
// The name is an abstract unix socket's. Everybody can read those that exist (/proc/net/unix), and anybody
// may take one that does not: so each is a hash of its block, keyed with the fabric's random id, which only
// the daemon's clients know. And before anything leaves, both ends look whom the kernel says they have
// (SO_PEERCRED): what is sent to a name may be memory, or somebody's data.
//
// A sender connects, and sends messages. The socket listens, and each connection is read until its end.
//
// Thread safety: one thread at a time, each inbox, but for refused(); connect_to_inbox() and inbox_exists()
// all calls.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/own_user.h"

namespace verbena::link {

// Which inbox, in words. The fabric is the daemon's random name, 32 hexadecimal digits.
struct InboxName {
    std::string_view purpose;
    std::string_view fabric;
    std::uint32_t block = 0;
};

// Whom one takes from, or gives to. Anybody: for a service of root's, whose clients are all users.
enum class Trust : std::uint8_t { own_user, own_user_and_root, anybody };

class NamedInbox {
   public:
    // nullptr with errno; EADDRINUSE: somebody has that name.
    static std::unique_ptr<NamedInbox> open(const InboxName& name, Trust trust);
    ~NamedInbox();
    NamedInbox(const NamedInbox&) = delete;
    NamedInbox& operator=(const NamedInbox&) = delete;

    // Readable while something has come.
    int wait_fd() const { return wait_fd_; }

    struct Message {
        void* into = nullptr;
        std::size_t room = 0;
        void* control = nullptr;  // for what goes along; none: nothing is taken
        std::size_t control_room = 0;
        // What has come.
        std::size_t size = 0;
        std::size_t control_size = 0;
        int flags = 0;  // recvmsg(2)'s
        PeerProcess sender;
    };
    // False: there is nothing.
    bool next(Message& message);

    // Connections of those who are not trusted, which were closed unread.
    std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

    // In a child after fork(): a name is taken as long as anybody has its descriptor, and the next owner of
    // the block shall have it. Nothing is received any more.
    void abandon();

   private:
    static constexpr unsigned kMostConnections = 64;  // of more, the first are closed
    static constexpr unsigned kInARow = 16;           // messages of one sender before others are looked for
    static constexpr unsigned kMostAtOnce = 16;       // connections that one call takes or closes

    struct Connection {
        int fd = -1;
        PeerProcess sender;
    };

    NamedInbox(Descriptor listener, Descriptor wait_fd, Descriptor reserve, Trust trust);
    bool read(Connection& connection, Message& message);
    void accept_one();
    int accept_at_once() const;
    void close_connection(Connection& connection);

    int listener_, wait_fd_;
    int reserve_;  // given up to get rid of a connection when descriptors run out
    const Trust trust_;
    std::array<Connection, kMostConnections> connections_{};
    unsigned next_place_ = 0;
    Connection* current_ = nullptr;
    unsigned in_a_row_ = 0;
    std::atomic<std::uint64_t> refused_{0};
};

// A connection to that inbox, which never blocks; the caller's to close. -1 with errno: ECONNREFUSED if
// nobody has it, or somebody who is neither trusted nor of the user who opened the first inbox here; EAGAIN
// if too many wait there.
int connect_to_inbox(const InboxName& name, Trust trust);

// Whether its owner, whoever that is, still has it: he has neither ended nor called exec().
bool inbox_exists(const InboxName& name);

}  // namespace verbena::link
