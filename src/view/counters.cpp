#include "view/counters.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "host/connection.h"
#include "observe/counters.h"
#include "observe/snapshot.h"
#include "view/tree.h"

namespace verbena::view {
namespace {

// Who has the old file open goes on reading the old value.
void write_value(const std::string& root, const std::string& path, std::uint64_t value) {
    std::array<char, 24> line;
    const int size =
        std::snprintf(line.data(), line.size(), "%llu\n", static_cast<unsigned long long>(value));
    const std::string fresh = root + "/value-" + std::to_string(gettid());
    const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
    if (fd < 0) return;
    const bool whole = write(fd, line.data(), static_cast<std::size_t>(size)) == size;
    close(fd);
    if (!whole || rename(fresh.c_str(), path.c_str()) != 0) unlink(fresh.c_str());
}

// `wanted`: the name of a counter, or empty for all.
void write_folder(const std::string& root, const std::string& folder, std::string_view wanted,
                  std::span<const observe::Counter> counters, const adapter::PortTotals& totals) {
    for (const observe::Counter& counter : counters)
        if (wanted.empty() || wanted == counter.name)
            write_value(root, folder + "/" + counter.name, counter.value(totals));
}

std::string_view name_in(const char* path) {
    const std::string_view text = path;
    const std::size_t folder = text.find("counters");  // also the end of "hw_counters"
    const std::size_t begin = text.find_first_not_of('/', std::min(text.find('/', folder), text.size()));
    return begin == std::string_view::npos ? std::string_view{} : text.substr(begin);
}

}  // namespace

void write_counters(const char* root, const char* path) {
    host::Connection connection;
    if (host::open_connection(connection, host::kLookersPatience) != 0) return;
    observe::Snapshot now;
    const int error = observe::take_snapshot(connection, observe::Depth::counters, now);
    munmap(const_cast<host::DeviceTable*>(connection.table), sizeof(host::DeviceTable));
    close(connection.lifeline);
    host::close_connection(connection);
    if (error) return;
    const std::string_view wanted = name_in(path);
    for (const host::Device& device : now.devices) {
        const std::string port =
            std::string(root) + "/sys/devices/virtual/infiniband/" + device.name.data() + "/ports/1";
        write_folder(root, port + kPortCounters, wanted, observe::port_counters(), now.ports[device.index]);
        write_folder(root, port + kHwCounters, wanted, observe::hw_counters(), now.ports[device.index]);
    }
}

}  // namespace verbena::view
