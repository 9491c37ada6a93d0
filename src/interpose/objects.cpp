#include "interpose/objects.h"

#include <cstddef>
#include <unordered_map>

#include "interpose/fork_lock.h"

namespace verbena::interpose {
namespace {

constexpr const char* kNames[] = {
    "context", "pd", "mr", "mw",   "cq",       "comp_channel",  "qp",          "srq",           "ah", "xrcd",
    "dm",      "td", "wq", "flow", "counters", "rwq_ind_table", "flow_action", "event_channel", "id",
};
static_assert(std::size(kNames) == static_cast<std::size_t>(Kind::count));

struct Objects {
    std::unordered_map<const void*, Known> known;
    std::uint32_t counts[static_cast<std::size_t>(Kind::count)] = {};
};

constinit ForkLock lock;

Objects& objects() {
    static Objects& all = *new Objects;  // never destroyed
    return all;
}

bool find(const void* object, Known& out) {
    Locked locked(lock);
    const auto found = objects().known.find(object);
    if (found == objects().known.end()) return false;
    out = found->second;
    return true;
}

}  // namespace

const char* kind_name(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }

void add_object(Kind kind, const void* object, std::uint32_t number) {
    if (!object) return;
    Locked locked(lock);
    // Some are announced twice: by librdmacm's call and by the one that it makes itself.
    const auto found = objects().known.find(object);
    if (found != objects().known.end() && found->second.kind == kind && kind != Kind::qp) return;
    if (kind != Kind::qp) number = ++objects().counts[static_cast<std::size_t>(kind)];
    objects().known[object] = {kind, number};
}

Known take_object(const void* object) {
    Locked locked(lock);
    const auto found = objects().known.find(object);
    if (found == objects().known.end()) return {};
    const Known known = found->second;
    objects().known.erase(found);
    return known;
}

void put_back(const void* object, Known known) {
    if (known.kind == Kind::count) return;
    Locked locked(lock);
    objects().known.emplace(object, known);
}

bool knows_object(Kind kind, const void* object) {
    Known known{};
    return find(object, known) && known.kind == kind;
}

void show_object(Line& line, Kind kind, const void* object) {
    Known known{};
    if (!object) return line.null();
    if (!find(object, known) || known.kind != kind) return line.hex(reinterpret_cast<std::uintptr_t>(object));
    line.begin_text();
    line.format(kind == Kind::qp ? "%s 0x%x" : "%s %u", kNames[static_cast<std::size_t>(kind)], known.number);
    line.end_text();
}

}  // namespace verbena::interpose
