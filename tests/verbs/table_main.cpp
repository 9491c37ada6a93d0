// Runs the table of failures between two sides: the server responds, the client requests.
//
//     verbs_table [-d DEVICE] [-x GID_INDEX] [-p PORT]         server
//     verbs_table [-d DEVICE] [-x GID_INDEX] [-p PORT] HOST    client
//     verbs_table --pair                                       both, over the last device of this host
//
// Each side says what it saw otherwise than the table has it; the exit status is 0 if nothing. On Verbena
// with VERBENA_LOG=warn,file=PATH every failure must also have left a sentence there.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "side.h"

namespace {

using namespace table;

struct Options {
    std::string device, host;
    unsigned gid_index = 0;
    std::uint16_t port = 18515;
    bool pair = false;
};

// What one side found wrong in a row; empty if nothing.
class Verdict {
   public:
    void expect(const char* what, long long seen, long long expected) {
        if (seen == expected) return;
        char text[128];
        std::snprintf(text, sizeof text, "%s%s is %lld (0x%llx) instead of %lld (0x%llx)",
                      text_.empty() ? "" : "; ", what, seen, static_cast<unsigned long long>(seen), expected,
                      static_cast<unsigned long long>(expected));
        text_ += text;
    }
    void say(const std::string& text) { text_ += (text_.empty() ? "" : "; ") + text; }
    const std::string& text() const { return text_; }

   private:
    std::string text_;
};

// Bytes that the log has; -1 without one.
long long log_size() {
    const char* setting = std::getenv("VERBENA_LOG");
    const char* file = setting ? std::strstr(setting, ",file=") : nullptr;
    struct stat status;
    if (!file) return -1;
    return stat(file + 6, &status) == 0 ? static_cast<long long>(status.st_size) : 0;
}

void check_reason(Verdict& verdict, long long before, const Device& device) {
    if (before < 0 || !device.is_verbena) return;
    if (log_size() == before) verdict.say("the failure left no reason in the log");
}

void request(Ends& ends, const Row& row, const Address& peer, const Device& device, Verdict& verdict) {
    Requester expected = row.requester;
    if (!peer.is_verbena && row.requester_of_rxe) expected = *row.requester_of_rxe;
    if (!device.is_verbena && row.rxe_requester) expected = *row.rxe_requester;
    const long long logged = log_size();
    // Where all is well nothing follows: the peer has one receive.
    const bool followed = expected.state == IBV_QPS_ERR && expected.followed;
    const int error = ends.post_request(peer, followed);
    verdict.expect("ibv_post_send", error, expected.post_error);
    if (!error) {
        ibv_wc completion;
        for (unsigned i = 0; i < row.fault.ahead + row.fault.invalidate_first; i++) {
            if (!ends.next(ends.send_cq, completion)) throw Trouble("a request before it does not complete");
            verdict.expect("status of a request before it", completion.status, IBV_WC_SUCCESS);
            verdict.expect("its wr_id", static_cast<long long>(completion.wr_id), kAhead);
        }
        if (!ends.next(ends.send_cq, completion)) throw Trouble("the request does not complete");
        verdict.expect("wr_id", static_cast<long long>(completion.wr_id),
                       static_cast<long long>(0xfedcba9876543210));
        verdict.expect("status", completion.status, expected.status);
        if (device.is_verbena) verdict.expect("vendor_err", completion.vendor_err, expected.vendor);
        if (followed) {
            if (!ends.next(ends.send_cq, completion)) throw Trouble("the request behind it is not flushed");
            verdict.expect("status of the request behind it", completion.status, IBV_WC_WR_FLUSH_ERR);
        }
    }
    verdict.expect("state", ends.state(expected.state), expected.state);
    if (error || expected.status != IBV_WC_SUCCESS) check_reason(verdict, logged, device);
}

void respond(Ends& ends, const Row& row, const Device& device, std::uint32_t key, long long logged,
             Verdict& verdict) {
    Responder expected = row.responder;
    if (!device.is_verbena) {
        expected.event = kNone;
        if (row.rxe_responder) expected = *row.rxe_responder;
    }
    if (row.fault.peer_vanishes) return;
    const bool invalidates = row.opcode == IBV_WR_SEND_WITH_INV || row.fault.invalidate_first;
    ibv_wc completion;
    if (expected.receive_status == kNone) {
        if (ends.next(ends.receive_cq, completion, 0)) verdict.expect("receive", completion.status, kNone);
    } else if (!ends.next(ends.receive_cq, completion)) {
        verdict.say("the receive does not complete");
    } else {
        verdict.expect("receive's status", completion.status, expected.receive_status);
        verdict.expect("receive's wr_id", static_cast<long long>(completion.wr_id), 0x1122334455667788);
        if (device.is_verbena) verdict.expect("receive's vendor_err", completion.vendor_err, expected.vendor);
        // soft-RoCE sets the kernel's flag, a bit that says something else to programs.
        if (device.is_verbena && invalidates && expected.receive_status == IBV_WC_SUCCESS) {
            verdict.expect("flag of an invalidated key", completion.wc_flags & IBV_WC_WITH_INV,
                           IBV_WC_WITH_INV);
            verdict.expect("invalidated_rkey", completion.invalidated_rkey, key);
        }
    }
    verdict.expect("responder's state", ends.state(expected.state), expected.state);
    verdict.expect("asynchronous event", ends.event(expected.event), expected.event);
    if (expected.state == IBV_QPS_ERR) check_reason(verdict, logged, device);
}

// One row. Both sides take the same steps, so that trouble on one does not stop the other.
bool run_row(Wire& wire, Device& device, const Options& options, const Row& row, bool responds) {
    Verdict verdict;
    const auto began = std::chrono::steady_clock::now();
    const long long logged = log_size();
    Ends ends(device, options.gid_index, row, responds);
    const Address mine = ends.address();
    Address peer = wire.exchange(mine);
    std::uint32_t window = 0;
    if (row.fault.ahead > 0 && !(device.is_verbena && peer.is_verbena)) {
        std::printf("not run %s\n", row.cause);
        return true;
    }
    try {
        ends.connect(peer);
        if (responds) window = ends.window_key(peer);
        if (responds && row.fault.receive == Receive::posted) ends.post_receive();
        if (responds && row.fault.peer_vanishes) ends.destroy_qp();
    } catch (const Trouble& trouble) {
        verdict.say(trouble.what());
    }
    const std::uint32_t peers_window = wire.exchange(window);
    if (peers_window) peer.rkey = peers_window;
    try {
        if (!responds) request(ends, row, peer, device, verdict);
        if (responds && row.fault.receive == Receive::late) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            ends.post_receive();
        }
    } catch (const Trouble& trouble) {
        verdict.say(trouble.what());
    }
    wire.barrier();
    try {
        if (responds) respond(ends, row, device, window ? window : mine.rkey, logged, verdict);
    } catch (const Trouble& trouble) {
        verdict.say(trouble.what());
    }
    wire.barrier();
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
    std::printf("%s %-9s %4lld ms  %s%s%s\n", verdict.text().empty() ? "ok    " : "FAILED",
                responds ? "responder" : "requester", static_cast<long long>(took.count()), row.cause,
                verdict.text().empty() ? "" : ": ", verdict.text().c_str());
    return verdict.text().empty();
}

