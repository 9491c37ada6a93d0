// Names: links, resolved paths, the working directory. What comes back is what the kernel's sysfs would say.

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/path.h"
#include "view/real.h"

using verbena::view::known_as;
using verbena::view::Next;
using verbena::view::Seen;

namespace {

// Turns a path in the tree into the name that the program knows it by, in place.
char* as_known(char* path) {
    if (const char* known = path ? known_as(path) : nullptr) memmove(path, known, strlen(known) + 1);
    return path;
}

}  // namespace

extern "C" {

ssize_t readlink(const char* path, char* buffer, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, char*, size_t)> next("readlink");
    return next(Seen(path), buffer, size);
}

ssize_t readlinkat(int folder, const char* path, char* buffer, size_t size) noexcept {
    static constinit Next<ssize_t(int, const char*, char*, size_t)> next("readlinkat");
    return next(folder, Seen(path), buffer, size);
}

ssize_t __readlink_chk(const char* path, char* buffer, size_t size, size_t room) noexcept {
    static constinit Next<ssize_t(const char*, char*, size_t, size_t)> next("__readlink_chk");
    return next(Seen(path), buffer, size, room);
}

ssize_t __readlinkat_chk(int folder, const char* path, char* buffer, size_t size, size_t room) noexcept {
    static constinit Next<ssize_t(int, const char*, char*, size_t, size_t)> next("__readlinkat_chk");
    return next(folder, Seen(path), buffer, size, room);
}

char* realpath(const char* path, char* resolved) noexcept {
    static constinit Next<char*(const char*, char*)> next("realpath");
    return as_known(next(Seen(path), resolved));
}

char* __realpath_chk(const char* path, char* resolved, size_t room) noexcept {
    static constinit Next<char*(const char*, char*, size_t)> next("__realpath_chk");
    return as_known(next(Seen(path), resolved, room));
}

char* canonicalize_file_name(const char* path) noexcept {
    static constinit Next<char*(const char*)> next("canonicalize_file_name");
    return as_known(next(Seen(path)));
}

int chdir(const char* path) noexcept {
    static constinit Next<int(const char*)> next("chdir");
    return next(Seen(path));
}

// The name is shorter than what the kernel answers: a buffer that would do may be told that it is too small.
char* getcwd(char* buffer, size_t size) noexcept {
    static constinit Next<char*(char*, size_t)> next("getcwd");
    return as_known(next(buffer, size));
}

char* __getcwd_chk(char* buffer, size_t size, size_t room) noexcept {
    static constinit Next<char*(char*, size_t, size_t)> next("__getcwd_chk");
    return as_known(next(buffer, size, room));
}

}  // extern "C"
