#include "view/current.h"

#include <dirent.h>
#include <limits.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/reason.h"
#include "host/connection.h"
#include "host/device_table.h"
#include "host/port.h"
#include "view/store.h"
#include "view/tree.h"

namespace verbena::view {
namespace {

constexpr std::int64_t kFreshFor = 1;  // seconds

// What was found last. Never freed: a program may be using the path. There are as many as there were changes.
struct Found {
    std::atomic<std::int64_t> at;
    const uid_t user;
    const int error;  // 0, or why there is no root
    const std::string root;
};
std::atomic<Found*> last_found{nullptr};

std::int64_t seconds_now() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

// Whether this sysfs shows the device's network interface, and not one of the same name elsewhere: it stays
// that of the network namespace in which it was mounted.
bool shows_interface(const host::Device& device) {
    const std::string file = std::string("/sys/class/net/") + device.netdev.data() + "/address";
    std::FILE* stream = std::fopen(file.c_str(), "re");
    if (!stream) return false;
    unsigned byte[6] = {};
    const int parts = std::fscanf(stream, "%2x:%2x:%2x:%2x:%2x:%2x", &byte[0], &byte[1], &byte[2], &byte[3],
                                  &byte[4], &byte[5]);
    std::fclose(stream);
    std::array<std::uint8_t, 6> mac;
    for (unsigned i = 0; i < mac.size(); i++) mac[i] = static_cast<std::uint8_t>(byte[i]);
    return parts == 6 && host::eui64(mac) == device.node_guid;
}

// The device of a network interface in the real sysfs; empty if it has none or shares it with another
// interface.
std::string parent_of(const host::Device& device) {
    char path[PATH_MAX];
    const std::string link = std::string("/sys/class/net/") + device.netdev.data() + "/device";
    if (!shows_interface(device) || !realpath(link.c_str(), path)) return {};
    DIR* stream = opendir((std::string(path) + "/net").c_str());
    if (!stream) return {};
    unsigned others = 0, found = 0;
    while (dirent* entry = readdir(stream)) {
        if (entry->d_name[0] == '.') continue;
        (std::strcmp(entry->d_name, device.netdev.data()) == 0 ? found : others)++;
    }
    closedir(stream);
    if (!found || others) return {};
    // Between a virtio device and its function of the PCI bus there is a folder that is nothing of the bus.
    char* const name = std::strrchr(path, '/');
    if (std::strncmp(name, "/virtio", 7) == 0) *name = '\0';
    return path;
}

// One conversation with the daemon, which leaves nothing open.
int read_devices(std::vector<Shown>& devices) {
    host::Connection connection;
    if (int error = host::open_connection(connection, host::kLookersPatience)) return error;
    const host::DeviceTable& table = *connection.table;
    for (unsigned slot = 0; slot < table.count && slot < host::kMaxDevices; slot++) {
        Shown shown;
        if (!host::read_device(table, slot, shown.device) || !host::is_shown(shown.device)) continue;
        shown.parent = parent_of(shown.device);
        devices.push_back(std::move(shown));
    }
    munmap(const_cast<host::DeviceTable*>(connection.table), sizeof(host::DeviceTable));
    close(connection.lifeline);
    host::close_connection(connection);
    return 0;
}

int find(std::string& root) {
    std::vector<Shown> devices;
    if (int error = read_devices(devices)) return error;
    const std::vector<Entry> tree = describe(devices);
    const char* runtime = secure_getenv("XDG_RUNTIME_DIR");
    int error = ENOENT;
    for (const char* base : {runtime, "/dev/shm", "/tmp"}) {
        std::string folder;
        if (!base || base[0] != '/' || private_folder(base, folder) != 0) continue;
        error = store(folder, tree, root);
        if (!error) return 0;
    }
    return fail(error, "no folder for the view of the devices: $XDG_RUNTIME_DIR, /dev/shm, /tmp");
}

}  // namespace

const char* current_root() {
    const std::int64_t now = seconds_now();
    const uid_t user = geteuid();
    Found* known = last_found.load(std::memory_order_acquire);
    if (!known || known->user != user || now - known->at.load(std::memory_order_relaxed) >= kFreshFor) {
        std::string root;
        const int error = find(root);
        if (known && known->user == user && known->error == error && known->root == root) {
            known->at.store(now, std::memory_order_relaxed);
        } else {
            auto* fresh = new (std::nothrow) Found{now, user, error, std::move(root)};
            if (!fresh) return nullptr;
            last_found.store(fresh, std::memory_order_release);
            known = fresh;
        }
    }
    if (known->error) {
        errno = known->error;
        return nullptr;
    }
    return known->root.c_str();
}

}  // namespace verbena::view