int run(int socket, const Options& options, bool responds) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    timeval patience{2 * kPatienceMs / 1000, 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int failed = 0;
    try {
        Wire wire(socket);
        Device device(options.device);
        for (const Row& row : rows()) failed += !run_row(wire, device, options, row, responds);
    } catch (const Trouble& trouble) {
        std::printf("FAILED %s: %s\n", responds ? "responder" : "requester", trouble.what());
        return 1;
    }
    std::printf("%s: %d of %zu rows failed\n", responds ? "responder" : "requester", failed, rows().size());
    std::fflush(stdout);
    return failed != 0;
}

int serve(int listener, const Options& options) {
    const int socket_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    close(listener);
    return socket_ < 0 ? 2 : run(socket_, options, true);
}

int run_pair(Options& options) {
    options.port = 0;
    const int listener = listen_on(options.port);
    if (listener < 0) return 2;
    std::fflush(stdout);
    const pid_t client = fork();
    if (client < 0) return 2;
    if (client == 0) {
        // A log of its own, or a reason could be the other side's.
        if (const char* setting = std::getenv("VERBENA_LOG"); setting && std::strstr(setting, ",file="))
            setenv("VERBENA_LOG", (std::string(setting) + ".requester").c_str(), 1);
        const int socket_ = connect_to("127.0.0.1", options.port);
        std::exit(socket_ < 0 ? 2 : run(socket_, options, false));
    }
    const int served = serve(listener, options);
    int status = 0;
    waitpid(client, &status, 0);
    return served || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        const std::string word = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : "";
        if (word == "--pair") {
            options.pair = true;
            continue;
        }
        if (word[0] != '-') {
            options.host = word;
            continue;
        }
        if (word == "-d") options.device = value;
        if (word == "-x") options.gid_index = static_cast<unsigned>(std::atoi(value));
        if (word == "-p") options.port = static_cast<std::uint16_t>(std::atoi(value));
        i++;
    }
    if (options.pair) return run_pair(options);
    const int socket_ =
        options.host.empty() ? listen_on(options.port) : connect_to(options.host.c_str(), options.port);
    if (socket_ < 0) {
        std::printf("FAILED side channel, port %u: %s\n", options.port, std::strerror(errno));
        return 2;
    }
    return options.host.empty() ? serve(socket_, options) : run(socket_, options, false);
}
