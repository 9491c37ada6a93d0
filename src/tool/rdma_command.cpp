#include "tool/rdma_command.h"

#include <getopt.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/reason.h"
#include "host/client.h"
#include "host/port.h"
#include "tool/inherited.h"
#include "tool/program_check.h"
#include "tool/rdma_output.h"
#include "tool/rdma_words.h"

namespace verbena::tool {
namespace {

constexpr const char* kAnswers =
    "Verbena answers rdma [-j] [-p] [-d] {dev|link|resource|statistic} [show ...]; its devices are there by "
    "themselves, one per network interface";

// The bits of the port's CapabilityMask by iproute2's names.
constexpr struct {
    unsigned bit;
    const char* name;
} kCapabilities[] = {{16, "CM"}, {26, "IP_BASED_GIDS"}};

std::vector<std::string> capability_names() {
    std::vector<std::string> names;
    for (const auto& [bit, name] : kCapabilities)
        if (host::kPortCapabilities >> bit & 1) names.emplace_back(name);
    return names;
}

Json describe_device(const host::Device& device) {
    const std::string guid = host::guid_text(device.node_guid);
    return {{"ifindex", device.index}, {"ifname", device.name.data()},
            {"node_type", "ca"},       {"fw", VERBENA_VERSION},
            {"node_guid", guid},       {"sys_image_guid", guid}};
}

Json describe_link(const host::Device& device, const RdmaOptions& options) {
    const bool up = device.active;
    Json link = {{"ifindex", device.index},
                 {"ifname", device.name.data()},
                 {"port", 1},
                 {"state", up ? "ACTIVE" : "DOWN"},
                 {"physical_state", up ? "LINK_UP" : "DISABLED"},
                 {"netdev", device.netdev.data()}};
    if (options.json || options.details) link["netdev_index"] = device.interface_index;
    if (options.details) link["caps"] = capability_names();
    return link;
}

// Shows all devices, or that of the name (for a link: NAME or NAME/1).
int show(const host::DeviceTable& table, const RdmaOptions& options, bool link, const char* wanted) {
    std::string name = wanted ? wanted : "";
    if (link && name.size() > 2 && name.ends_with("/1")) name.resize(name.size() - 2);
    Json all = Json::array();
    for (unsigned slot = 0; slot < table.count && slot < host::kMaxDevices; slot++) {
        host::Device device;
        if (!host::read_device(table, slot, device) || !host::is_shown(device) ||
            (wanted && name != device.name.data()))
            continue;
        all.push_back(link ? describe_link(device, options) : describe_device(device));
    }
    if (wanted && all.empty()) {
        std::fprintf(stderr, "Wrong device name %s\n", wanted);
        return 1;
    }
    print_objects(all, link ? Title::link : Title::summary, options);
    return 0;
}

int show_devices(std::span<const char* const> words, const RdmaOptions& options, bool link) {
    if (!words.empty() && !is_show(words[0])) return kNotOurs;
    if (words.size() > 2) return kNotOurs;
    const host::DeviceTable* table = host::devices();
    return table ? show(*table, options, link, words.size() == 2 ? words[1] : nullptr) : kNotOurs;
}

// Becomes the next `rdma` in PATH.
int system_command(char** argv, const char* why) {
    const std::string file = find_program("rdma", "/proc/self/exe");
    if (!file.empty()) {
        put_back_what_was_inherited();
        execv(file.c_str(), argv);
        why = std::strerror(errno);
    }
    std::fprintf(stderr, "rdma: %s\n", why);
    return 1;
}

}  // namespace

bool called_as_rdma(std::string_view program) {
    return program.substr(program.rfind('/') + 1) == "rdma";  // npos + 1 is 0
}

int rdma_command(int argc, char** argv) {
    // The words, before getopt sorts them: another command may read them differently.
    const std::vector<char*> original(argv, argv + argc + 1);
    char** words = const_cast<char**>(original.data());
    static constexpr option kLong[] = {{"json", no_argument, nullptr, 'j'},
                                       {"pretty", no_argument, nullptr, 'p'},
                                       {"details", no_argument, nullptr, 'd'},
                                       {nullptr, 0, nullptr, 0}};
    RdmaOptions options;
    opterr = 0;
    for (int letter; (letter = getopt_long(argc, argv, "jpd", kLong, nullptr)) != -1;) {
        if (letter == 'j')
            options.json = true;
        else if (letter == 'p')
            options.pretty = true;
        else if (letter == 'd')
            options.details = true;
        else
            return system_command(words, kAnswers);
    }
    std::span<const char* const> rest(argv + optind, static_cast<std::size_t>(argc - optind));
    if (rest.empty()) return system_command(words, kAnswers);
    const char* const object = rest[0];
    rest = rest.subspan(1);
    int status = kNotOurs;
    if (means(object, "resource"))
        status = show_resources(rest, options);
    else if (means(object, "statistic"))
        status = show_statistics(rest, options);
    else if (means(object, "link") || means(object, "dev"))
        status = show_devices(rest, options, means(object, "link"));
    return status == kNotOurs ? system_command(words, kAnswers) : status;
}

}  // namespace verbena::tool
