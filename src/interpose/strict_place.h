// Where in the program a call comes from.
#pragma once

#include <string>

#include "interpose/line.h"
#include "interpose/strict_ledger.h"

namespace verbena::interpose {

// Whether librdmacm itself called, in a thread of its own.
bool called_by_rdmacm();

// The callers, from the first that is none of the libraries on.
Inventory::Place place_of_call();

// As a field "from" of the object under construction: file, offset in it, function if it has a name there.
void show_place(Line& line, const Inventory::Place& place);

// " (prog, main+0x12)" of the first, as far as dynamic symbols know.
std::string where(const Inventory::Place& place);

}  // namespace verbena::interpose
