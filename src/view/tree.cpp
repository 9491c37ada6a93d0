#include "view/tree.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "host/port.h"
#include "observe/counters.h"

namespace verbena::view {
namespace {

constexpr unsigned kVerbsMajor = 231;  // of /dev/infiniband/uverbs*, as dev_t numbers are assigned
constexpr unsigned kFirstVerbsMinor = 192;

class Builder {
   public:
    void folder(std::string path) { entries_.push_back({Entry::Kind::folder, std::move(path), {}}); }
    void file(std::string path, std::string line) {
        entries_.push_back({Entry::Kind::file, std::move(path), std::move(line) + "\n"});
    }
    void link(std::string path, std::string target) {
        entries_.push_back({Entry::Kind::link, std::move(path), std::move(target)});
    }
    std::vector<Entry> take() { return std::move(entries_); }

   private:
    std::vector<Entry> entries_;
};

// Eight groups, as the kernel writes a GID (IPv4 included).
std::string gid_groups(const Gid& gid) {
    std::string text;
    for (unsigned i = 0; i < gid.bytes.size(); i += 2) {
        char group[8];
        std::snprintf(group, sizeof group, "%s%02x%02x", i ? ":" : "", gid.bytes[i], gid.bytes[i + 1]);
        text += group;
    }
    return text;
}

std::string hexadecimal(unsigned width, unsigned value) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%0*x", static_cast<int>(width), value);
    return text;
}

void add_gids(Builder& out, const std::string& port, const host::Device& device) {
    for (const char* folder : {"/gids", "/gid_attrs", "/gid_attrs/types", "/gid_attrs/ndevs"})
        out.folder(port + folder);
    for (unsigned i = 0; i < host::kMaxGids; i++) {
        const auto entry = [&](const char* folder) { return port + folder + std::to_string(i); };
        out.file(entry("/gids/"), gid_groups(device.gid_valid[i] ? device.gids[i] : Gid{}));
        // The kernel has these of empty entries, too, but reading them fails; a plain file can only be
        // absent.
        if (!device.gid_valid[i]) continue;
        out.file(entry("/gid_attrs/types/"), "RoCE v2");
        out.file(entry("/gid_attrs/ndevs/"), device.netdev.data());
    }
}

void add_port(Builder& out, const std::string& port, const host::Device& device) {
    const host::Port known = host::port_of(device);
    out.folder(port);
    out.file(port + "/cap_mask", hexadecimal(8, host::kPortCapabilities));
    out.file(port + "/lid", "0x0");
    out.file(port + "/lid_mask_count", "0");
    out.file(port + "/link_layer", "Ethernet");
    out.file(port + "/phys_state", host::phys_state_text(known));
    out.file(port + "/rate", host::rate_text(known));
    out.file(port + "/sm_lid", "0x0");
    out.file(port + "/sm_sl", "0");
    out.file(port + "/state", host::state_text(known));
    // The values of this moment are written when somebody opens one (counters.cpp).
    out.folder(port + kPortCounters);
    for (const observe::Counter& counter : observe::port_counters())
        out.file(port + kPortCounters + "/" + counter.name, "0");
    out.folder(port + kHwCounters);
    for (const observe::Counter& counter : observe::hw_counters())
        out.file(port + kHwCounters + "/" + counter.name, "0");
    out.file(port + kHwCounters + "/lifespan", "0");  // milliseconds that a value may be old
    out.folder(port + "/pkeys");
    out.file(port + "/pkeys/0", "0xffff");
    add_gids(out, port, device);
}

// The parent of a virtual interface's device: what programs look for behind `device/`.
void add_parent(Builder& out, const std::string& name, const host::Device& device) {
    const std::string parent = "/sys/devices/virtual/verbena/" + name;
    const std::string netdev = device.netdev.data();
    out.folder(parent);
    out.file(parent + "/numa_node", "-1");
    out.file(parent + "/uevent", "DRIVER=verbena");
    out.folder(parent + "/infiniband");
    out.link(parent + "/infiniband/" + name, "../../../infiniband/" + name);
    out.folder(parent + "/infiniband_verbs");
    const std::string verbs = "uverbs" + std::to_string(device.index);
    out.link(parent + "/infiniband_verbs/" + verbs, "../../../infiniband_verbs/" + verbs);
    out.folder(parent + "/net");
    out.link(parent + "/net/" + netdev, "/sys/class/net/" + netdev);
}

void add_device(Builder& out, const Shown& shown) {
    const host::Device& device = shown.device;
    const std::string name = device.name.data();
    const std::string number = std::to_string(device.index);
    const std::string guid = host::guid_text(device.node_guid);
    const std::string parent = shown.parent.empty() ? "../../verbena/" + name : shown.parent;

    const std::string at = "/sys/devices/virtual/infiniband/" + name;
    out.link("/sys/class/infiniband/" + name, "../../devices/virtual/infiniband/" + name);
    out.folder(at);
    out.link(at + "/device", parent);
    out.link(at + "/subsystem", "../../../../class/infiniband");
    out.file(at + "/board_id", host::kBoardId);
    out.file(at + "/fw_ver", VERBENA_BUILD_ID);
    out.file(at + "/hca_type", "Verbena");
    out.file(at + "/hw_rev", "0x1");
    out.file(at + "/node_desc", name);
    out.file(at + "/node_guid", guid);
    out.file(at + "/node_type", "1: CA");
    out.file(at + "/sys_image_guid", guid);
    out.file(at + "/uevent", "NAME=" + name);
    out.folder(at + "/ports");
    add_port(out, at + "/ports/1", device);

    const std::string verbs = "/sys/devices/virtual/infiniband_verbs/uverbs" + number;
    const std::string minor = std::to_string(kFirstVerbsMinor + device.index);
    out.link("/sys/class/infiniband_verbs/uverbs" + number,
             "../../devices/virtual/infiniband_verbs/uverbs" + number);
    out.folder(verbs);
    out.link(verbs + "/device", parent);
    out.link(verbs + "/subsystem", "../../../../class/infiniband_verbs");
    out.file(verbs + "/abi_version", "1");
    out.file(verbs + "/dev", std::to_string(kVerbsMajor) + ":" + minor);
    out.file(verbs + "/ibdev", name);
    out.file(verbs + "/uevent", "MAJOR=" + std::to_string(kVerbsMajor) + "\nMINOR=" + minor +
                                    "\nDEVNAME=infiniband/uverbs" + number);
    // A character device that opens for anybody; the libraries need none.
    out.link("/dev/infiniband/uverbs" + number, "/dev/null");
    if (shown.parent.empty()) add_parent(out, name, device);
}

}  // namespace

std::vector<Entry> describe(std::span<const Shown> devices) {
    Builder out;
    for (const char* folder :
         {"/sys", "/sys/class", "/sys/class/misc", "/sys/devices", "/sys/devices/virtual", "/dev"})
        out.folder(folder);
    for (const char* root : kRoots) out.folder(root);
    out.file("/sys/class/infiniband_verbs/abi_version", "6");
    out.file("/sys/class/misc/rdma_cm/abi_version", "4");
    out.link("/dev/infiniband/rdma_cm", "/dev/null");
    for (const Shown& shown : devices) add_device(out, shown);
    return out.take();
}

}  // namespace verbena::view
