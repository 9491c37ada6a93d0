#include "tool/top.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "adapter/clock.h"
#include "base/reason.h"
#include "tool/ending_signals.h"
#include "tool/json_text.h"
#include "tool/look.h"

namespace verbena::tool {
namespace {

using transport::QpCounters;

volatile sig_atomic_t interrupted = 0;

// A job in the background that reads from its terminal, or changes its modes, is stopped for it. A terminal
// that controls nobody has no jobs.
bool in_foreground() {
    const pid_t group = tcgetpgrp(STDIN_FILENO);
    return group < 0 || group == getpgrp();
}

// Keys come one by one and unseen while this lives, if there is a terminal and it is ours.
class Terminal {
   public:
    Terminal()
        : is_one_(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && in_foreground() &&
                  tcgetattr(STDIN_FILENO, &before_) == 0) {
        struct sigaction action {};
        action.sa_handler = [](int) { interrupted = 1; };
        for (const int each : ending_signals()) sigaction(each, &action, nullptr);
        if (!is_one_) return;
        take_keys();
        std::printf("\x1b[?25l");  // no cursor
    }
    // In the background (bg) it is another job's, whose modes stay.
    ~Terminal() {
        if (!is_one_) return;
        std::printf("\x1b[?25h");
        if (in_foreground()) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    bool is_one() const { return is_one_; }
    winsize size() const {
        winsize size{};
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) size.ws_row = 24;
        if (size.ws_col == 0) size.ws_col = 80;
        return size;
    }
    // False: the user has had enough.
    bool wait(double seconds) const {
        const bool has_keys = is_one_ && in_foreground();
        if (has_keys) take_keys();  // again: the shell has its own modes while we are stopped
        pollfd input{has_keys ? STDIN_FILENO : -1, POLLIN, 0};
        if (poll(&input, 1, static_cast<int>(seconds * 1000)) > 0 && in_foreground()) {
            char key = 'q';
            if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') return false;
        }
        return !interrupted;
    }

   private:
    void take_keys() const {
        termios raw = before_;
        raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }

    termios before_{};
    const bool is_one_;
};

struct Row {
    std::uint32_t pid = 0;
    std::string command;
    std::size_t queue_pairs = 0;
    double sent = 0, received = 0;  // bytes per second
    double packets_sent = 0, packets_received = 0, messages_sent = 0, messages_received = 0, repeated = 0;
};

using Before = std::map<std::uint32_t, QpCounters>;  // by session

// Per second between two looks; a program that is new counts from its start.
std::vector<Row> rows(const observe::Snapshot& snapshot, Before& before, double seconds) {
    std::vector<Row> out;
    Before now;
    for (const observe::Program& program : snapshot.programs) {
        const QpCounters c = program.tables.total();
        const QpCounters b = before[program.session];
        now[program.session] = c;
        auto rate = [&](std::uint64_t later, std::uint64_t earlier) {
            return later > earlier ? static_cast<double>(later - earlier) / seconds : 0;
        };
        Row row;
        row.pid = program.pid;
        row.command = program.tables.command;
        row.queue_pairs = program.tables.queue_pairs.size();
        row.sent = rate(c.bytes_sent + c.direct_bytes_out, b.bytes_sent + b.direct_bytes_out);
        row.received = rate(c.bytes_received + c.direct_bytes_in, b.bytes_received + b.direct_bytes_in);
        row.packets_sent = rate(c.packets_sent + c.direct_packets_out, b.packets_sent + b.direct_packets_out);
        row.packets_received =
            rate(c.packets_received + c.direct_packets_in, b.packets_received + b.direct_packets_in);
        row.messages_sent = rate(c.messages_sent, b.messages_sent);
        row.messages_received = rate(c.messages_received, b.messages_received);
        row.repeated = rate(c.retransmitted, b.retransmitted);
        out.push_back(row);
    }
    before = std::move(now);
    std::sort(out.begin(), out.end(),
              [](const Row& a, const Row& b) { return a.sent + a.received > b.sent + b.received; });
    return out;
}

void print_json(const std::vector<Row>& all, double seconds) {
    nlohmann::ordered_json programs = nlohmann::ordered_json::array();
    for (const Row& row : all)
        programs.push_back({{"pid", row.pid},
                            {"comm", row.command},
                            {"qp", row.queue_pairs},
                            {"sent_bytes", row.sent},
                            {"rcvd_bytes", row.received},
                            {"sent_pkts", row.packets_sent},
                            {"rcvd_pkts", row.packets_received},
                            {"rdma_sends", row.messages_sent},
                            {"rdma_recvs", row.messages_received},
                            {"retransmitted", row.repeated}});
    const nlohmann::ordered_json look{{"seconds", seconds}, {"programs", std::move(programs)}};
    std::printf("%s\n", json_text(look).c_str());
}

std::string line_of(const Row& row) {
    char line[160];
    std::snprintf(line, sizeof line, "%8u %-15s %5zu %8sB %8sB %9s %9s %9s %9s %9s", row.pid,
                  row.command.c_str(), row.queue_pairs, short_number(row.sent).c_str(),
                  short_number(row.received).c_str(), short_number(row.packets_sent).c_str(),
                  short_number(row.packets_received).c_str(), short_number(row.messages_sent).c_str(),
                  short_number(row.messages_received).c_str(), short_number(row.repeated).c_str());
    return line;
}

// What the terminal has no room for would break its lines.
void print_table(const std::vector<Row>& all, const Terminal& terminal) {
    static const std::string kHead =
        "     PID COMMAND            QP    SENT/s   RECVD/s    PKTS/s PKTS IN/s   SENDS/s   RECVS/s   "
        "AGAIN/s";
    std::size_t lines = all.size(), columns = std::string::npos;
    if (terminal.is_one()) {
        const winsize size = terminal.size();
        columns = size.ws_col;
        lines = std::min<std::size_t>(lines, size.ws_row > 2 ? size.ws_row - 2u : 0);
        std::printf("\x1b[H\x1b[2J");
    }
    std::printf("%s\n", kHead.substr(0, columns).c_str());
    for (std::size_t i = 0; i < lines; i++) std::printf("%s\n", line_of(all[i]).substr(0, columns).c_str());
}

}  // namespace

int show_top(const TopOptions& options) {
    Look look;
    Before before;
    observe::Snapshot snapshot;
    const Terminal terminal;
    Time last = 0;
    for (unsigned shown = 0; options.count == 0 || shown < options.count;) {
        if (look.take(observe::Depth::counters, snapshot) != 0) {
            std::fprintf(stderr, "verbena: %s\n", last_reason());
            return 1;
        }
        const Time now = adapter::now();
        const bool first = last == 0;
        const double seconds = std::max(1e-3, static_cast<double>(now - last) / kSecond);
        const std::vector<Row> all = rows(snapshot, before, seconds);
        last = now;
        if (!first) {
            if (options.json)
                print_json(all, seconds);
            else
                print_table(all, terminal);
            if (std::fflush(stdout) != 0) break;  // main() tells
            if (++shown == options.count) break;
        }
        if (!terminal.wait(first ? std::min(options.delay, 1.0) : options.delay)) break;
    }
    return 0;
}

}  // namespace verbena::tool
