// Fields of structures, for show.h's functions.
#pragma once

#include <cstdint>

#include "interpose/line.h"
#include "interpose/objects.h"

namespace verbena::interpose {

// {"a":..,"b":..}, or null.
template <class T, class Body>
void object(Line& line, const T* value, Body body) {
    if (!value) return line.null();
    line.open('{');
    body(*value);
    line.close('}');
}

inline void field(Line& line, const char* name, std::uint64_t value) {
    line.key(name).unsigned_number(value);
}
inline void hex_field(Line& line, const char* name, std::uint64_t value) { line.key(name).hex(value); }
// Most optional fields are 0.
inline void field_unless_0(Line& line, const char* name, std::uint64_t value) {
    if (value) field(line, name, value);
}

template <class T>
void object_field(Line& line, const char* name, const T* value) {
    if (value) show_object(line.key(name), value);
}

}  // namespace verbena::interpose
