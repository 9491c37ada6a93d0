// Why nothing listens: what almost fits a request that no listener takes. For the log, where somebody looks
// for the reason of a REJ 8.
#pragma once

#include <map>
#include <string>

#include "cm/id.h"

namespace verbena::cm {

// Begins with "; " and goes behind "nothing listens on ...". Never empty.
std::string near_misses(const std::map<IdNumber, Id>& ids, PortSpace space, const Endpoint& destination);

}  // namespace verbena::cm
