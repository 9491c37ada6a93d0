#include "rspreload/settings.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/own_pid.h"
#include "rspreload/config.h"

namespace verbena::rspreload {
namespace {

bool is_for_rdma(std::string_view setting) {
    constexpr std::array<std::string_view, 4> kBeginnings{"VERBENA_", "RDMAV_", "IBV_", "MLX5_"};
    return std::ranges::any_of(kBeginnings,
                               [&](std::string_view begin) { return setting.starts_with(begin); });
}

struct Setting {
    std::string name, value;
};

std::vector<Setting> read_settings() {
    std::vector<Setting> found;
    for (char** each = environ; each && *each; each++) {
        const std::string_view setting = *each;
        const std::size_t end = setting.find('=');
        if (end == std::string_view::npos || !is_for_rdma(setting)) continue;
        found.push_back({std::string(setting.substr(0, end)), std::string(setting.substr(end + 1))});
    }
    return found;
}

const std::vector<Setting>& settings() {
    static const auto* const all = new std::vector<Setting>(read_settings());  // outlives the last calls
    return *all;
}

[[gnu::constructor]] void remember_settings() {
    settings();
    fork_support();
}

}  // namespace

void restore_settings() {
    static std::atomic<pid_t> done{0};
    if (done.exchange(own_pid()) == own_pid()) return;
    for (const Setting& each : settings()) setenv(each.name.c_str(), each.value.c_str(), 0);
}

}  // namespace verbena::rspreload
