#include "host/address_name.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/reason.h"

namespace verbena::host {
namespace {

constexpr const char* kInitialUserNamespace = "user:[4026531837]";  // the kernel's fixed number

// "" in the machine's own user namespace, else what tells this one from others ("-4026532201").
std::string user_namespace() {
    char name[64] = {};
    if (readlink("/proc/self/ns/user", name, sizeof name - 1) <= 0 ||
        std::string_view(name) == kInitialUserNamespace)
        return {};
    std::string number = "-";
    for (char c : std::string_view(name))
        if (c >= '0' && c <= '9') number += c;
    return number;
}

}  // namespace

bool is_fabric_name(std::string_view name) {
    if (name.empty() || name.size() > kMaxFabricName) return false;
    for (char c : name)
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
              c == '_' || c == '-'))
            return false;
    return true;
}

int fabric_of_environment(std::string& name) {
    const char* setting = secure_getenv("VERBENA_FABRIC");
    name = setting && *setting ? std::string_view(setting) : kDefaultFabric;
    if (!is_fabric_name(name))
        return fail(
            EINVAL,
            "VERBENA_FABRIC=%.60s: a fabric's name has 1 to 31 letters, digits, dots, dashes or underscores",
            name.c_str());
    return 0;
}

bool in_user_namespace() { return !user_namespace().empty(); }

std::string daemon_address(uid_t user, std::string_view fabric) {
    return "verbena/" + std::to_string(user) + user_namespace() + "/" + std::string(fabric);
}

std::string start_lock_address(uid_t user, std::string_view fabric) {
    return daemon_address(user, fabric) + "/start";
}

std::string service_address() { return "verbena/service"; }

std::string port_address(std::uint16_t port) { return "verbena/port-" + std::to_string(port); }

}  // namespace verbena::host
