#include "tool/rdma_output.h"

#include <strings.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "tool/json_text.h"

namespace verbena::tool {
namespace {

std::string text_of(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return json_text(value);
    std::string all;
    for (const Json& part : value) all += (all.empty() ? "<" : ",") + text_of(part);
    return all + ">";
}

// Some fields have a line of their own.
std::string name_of(const std::string& key, bool list) {
    if (key == "caps") return "\n    caps: ";
    if (key == "lqpn" && list) return "\n    LQPN: ";
    return key + " ";
}

std::string list_text(const Json& value, const std::string& key) {
    std::string text = text_of(value);
    if (key != "caps") return text;
    for (std::size_t at = 0; (at = text.find(',', at)) != std::string::npos; at += 2)
        text.insert(at + 1, " ");
    return text;
}

// "name value name value ..."; with `lines`, what follows a program's name, or everything, is on lines of its
// own.
std::string as_words(const Json& fields, std::size_t from, bool lines) {
    std::string line;
    bool behind_program = !fields.contains("comm");
    for (auto field = std::next(fields.begin(), static_cast<std::ptrdiff_t>(from)); field != fields.end();
         ++field) {
        const bool own_line = field.value().is_array();
        if (lines && behind_program && !own_line) line += "\n    ";
        behind_program = behind_program || field.key() == "comm";
        line +=
            name_of(field.key(), own_line) + list_text(field.value(), field.key()) + (own_line ? "" : " ");
    }
    return line;
}

std::string title_of(const Json& fields, Title title) {
    const std::string name = text_of(fields["ifname"]);
    if (title == Title::link) return "link " + name + "/" + text_of(fields["port"]) + " ";
    if (title == Title::device) return "dev " + name + " ";
    return text_of(fields["ifindex"]) + ": " + name + ": ";
}

bool matches(std::string_view wanted, const std::string& value) {
    while (!wanted.empty()) {
        const std::size_t comma = wanted.find(',');
        const std::string one(wanted.substr(0, comma));
        wanted = comma == std::string_view::npos ? std::string_view{} : wanted.substr(comma + 1);
        if (strcasecmp(one.c_str(), value.c_str()) == 0) return true;
        char* end = nullptr;
        const auto from = std::strtoull(one.c_str(), &end, 10);
        if (end == one.c_str() || *end != '-') continue;
        const auto number = std::strtoull(value.c_str(), nullptr, 10);
        if (from <= number && number <= std::strtoull(end + 1, nullptr, 10)) return true;
    }
    return false;
}

}  // namespace

void print_objects(const Json& objects, Title title, const RdmaOptions& options, bool lines) {
    if (options.json) {
        std::printf("%s\n", json_text(objects, options.pretty ? 4 : -1).c_str());
        return;
    }
    for (const Json& fields : objects)
        std::printf("%s%s\n", title_of(fields, title).c_str(),
                    as_words(fields, title == Title::link ? 3 : 2, lines && options.pretty).c_str());
}

bool filter(Json& objects, std::span<const char* const> words) {
    if (words.size() % 2 != 0) return false;
    Json kept = Json::array();
    for (const Json& fields : objects) {
        bool wanted = true;
        for (std::size_t i = 0; i < words.size(); i += 2) {
            const auto field = fields.find(words[i]);
            wanted = wanted && field != fields.end() && matches(words[i + 1], text_of(*field));
        }
        if (wanted) kept.push_back(fields);
    }
    objects = std::move(kept);
    return true;
}

}  // namespace verbena::tool
