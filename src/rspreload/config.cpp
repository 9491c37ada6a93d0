#include "rspreload/config.h"

#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::rspreload {
namespace {

struct Rule {
    std::string program;
    int domain = 0, type = 0, protocol = 0;  // 0: any
};

// "INET" of a file is AF_INET, PF_INET or INET. -1: nothing known.
int number_of(std::string_view text, std::initializer_list<std::pair<const char*, int>> names) {
    if (text == "*") return 0;
    for (std::string_view prefix : {"AF_", "PF_", "SOCK_", "IPPROTO_"})
        if (text.size() > prefix.size() && strncasecmp(text.data(), prefix.data(), prefix.size()) == 0) {
            text.remove_prefix(prefix.size());
            break;
        }
    for (const auto& [name, number] : names)
        if (text.size() == std::strlen(name) && strncasecmp(text.data(), name, text.size()) == 0)
            return number;
    return -1;
}

struct Rules {
    bool present = false;
    std::vector<Rule> rules;
};

Rules read_rules() {
    Rules all;
    std::FILE* file = std::fopen("/etc/rdma/rsocket/preload_config", "re");
    if (!file) return all;
    all.present = true;
    char line[256], program[64], domain[16], type[16], protocol[16];
    while (std::fgets(line, sizeof line, file)) {
        if (line[0] == '#' || std::sscanf(line, "%63s%15s%15s%15s", program, domain, type, protocol) != 4)
            continue;
        Rule rule{std::strcmp(program, "*") == 0 ? "" : program,
                  number_of(domain, {{"INET", AF_INET}, {"INET6", AF_INET6}}),
                  number_of(type, {{"STREAM", SOCK_STREAM}, {"DGRAM", SOCK_DGRAM}}),
                  number_of(protocol, {{"TCP", IPPROTO_TCP}, {"UDP", IPPROTO_UDP}})};
        if (rule.domain >= 0 && rule.type >= 0 && rule.protocol >= 0) all.rules.push_back(std::move(rule));
    }
    std::fclose(file);
    return all;
}

}  // namespace

bool wanted(int domain, int type, int protocol) {
    if (domain != AF_INET && domain != AF_INET6) return false;
    if (type == SOCK_STREAM ? protocol != 0 && protocol != IPPROTO_TCP
                            : type != SOCK_DGRAM || (protocol != 0 && protocol != IPPROTO_UDP))
        return false;
    static const bool is_daemon = std::strcmp(program_invocation_short_name, "verbenad") == 0;
    if (is_daemon) return false;
    static const Rules all = read_rules();
    if (!all.present || all.rules.empty()) return type == SOCK_STREAM;
    if (protocol == 0) protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
    for (const Rule& rule : all.rules)
        if (strncasecmp(rule.program.c_str(), program_invocation_short_name, rule.program.size()) == 0 &&
            (!rule.domain || rule.domain == domain) && (!rule.type || rule.type == type) &&
            (!rule.protocol || rule.protocol == protocol))
            return true;
    return false;
}

namespace {

int fork_setting() {
    static const int setting = [] {
        for (const char* name : {"RDMAV_FORK_SAFE", "IBV_FORK_SAFE"})
            if (const char* text = std::getenv(name); text && std::atoi(text) != 0) return std::atoi(text);
        return 0;
    }();
    return setting;
}

}  // namespace

bool fork_support() { return fork_setting() != 0; }
bool speaks_to_all() { return fork_setting() == 2; }

}  // namespace verbena::rspreload
