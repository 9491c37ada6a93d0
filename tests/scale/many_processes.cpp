// Many processes with a queue pair each, all at once: every one talks with its partner, and what arrives is
// right.
//
//     many_processes [COUNT]          exit status 1: some process failed, and said why
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "verbs_pair.h"

using namespace verbena::scale;

namespace {

constexpr unsigned kRounds = 10;
constexpr unsigned kPatience = 120;  // seconds

void wait_for(ibv_cq* cq, unsigned completions) {
    while (completions > 0) {
        ibv_wc wc;
        completions -= static_cast<unsigned>(take_completions(cq, &wc, 1));
    }
}

// Both partners have arrived there, and know what the other says.
std::uint32_t meet(int partner, std::uint32_t mine) {
    std::uint32_t theirs = 0;
    if (write(partner, &mine, sizeof mine) != sizeof mine ||
        read(partner, &theirs, sizeof theirs) != sizeof theirs)
        fail("the partner is gone");
    return theirs;
}

// All start when the parent's end of `start` closes.
int talk(unsigned number, int partner, int start) {
    alarm(kPatience);
    const Device device(8);
    std::array<std::uint64_t, 2> memory{};
    const ibv_mr* region = device.register_memory(memory.data(), sizeof memory);
    ibv_qp* qp = device.create_qp();
    connect(qp, device.gid, meet(partner, qp->qp_num));
    char nothing;
    static_cast<void>(read(start, &nothing, 1) < 0);
    for (unsigned round = 0; round < kRounds; round++) {
        memory = {std::uint64_t{number} << 32 | round, 0};
        post_receive(qp, word(memory[1], region));
        meet(partner, round);  // no message finds nobody ready
        post_send(qp, word(memory[0], region));
        wait_for(device.cq, 2);
        if (memory[1] != (std::uint64_t{number ^ 1} << 32 | round)) {
            errno = EBADMSG;
            fail("what arrived");
        }
    }
    meet(partner, kRounds);  // neither ends while the other waits for an acknowledgement
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const unsigned count = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1000;
    if (count == 0 || count % 2 != 0) return 2;
    int start[2];
    if (pipe(start)) fail("pipe");
    std::vector<pid_t> children;
    for (unsigned i = 0; i < count; i += 2) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) fail("socketpair");
        for (unsigned side = 0; side < 2; side++) {
            const pid_t child = fork();
            if (child < 0) fail("fork");
            if (child == 0) {
                close(ends[!side]);
                close(start[1]);
                _exit(talk(i + side, ends[side], start[0]));
            }
            children.push_back(child);
        }
        close(ends[0]);
        close(ends[1]);
    }
    close(start[1]);
    unsigned failed = 0;
    for (pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) failed++;
    }
    std::printf("%u processes, %u failed\n", count, failed);
    return failed != 0;
}
