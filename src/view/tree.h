// What sysfs and /dev would show of our devices if a kernel had them: names, contents and links, as data.
//
// The layout is the kernel's (Documentation/ABI/stable/sysfs-class-infiniband). Paths are absolute; a link's
// target is what readlink(2) answers. What lies under kRoots is all of it; other folders are left alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "host/device_table.h"

namespace verbena::view {

// The folders that are shown instead of the kernel's.
inline constexpr const char* kRoots[] = {
    "/sys/class/infiniband",
    "/sys/class/infiniband_verbs",
    "/sys/class/misc/rdma_cm",
    "/sys/devices/virtual/infiniband",
    "/sys/devices/virtual/infiniband_verbs",
    "/sys/devices/virtual/verbena",
    "/dev/infiniband",
};

// A port's folders of counters.
inline constexpr const char* kPortCounters = "/counters";
inline constexpr const char* kHwCounters = "/hw_counters";

struct Shown {
    host::Device device;
    // The device that the network interface belongs to, as a path in the real sysfs; empty for a virtual
    // interface, whose parent is made up.
    std::string parent;
};

struct Entry {
    enum class Kind { folder, file, link };
    Kind kind;
    std::string path;
    std::string text;  // a file's content, a link's target

    friend bool operator==(const Entry&, const Entry&) = default;
};

// Folders come before what is in them.
std::vector<Entry> describe(std::span<const Shown> devices);

}  // namespace verbena::view
