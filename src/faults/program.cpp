#include "faults/program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <mutex>

#include "base/reason.h"
#include "faults/call_faults.h"
#include "faults/packet_faults.h"

namespace verbena::faults {
namespace {

std::mutex lock;
Board* board = nullptr;                         // these are set once and live as long as the process
std::atomic<PlannedPackets*> packets{nullptr};  // readers do not lock
PlannedCalls* calls = nullptr;
bool has_device = false;
std::uint64_t come_true = 0;  // at_once rules, a bit each
static_assert(kMaxRules <= 64);

void use(std::unique_ptr<Board> found, const PortFault& port) {
    if (!found) return;
    board = found.release();
    auto* planned = new PlannedPackets(
        {board, program_invocation_short_name, port, [](int signal) { kill(getpid(), signal); }});
    packets.store(planned);
}

// What the rules are about, now.
void look(const PortFault& port) {
    if (!board) return;
    for (unsigned index = 0; index < board->count(); index++) {
        if (!board->active(index)) continue;
        const Rule& rule = board->rule(index);
        if (!rule.is_of_program(program_invocation_short_name)) continue;
        if (rule.subject == Subject::call && !calls) {
            calls = new PlannedCalls(*board, program_invocation_short_name);
            call_faults.store(calls);
        }
        if (rule.subject == Subject::packet || rule.subject == Subject::port)
            link::set_packet_faults(packets.load());
        const std::uint64_t bit = std::uint64_t{1} << index;
        if (rule.subject != Subject::port || !rule.at_once || !has_device || (come_true & bit)) continue;
        come_true |= bit;
        if (board->meets(index)) port(rule);
    }
}

}  // namespace

void start_from_environment(const PortFault& port) {
    std::lock_guard guard(lock);
    if (board) return;
    const char* path = secure_getenv(kVariable);
    if (!path || !*path) return;
    use(Board::open(path), port);
    if (!board) log(LogLevel::error, "%s: %s", kVariable, last_reason());
    look(port);
}

void start(int fd, const PortFault& port) {
    std::lock_guard guard(lock);
    std::unique_ptr<Board> given = Board::from(fd);
    if (!given) return;
    if (board && !board->is_same_as(*given))
        return log(LogLevel::error, "a program has one plan of faults; a second one is not taken");
    if (!board) use(std::move(given), port);
    look(port);
}

void device_opened(const PortFault& port) {
    std::lock_guard guard(lock);
    has_device = true;
    look(port);
}

void set_link_down(bool down) {
    if (PlannedPackets* planned = packets.load()) planned->set_down(down);
}

bool link_is_down() {
    const PlannedPackets* planned = packets.load();
    return planned && planned->is_down();
}

int board_fd() {
    std::lock_guard guard(lock);
    return board ? board->fd() : -1;
}

}  // namespace verbena::faults
