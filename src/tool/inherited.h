// What the command has from whoever started it and cannot work with. It is set right for the command, and is
// as it was for the program that the command becomes.
#pragma once

namespace verbena::tool {

// Descriptors 0 to 2 that are closed become ones on which reading or writing fails, so that no other file
// gets their numbers; children can be waited for.
void set_right_what_is_inherited();

// Before exec().
void put_back_what_was_inherited();

}  // namespace verbena::tool
