// Which paths are shown differently, and how names go over between what a program says and where it lies.
#pragma once

namespace verbena::view {

// Whether the absolute path is one of kRoots or lies below one. Doubled slashes are one; ".." is not
// followed. Thread safety: all; allocates nothing.
bool is_shown(const char* path);

// The name under which programs know a path in a tree: "/sys/class/infiniband" for
// "/run/user/1/verbena-view-1/view-0123456789abcdef/sys/class/infiniband". nullptr for any other path. By the
// name alone, because a program may have inherited its working directory from one that looked.
// Thread safety: all; allocates nothing.
const char* known_as(const char* path);

// Whether the path is that of a counter of a port, or of a folder of them.
// Thread safety: all; allocates nothing.
bool is_counter(const char* path);

}  // namespace verbena::view
