// The counters' files of the tree, with the values of this moment.
#pragma once

namespace verbena::view {

// Adds up what the daemon's programs have counted, and writes it into the files below `root`: into those of
// the counter that `path` names, or into all if it names a folder of them. What cannot be asked or written
// stays as it was.
void write_counters(const char* root, const char* path);

}  // namespace verbena::view
