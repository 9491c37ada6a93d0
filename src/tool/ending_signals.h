// The signals that end a command, which it takes to clean up behind itself.
#pragma once

#include <signal.h>

#include <vector>

namespace verbena::tool {

// But for those that are ignored (nohup, a job in the background), which stay so.
inline std::vector<int> ending_signals() {
    std::vector<int> signals;
    for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        struct sigaction now {};
        if (sigaction(each, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) signals.push_back(each);
    }
    return signals;
}

}  // namespace verbena::tool
