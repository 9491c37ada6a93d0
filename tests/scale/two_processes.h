// Two processes of one program, each on a processor of its own, and the socket over which they tell each
// other what a connection needs.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_pair.h"

namespace verbena::scale {

template <class Record>
void tell(int socket, const Record& record) {
    if (write(socket, &record, sizeof record) != sizeof record) fail("write");
}
template <class Record>
Record hear(int socket) {
    Record record{};
    if (recv(socket, &record, sizeof record, MSG_WAITALL) != sizeof record) fail("the other end");
    return record;
}
// Both have arrived there.
inline void meet(int socket) {
    tell(socket, 'm');
    hear<char>(socket);
}

struct Peer {
    ibv_gid gid;
    std::uint32_t number;
    Remote memory;
};
// Both tell of their queue pair and memory, and connect.
inline Peer join(int socket, const Device& device, ibv_qp* qp, const ibv_mr* region, std::uint8_t reads = 1) {
    tell(socket,
         Peer{device.gid, qp->qp_num, {reinterpret_cast<std::uintptr_t>(region->addr), region->rkey}});
    const auto peer = hear<Peer>(socket);
    connect(qp, peer.gid, peer.number, reads);
    return peer;
}

inline void stay_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    // Where there is no such processor it works all the same, but is no measurement.
    if (sched_setaffinity(0, sizeof set, &set)) std::perror("sched_setaffinity");
}

// A child, which ends with its parent, if not before.
template <class Work>
pid_t start(Work work) {
    const pid_t child = fork();
    if (child < 0) fail("fork");
    if (child > 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    std::exit(0);
}
// ... on that processor.
template <class Work>
pid_t start_on(int processor, Work work) {
    return start([&] {
        stay_on(processor);
        work();
    });
}
// Whether it ended well; waits for it.
inline bool succeeded(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0;
}

inline void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

// Runs passive(socket) in a child on processor 1 and active(socket) here, on processor 0: call it before
// there is a device. Returns the child, which may still run.
template <class Passive, class Active>
pid_t run_beside(Passive passive, Active active) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) fail("socketpair");
    const pid_t child = start_on(1, [&] {
        close(sockets[0]);
        passive(sockets[1]);
    });
    close(sockets[1]);
    stay_on(0);
    active(sockets[0]);
    std::fflush(stdout);
    return child;
}
// Where both end by themselves. Returns the exit status of both.
template <class Passive, class Active>
int run_pair(Passive passive, Active active) {
    return !succeeded(run_beside(passive, active));
}

}  // namespace verbena::scale
