// Words for reasons and the log: endpoints, states, port spaces.
#pragma once

#include <string>

#include "cm/connection.h"
#include "cm/types.h"

namespace verbena::cm {

std::string to_string(const Endpoint& endpoint);  // "10.0.0.1:4711", "[::1]:4711"
const char* to_string(IdState state);
const char* to_string(ConnectionState state);
const char* to_string(PortSpace space);

}  // namespace verbena::cm
