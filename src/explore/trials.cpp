#include "explore/trials.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "faults/words.h"

namespace verbena::explore {
namespace {

// What the call's manual page names first, roughly.
const char* likely_errno(std::string_view call) {
    constexpr std::string_view kNeedsMemory[] = {"create", "alloc", "reg_",       "open",
                                                 "post",   "join",  "getaddrinfo"};
    for (const std::string_view word : kNeedsMemory)
        if (call.find(word) != std::string_view::npos) return "ENOMEM";
    if (call.find("resolve") != std::string_view::npos) return "ENODEV";
    if (call == "rdma_connect" || call == "rconnect") return "ECONNREFUSED";
    if (call.find("bind") != std::string_view::npos || call.find("listen") != std::string_view::npos)
        return "EADDRINUSE";
    return "EINVAL";
}

bool can_fail(const std::string& call) {
    const auto calls = faults::failing_calls();
    return std::binary_search(calls.begin(), calls.end(), std::string_view(call));
}

// What gives something back fails with a wrong argument only; a program that goes on then leaks, or waits for
// an acknowledgement, by our doing.
bool gives_back(std::string_view call) {
    constexpr std::string_view kWords[] = {"destroy", "dealloc", "dereg", "close", "free", "_ack_"};
    return std::any_of(std::begin(kWords), std::end(kWords),
                       [&](std::string_view word) { return call.find(word) != std::string_view::npos; });
}

bool is_reliable(const std::string& packet) {
    return packet.rfind("RC_", 0) == 0 || packet.rfind("XRC_", 0) == 0;
}

}  // namespace

std::vector<Trial> trials_for(const Recorded& run) {
    std::vector<Trial> trials;
    for (const auto& [call, times] : run.calls) {
        if (!can_fail(call) || gives_back(call)) continue;
        const auto fail = [&, &name = call](unsigned nth) {
            trials.push_back({Subject::calls, "fail call=" + name + " nth=" + std::to_string(nth) +
                                                  " errno=" + likely_errno(name)});
        };
        for (unsigned nth = 1; nth <= std::min(times, kFirstCalls); nth++) fail(nth);
        if (times > kFirstCalls) fail(times);
    }
    for (const auto& [message, times] : run.messages)
        for (const char* action : {"drop", "delay=300ms", "duplicate"})
            trials.push_back({Subject::messages, std::string(action) + " cm=" + message + " nth=1", true});
    if (run.messages.count("REQ"))
        trials.push_back({Subject::messages, "refuse cm=REQ nth=1 reason=consumer_reject"});
    for (const auto& [packet, times] : run.packets) {
        for (const char* action : {"drop", "delay=50ms", "duplicate"})
            trials.push_back({Subject::packets, std::string(action) + " opcode=" + packet + " nth=1",
                              is_reliable(packet)});
        const bool request = packet.find("SEND") != std::string::npos ||
                             packet.find("WRITE") != std::string::npos ||
                             packet.find("READ_REQUEST") != std::string::npos;
        if (is_reliable(packet) && request)
            trials.push_back({Subject::packets, "nak=remote_operational opcode=" + packet + " nth=1"});
    }
    return trials;
}

}  // namespace verbena::explore
