#include "tool/look.h"

#include <pwd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "base/reason.h"

namespace verbena::tool {

Look::~Look() {
    if (!connected_) return;
    munmap(const_cast<host::DeviceTable*>(connection_.table), sizeof(host::DeviceTable));
    close(connection_.lifeline);
    host::close_connection(connection_);
}

int Look::take(observe::Depth depth, observe::Snapshot& out) {
    if (!connected_) {
        if (int error = host::open_connection(connection_, host::kLookersPatience)) return error;
        connected_ = true;
    }
    return observe::take_snapshot(connection_, depth, out);
}

bool look_once(observe::Depth depth, observe::Snapshot& out) {
    Look look;
    if (look.take(depth, out) == 0) return true;
    std::fprintf(stderr, "verbena: %s\n", last_reason());
    return false;
}

void tell_that_there_is_no_program(const std::string& pid) {
    std::fprintf(stderr, "verbena: no program%s%s has opened a device (verbena ps shows them)\n",
                 pid.empty() ? "" : " of pid ", pid.c_str());
}

std::string user_name(std::uint32_t user) {
    const passwd* entry = getpwuid(user);
    return entry ? entry->pw_name : std::to_string(user);
}

std::string short_number(double value) {
    constexpr double kStep = 1000, kShortest = 10 * kStep;
    const char* prefix = "";
    for (const char* next : {"k", "M", "G", "T", "P", "E"}) {
        if (*prefix ? value < kStep : value < kShortest) break;
        value /= kStep;
        prefix = next;
    }
    char text[32];
    std::snprintf(text, sizeof text, *prefix ? "%.2f%s" : "%.0f%s", value, prefix);
    return text;
}

std::string device_name(const observe::Snapshot& snapshot, std::uint32_t index) {
    const host::Device* device = snapshot.device(index);
    return device ? device->name.data() : "-";
}

}  // namespace verbena::tool
