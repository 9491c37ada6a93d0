// Keeps a tree on disk for programs to look at: in the user's runtime folder, private to the user.
//
// A tree's folder is named by its content and appears at once, whole; it is never changed afterwards. So
// processes share it, and one that looks while the devices change sees the state before or the one after.
// Trees that nobody asked for during an hour go when another one comes, and the oldest if there are many.
#pragma once

#include <span>
#include <string>

#include "view/tree.h"

namespace verbena::view {

// A tree's folder is BASE/verbena-view-UID/view-HASH.
inline constexpr const char* kUserPrefix = "verbena-view-";
inline constexpr const char* kTreePrefix = "view-";
inline constexpr unsigned kHashDigits = 16;

// The private folder for trees below `base`, made if need be. 0, or an errno with a reason: not a folder of
// this user's that is closed to others.
int private_folder(const std::string& base, std::string& folder);

// The folder that holds the tree, written if it is not there: what describe() calls /sys/class is
// `root` + "/sys/class". 0 or an errno with a reason. Thread safety: all, between processes, too.
int store(const std::string& folder, std::span<const Entry> tree, std::string& root);

}  // namespace verbena::view
