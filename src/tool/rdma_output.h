// How iproute2's `rdma` writes things: objects as lines of words, or as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace verbena::tool {

using Json = nlohmann::ordered_json;

struct RdmaOptions {
    bool json = false;
    bool pretty = false;
    bool details = false;
};

// What is shown in front of an object's other fields: "link NAME/PORT ", "dev NAME ", "INDEX: NAME: ".
enum class Title { link, device, summary };

// A list of objects, each of which begins with "ifindex" and "ifname" (and "port" for links). With `lines`,
// -p writes each field on a line of its own.
void print_objects(const Json& objects, Title title, const RdmaOptions& options, bool lines = false);

// "NAME VALUE NAME VALUE": leaves the objects for which each NAME is a field of that VALUE, or of one of
// several ("1,5-7"). False if a name lacks its value.
bool filter(Json& objects, std::span<const char* const> words);

}  // namespace verbena::tool
