#include "verbs/planned_faults.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "adapter/capture.h"
#include "base/call_fault.h"
#include "base/no_signals.h"
#include "faults/program.h"
#include "host/client.h"
#include "verbs/last_thread.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

// Called with locks held; a thread of its own waits for them, and for the link to come back.
void port_fault(const faults::Rule& rule) {
    const NoSignals none;
    std::thread([rule] {
        own_thread_begins();
        if (Process* process = Process::current_one()) process->fail_port(rule);
        own_thread_ends();
    }).detach();
}

// Stands there until the first call: nothing runs when the library is loaded.
class Environment final : public CallFaults {
   public:
    int error_of(const char* call) override {
        faults::start_from_environment(port_fault);
        CallFaults* expected = this;
        call_faults.compare_exchange_strong(expected, nullptr);  // no plan, or none about calls
        CallFaults* planned = call_faults.load();
        return planned && planned != this ? planned->error_of(call) : 0;
    }
};

constinit Environment environment;

}  // namespace

void read_plan() { faults::start_from_environment(port_fault); }

void look_at_plan() {
    host::FaultsReply reply;
    int fd = -1;
    if (host::call(host::Command::faults, host::FaultsRequest{}, reply, -1, &fd) != 0 || fd < 0) return;
    faults::start(fd, port_fault);
    close(fd);
}

void look_at_captures(bool (*is_local)(const Gid& address)) {
    std::vector<int> files;
    host::CaptureRequest request;
    for (host::CaptureReply reply{.count = 1}; request.index < reply.count; request.index++) {
        int fd = -1;
        if (host::call(host::Command::capture, request, reply, -1, &fd) != 0) break;
        if (fd >= 0) files.push_back(fd);
    }
    adapter::share_captures(files, is_local);
}

void device_opened() { faults::device_opened(port_fault); }

void Process::fail_port(const faults::Rule& rule) {
    if (rule.action == faults::Action::device_fatal) {
        for_each_context([](Context& context) { context.failed = true; });
        return look_at_devices();
    }
    faults::set_link_down(true);
    look_at_devices();
    if (rule.time == 0) return;
    timespec left{rule.time / kSecond, rule.time % kSecond};
    while (nanosleep(&left, &left) != 0) {
    }
    faults::set_link_down(false);
    look_at_devices();
}

}  // namespace verbena::verbs

namespace verbena {

constinit std::atomic<CallFaults*> call_faults{&verbs::environment};

}  // namespace verbena
