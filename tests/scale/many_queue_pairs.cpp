// One process with many connected RC queue pairs: all send at the same instant and every byte arrives;
// creating, connecting and destroying one costs as much among ten thousand as among a thousand; an idle one
// needs little memory.
//
//     many_queue_pairs [COUNT]        prints what it measured; exit status 1 says what did not hold
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <vector>

#include "two_processes.h"
#include "verbs_pair.h"

using namespace verbena::scale;

namespace {

constexpr unsigned kSteps = 5;
constexpr double kMaxGrowth = 2.0;  // of the cost of one, from the first step to the last
// Each by a new process: a machine that for a moment is slow to give pages is not so in each.
constexpr unsigned kMaxRounds = 3;
constexpr double kMaxIdleKib = 16.0;  // of one connected queue pair with 4 + 4 requests
constexpr double kPatience = 40;      // seconds for the exchange

// Of the processor, so that what else runs on the machine does not count.
double seconds() {
    rusage use;
    getrusage(RUSAGE_SELF, &use);
    return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

double resident_kib() {
    std::ifstream file("/proc/self/statm");
    long total = 0, resident = 0;
    file >> total >> resident;
    return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / 1024;
}

class Meter {
   public:
    explicit Meter(const char* what, unsigned count) : what_(what), step_(count / kSteps) {}

    void one() {
        if (++done_ % step_ != 0) return;
        const double now = seconds();
        costs_.push_back((now - begin_) / step_ * 1e6);
        begin_ = now;
    }
    bool constant() const {
        std::printf("%s:", what_);
        for (double cost : costs_) std::printf(" %.1f", cost);
        std::printf(" us each\n");
        return costs_.back() < kMaxGrowth * costs_.front() + 1;
    }

   private:
    const char* what_;
    const unsigned step_;
    unsigned done_ = 0;
    double begin_ = seconds();
    std::vector<double> costs_;
};

// Each sends eight bytes of its own to its partner.
void exchange(const Device& device, const std::vector<ibv_qp*>& qps) {
    std::vector<std::uint64_t> sent(qps.size()), received(qps.size());
    ibv_mr* from = device.register_memory(sent.data(), sent.size() * 8);
    ibv_mr* to = device.register_memory(received.data(), received.size() * 8);
    for (std::size_t i = 0; i < qps.size(); i++) {
        sent[i] = i * 0x9e3779b97f4a7c15;
        post_receive(qps[i], word(received[i], to));
    }
    for (std::size_t i = 0; i < qps.size(); i++) post_send(qps[i], word(sent[i], from));
    const auto begin = std::chrono::steady_clock::now();
    std::size_t done = 0;
    while (done < 2 * qps.size()) {
        ibv_wc wc[64];
        done += static_cast<std::size_t>(take_completions(device.cq, wc, 64));
        if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > kPatience) {
            errno = ETIMEDOUT;
            fail("the exchange");
        }
    }
    for (std::size_t i = 0; i < qps.size(); i++)
        if (received[i] != sent[i ^ 1]) {
            errno = EBADMSG;
            fail("what arrived");
        }
    ibv_dereg_mr(from);
    ibv_dereg_mr(to);
}

// Exits with 1 if something did not hold.
[[noreturn]] void measure(unsigned count) {
    const Device device(2 * count);
    std::vector<ibv_qp*> qps;
    const double before = resident_kib();
    Meter create("create", count);
    for (unsigned i = 0; i < count; i++) {
        qps.push_back(device.create_qp());
        create.one();
    }
    Meter bring_up("connect", count);
    for (unsigned i = 0; i < count; i++) {
        connect(qps[i], device.gid, qps[i ^ 1]->qp_num);
        bring_up.one();
    }
    const double each = (resident_kib() - before) / count;
    exchange(device, qps);
    Meter destroy("destroy", count);
    for (ibv_qp* qp : qps) {
        if (ibv_destroy_qp(qp)) fail("ibv_destroy_qp");
        destroy.one();
    }
    std::printf("%u queue pairs, %.1f KiB each\n", count, each);
    const bool constant = create.constant() & bring_up.constant() & destroy.constant();
    if (!constant) std::fprintf(stderr, "many_queue_pairs: the cost of one grows with their number\n");
    if (each > kMaxIdleKib) std::fprintf(stderr, "many_queue_pairs: more than %.0f KiB each\n", kMaxIdleKib);
    std::exit(constant && each <= kMaxIdleKib ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
    const unsigned count = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 10'000;
    if (count < 2 * kSteps || count % 2 != 0) return 2;
    for (unsigned round = 0; round < kMaxRounds; round++)
        if (succeeded(start([count] { measure(count); }))) return 0;
    return 1;
}
