#include "report/markup.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace verbena::report {
namespace {

// JSON's writer checks UTF-8; of what that allows, XML forbids U+FFFE and U+FFFF.
std::string valid_text(const std::string& text) {
    using Json = nlohmann::json;
    const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    if (std::all_of(text.begin(), text.end(), is_ascii)) return text;
    std::string valid =
        Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
    for (const char* forbidden : {"\xef\xbf\xbe", "\xef\xbf\xbf"})
        for (std::size_t at = 0; (at = valid.find(forbidden, at)) != std::string::npos; at += 3)
            valid.replace(at, 3, "\xef\xbf\xbd");
    return valid;
}

}  // namespace

std::string escaped(const std::string& text) {
    std::string all;
    for (const char c : valid_text(text)) {
        switch (c) {
            case '&':
                all += "&amp;";
                break;
            case '<':
                all += "&lt;";
                break;
            case '>':
                all += "&gt;";
                break;
            case '"':
                all += "&quot;";
                break;
            default:
                all += static_cast<unsigned char>(c) < 0x20 && c != '\t' ? '.' : c;
        }
    }
    return all;
}

}  // namespace verbena::report
