// An epoll set over rsockets and other descriptors. What a wait costs depends on how many members have
// something to say, not on how many there are.
//
// Three descriptors: the program's is a set of the kernel's with the descriptors that are no rsockets, the
// bell of the agenda, and a second set of the kernel's, in which the rsockets' own descriptors stand. The
// events of the latter two are ours, and told from the program's by addresses that no data of the program's
// can be.
//
// A member, which is a rsocket, is on the agenda, or it is quiet. A wait takes members off the agenda and
// looks at them: it arms the socket, then asks for its readiness. It puts back at once what is ready and
// level-triggered, so that the next look begins behind it. All else is quiet from then on, until one of these
// puts it down:
//
//   - it is added or modified;
//   - its descriptor is readable: who finds that in the second set puts it down, and empties the descriptor;
//   - somebody else changed the socket's state, emptied the descriptor, or processed what had come, as a send
//     or receive of the program's does: Socket::wake_all() wakes each member by itself.
//
// So no wake-up is lost:
//
//   - A change before the member is taken is seen by the look, since both take the socket's lock. One after
//     that puts it down again, though it is being looked at. What the look itself processes is in its answer,
//     and wakes the other sets and threads, but not this member.
//   - What completes after the look makes the descriptor readable: the socket was armed before, or is yet to
//     be emptied, and whoever empties it wakes all. The look that this leads to arms it anew. So also who
//     processes a completion without a word leaves an event behind.
//   - EPOLLET: a look tells what is new since the last one, or all that holds if something has arrived since
//     (Socket::arrivals(), counted by whoever empties the descriptor, before the wake). Who was refused since
//     another thread was in the middle of the same call counts as an arrival, too (direction.h).
//   - EPOLLONESHOT: a member that was told is quiet until it is modified, which puts it down.
//   - A thread silences the bell before it looks. If it leaves members behind that it has not looked at, or
//     that are ready still, it rings when it leaves, however it does. Before it sleeps it has taken all there
//     were: who has put one down since has rung, or is a thread that has yet to look, or to ring itself.
//
// Thread safety: all calls. Order of locks: mutex_, then a socket's, then the agenda's.
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/own_pid.h"
#include "base/time.h"
#include "rsocket/agenda.h"
#include "rsocket/socket.h"

namespace verbena::rsocket {

class EpollSet {
   public:
    EpollSet() = default;
    ~EpollSet();
    EpollSet(const EpollSet&) = delete;
    EpollSet& operator=(const EpollSet&) = delete;

    // A set of the kernel's, which is closed with this: its descriptor, or -1 with errno and a reason.
    int open(int flags);
    // Its descriptor was closed by close(), and the number is another's now.
    void lose_descriptor() { fd_ = -1; }

    int control(int operation, int fd, const epoll_event* event);  // an errno
    // How many events; -1 with errno.
    int wait(std::span<epoll_event> events, Time deadline, bool nonblocking);

   private:
    struct Member final : Agenda::Entry {
        Member(Agenda& agenda, const std::shared_ptr<Socket>& whose, const epoll_event& wanted);
        ~Member() override;
        std::weak_ptr<Socket> socket;
        const int fd;
        epoll_event event;
        short told = 0;         // EPOLLET: what was reported and still holds,
        unsigned arrivals = 0;  // since so many came
        bool spent = false;     // EPOLLONESHOT
    };
    struct Others {
        int found = 0;
        bool sockets = false, bell = false;  // events of ours, which took places
    };

    int add(const std::shared_ptr<Socket>& socket, const epoll_event& event);
    void modify(Member& member, const epoll_event& event);
    void forget(Member& member);
    int watch_sockets();  // an errno
    void renew_sockets_set();

    int collect(std::span<epoll_event> events);
    bool look(Member& member, epoll_event& event);
    Others ask_kernel(std::span<epoll_event> room, int timeout);
    void drain_sockets();

    int fd_ = -1;
    int sockets_fd_ = -1;
    const pid_t pid_ = own_pid();
    Agenda agenda_;
    std::mutex mutex_;  // of what follows, and of who looks at members
    std::unordered_map<int, Member> members_;
    std::atomic<bool> others_first_{false};  // fairness for descriptors that are no rsockets
};

}  // namespace verbena::rsocket
