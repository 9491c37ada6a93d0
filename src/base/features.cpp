#include "base/features.h"

#include <cstdlib>

#include "base/reason.h"

namespace verbena {
namespace {

struct Name {
    std::string_view text;
    bool Features::*member;
};
constexpr Name kNames[] = {
    {"gso", &Features::gso},
    {"gro", &Features::gro},
    {"steering", &Features::steering},
    {"memfd", &Features::memfd},
    {"local", &Features::local},
    {"view", &Features::view},
    {"inline", &Features::inline_progress},
    {"gather", &Features::gather},
    {"fetch", &Features::fetch},
    {"copy", &Features::copy},
    {"place", &Features::place},
    {"procmem", &Features::procmem},
    {"membarrier", &Features::membarrier},
    {"precedence", &Features::precedence},
};

bool switch_off(Features& features, std::string_view name) {
    bool found = false;
    for (const Name& known : kNames)
        if (name == known.text || name == "all") {
            features.*known.member = false;
            found = true;
        }
    return found;
}

Features read_environment() {
    const char* setting = std::getenv("VERBENA_DISABLE");
    if (!setting) return {};
    std::string_view unknown;
    Features result = parse_features(setting, &unknown);
    if (!unknown.empty())
        log(LogLevel::warn, "VERBENA_DISABLE names '%.*s', which is no feature (%s)",
            static_cast<int>(unknown.size()), unknown.data(), feature_names().c_str());
    return result;
}

}  // namespace

Features parse_features(std::string_view disabled, std::string_view* unknown) {
    Features result;
    while (!disabled.empty()) {
        std::size_t end = disabled.find_first_of(", ");
        std::string_view name = disabled.substr(0, end);
        if (!name.empty() && !switch_off(result, name) && unknown && unknown->empty()) *unknown = name;
        if (end == std::string_view::npos) break;
        disabled.remove_prefix(end + 1);
    }
    return result;
}

std::string feature_names() {
    std::string names;
    for (const Name& known : kNames) names.append(known.text).append(", ");
    return names + "all";
}

const Features& features() {
    static const Features result = read_environment();
    return result;
}

}  // namespace verbena
