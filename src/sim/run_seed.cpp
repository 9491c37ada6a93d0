#include "sim/run_seed.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "sim/cm_run.h"
#include "sim/services_run.h"

namespace verbena::sim {
namespace {

// Of four seeds, one is the connection manager's and one all services'.
constexpr std::uint64_t kKinds = 4, kManagers = 0, kServices = 2;

}  // namespace

Outcome run_seed(std::uint64_t seed) {
    if (seed % kKinds == kManagers) return run_connection_managers(seed);
    return seed % kKinds == kServices ? run_services(seed) : run_queue_pairs(seed);
}

void run_batch(const Batch& batch, BatchResult& result) {
    std::mutex lock;
    std::atomic<std::uint64_t> next{0};
    std::atomic<bool> stop{false};
    auto work = [&] {
        Coverage coverage;
        std::uint64_t runs = 0;
        for (std::uint64_t i; !stop && (i = next++) < batch.count;) {
            Outcome outcome = run_seed(batch.first + i);
            coverage.add(outcome.coverage);
            runs++;
            if (outcome.violation.empty()) continue;
            std::lock_guard guard(lock);
            result.failures.push_back({batch.first + i, std::move(outcome)});
            if (result.failures.size() >= batch.most_failures) stop = true;
        }
        std::lock_guard guard(lock);
        result.coverage.add(coverage);
        result.runs += runs;
    };
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < batch.jobs; i++) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    std::ranges::sort(result.failures, {}, &Failure::seed);
}

}  // namespace verbena::sim
