#include "tool/rdma_command.h"

#include <getopt.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/reason.h"
#include "host/client.h"
#include "host/port.h"
#include "tool/program_check.h"

namespace verbena::tool {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    bool json = false;
    bool pretty = false;
    bool details = false;
};

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

std::string text_of(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return value.dump();
    std::string all;
    for (const Json& part : value) all += (all.empty() ? "<" : ", ") + text_of(part);
    return all + ">";
}

// "name value name value ... "; capabilities on a line of their own.
std::string as_words(const Json& fields, std::size_t from) {
    std::string line;
    for (auto field = std::next(fields.begin(), static_cast<std::ptrdiff_t>(from)); field != fields.end();
         ++field)
        line += field.key() == "caps" ? "\n    caps: " + text_of(field.value())
                                      : field.key() + " " + text_of(field.value()) + " ";
    return line;
}

Json describe_device(const host::Device& device) {
    const std::string guid = host::guid_text(device.node_guid);
    return {{"ifindex", device.index}, {"ifname", device.name.data()},
            {"node_type", "ca"},       {"fw", VERBENA_VERSION},
            {"node_guid", guid},       {"sys_image_guid", guid}};
}

Json describe_link(const host::Device& device, const Options& options) {
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

// What an object's list has in front of the words that as_words makes, and how many fields that takes.
std::string title(const Json& fields, bool link) {
    return link ? "link " + text_of(fields["ifname"]) + "/" + text_of(fields["port"]) + " "
                : text_of(fields["ifindex"]) + ": " + text_of(fields["ifname"]) + ": ";
}
constexpr std::size_t kTitleFields[] = {2, 3};  // of a device, of a link

// Shows all devices, or that of the name (for a link: NAME or NAME/1).
int show(const host::DeviceTable& table, const Options& options, bool link, const char* wanted) {
    std::string name = wanted ? wanted : "";
    if (link && name.size() > 2 && name.ends_with("/1")) name.resize(name.size() - 2);
    Json all = Json::array();
    for (unsigned slot = 0; slot < table.count && slot < host::kMaxDevices; slot++) {
        host::Device device;
        if (!host::read_device(table, slot, device) || (wanted && name != device.name.data())) continue;
        all.push_back(link ? describe_link(device, options) : describe_device(device));
    }
    if (wanted && all.empty()) {
        std::fprintf(stderr, "Wrong device name %s\n", wanted);
        return 1;
    }
    if (options.json) {
        std::printf("%s\n", options.pretty ? all.dump(4).c_str() : all.dump().c_str());
        return 0;
    }
    for (const Json& fields : all)
        std::printf("%s%s\n", title(fields, link).c_str(), as_words(fields, kTitleFields[link]).c_str());
    return 0;
}

// iproute2 takes abbreviations.
bool means(const char* word, const char* full) { return std::strncmp(word, full, std::strlen(word)) == 0; }

// Becomes the next `rdma` in PATH.
int system_command(char** argv, const char* why) {
    const std::string file = find_program("rdma", "/proc/self/exe");
    if (!file.empty()) {
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
    Options options;
    opterr = 0;
    for (int letter; (letter = getopt_long(argc, argv, "jpd", kLong, nullptr)) != -1;) {
        if (letter == 'j')
            options.json = true;
        else if (letter == 'p')
            options.pretty = true;
        else if (letter == 'd')
            options.details = true;
        else
            return system_command(words, "Verbena answers rdma [-j] [-p] [-d] {dev|link} [show [DEVICE]]");
    }
    const char* const* rest = argv + optind;
    const int count = argc - optind;
    const bool link = count > 0 && means(rest[0], "link");
    const bool shows = count < 2 || means(rest[1], "show") || means(rest[1], "list");
    if (count < 1 || count > 3 || !(link || means(rest[0], "dev")) || !shows)
        return system_command(words,
                              "Verbena answers rdma {dev|link} [show [DEVICE]]; its devices are there "
                              "by themselves, one per network interface");
    const host::DeviceTable* table = host::devices();
    if (!table) return system_command(words, last_reason());
    return show(*table, options, link, count == 3 ? rest[2] : nullptr);
}

}  // namespace verbena::tool
