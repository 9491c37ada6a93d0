#include "view/path.h"

#include <cstring>

#include "view/store.h"
#include "view/tree.h"

namespace verbena::view {
namespace {

bool begins(const char* path, const char* root) {
    while (*root) {
        if (*path != *root) return false;
        if (*path == '/')
            while (path[1] == '/') path++;
        path++;
        root++;
    }
    return *path == '\0' || *path == '/';
}

}  // namespace

bool is_shown(const char* path) {
    for (const char* root : kRoots)
        if (begins(path, root)) return true;
    return false;
}

bool is_counter(const char* path) {
    const char* ports = std::strstr(path, "/ports/");
    if (!ports) return false;
    const char* folder = std::strchr(ports + std::strlen("/ports/"), '/');
    return folder && (begins(folder, kPortCounters) || begins(folder, kHwCounters));
}

const char* known_as(const char* path) {
    const char* user = std::strstr(path, kUserPrefix);
    if (path[0] != '/' || !user || user[-1] != '/') return nullptr;
    const char* tree = std::strchr(user, '/');
    if (!tree || std::strncmp(tree + 1, kTreePrefix, std::strlen(kTreePrefix)) != 0) return nullptr;
    const char* hash = tree + 1 + std::strlen(kTreePrefix);
    if (std::strspn(hash, "0123456789abcdef") != kHashDigits || hash[kHashDigits] != '/') return nullptr;
    return hash + kHashDigits;
}

}  // namespace verbena::view
