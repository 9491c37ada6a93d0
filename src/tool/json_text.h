// JSON as the commands print it. Names of programs and the like are any bytes, also half a character: what is
// no UTF-8 is replaced.
#pragma once

#include <string>

namespace verbena::tool {

// In lines if `indent` is not negative.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
    return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace verbena::tool
