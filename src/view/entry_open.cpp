// Opening files and folders (open(2), fopen(3), opendir(3), scandir(3), glob(3)).

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "view/real.h"

using verbena::view::Next;
using verbena::view::Seen;

namespace {

// The mode that open(2) takes when it may make a file; 0 without one.
mode_t mode_of(int flags, va_list arguments) {
    const bool makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    return makes ? va_arg(arguments, mode_t) : 0;
}

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)); }
bool writes(const char* mode) { return mode[0] != 'r' || strpbrk(mode, "+"); }

// A path to open; refused() if the program must not.
class Opened : public Seen {
   public:
    template <class How>
    Opened(const char* path, How how) : Seen(path), refused_(moved() && writes(how) && is_attribute()) {
        if (refused_) errno = EACCES;
    }
    bool refused() const { return refused_; }

   private:
    const bool refused_;
};

// glob(3) opens folders inside of the C library; these make it use our functions.
template <class Glob, class Dirent, class Stat>
void use_ours(Glob* result, Dirent* (*read)(DIR*), int (*follow)(const char*, Stat*),
              int (*stay)(const char*, Stat*)) {
    result->gl_opendir = [](const char* path) -> void* { return opendir(path); };
    result->gl_closedir = [](void* stream) { closedir(static_cast<DIR*>(stream)); };
    result->gl_readdir = reinterpret_cast<decltype(result->gl_readdir)>(read);
    result->gl_stat = follow;
    result->gl_lstat = stay;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
    static constinit Next<int(const char*, int, mode_t)> next("open");
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    const Opened opened(path, flags);
    return opened.refused() ? -1 : next(opened, flags, mode);
}

int open64(const char* path, int flags, ...) {
    static constinit Next<int(const char*, int, mode_t)> next("open64");
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    const Opened opened(path, flags);
    return opened.refused() ? -1 : next(opened, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
    static constinit Next<int(int, const char*, int, mode_t)> next("openat");
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    const Opened opened(path, flags);
    return opened.refused() ? -1 : next(folder, opened, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) {
    static constinit Next<int(int, const char*, int, mode_t)> next("openat64");
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    const Opened opened(path, flags);
    return opened.refused() ? -1 : next(folder, opened, flags, mode);
}

// What -D_FORTIFY_SOURCE makes of the same calls.
int __open_2(const char* path, int flags) {
    static constinit Next<int(const char*, int)> next("__open_2");
    const Opened opened(path, flags);
    return opened.refused() ? -1 : next(opened, flags);
}

int __open64_2(const char* path, int flags) {
    static constinit Next<int(const char*, int)> next("__open64_2");
    const Opened opened(path, flags);
    return opened.refused() ? -1 : next(opened, flags);
}

int __openat_2(int folder, const char* path, int flags) {
    static constinit Next<int(int, const char*, int)> next("__openat_2");
    const Opened opened(path, flags);
    return opened.refused() ? -1 : next(folder, opened, flags);
}

int __openat64_2(int folder, const char* path, int flags) {
    static constinit Next<int(int, const char*, int)> next("__openat64_2");
    const Opened opened(path, flags);
    return opened.refused() ? -1 : next(folder, opened, flags);
}

FILE* fopen(const char* path, const char* mode) {
    static constinit Next<FILE*(const char*, const char*)> next("fopen");
    const Opened opened(path, mode);
    return opened.refused() ? nullptr : next(opened, mode);
}

FILE* fopen64(const char* path, const char* mode) {
    static constinit Next<FILE*(const char*, const char*)> next("fopen64");
    const Opened opened(path, mode);
    return opened.refused() ? nullptr : next(opened, mode);
}

DIR* opendir(const char* path) {
    static constinit Next<DIR*(const char*)> next("opendir");
    return next(Seen(path));
}

using Filter = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);
int scandir(const char* path, dirent*** list, Filter filter, Order order) {
    static constinit Next<int(const char*, dirent***, Filter, Order)> next("scandir");
    return next(Seen(path), list, filter, order);
}

using Filter64 = int (*)(const dirent64*);
using Order64 = int (*)(const dirent64**, const dirent64**);
int scandir64(const char* path, dirent64*** list, Filter64 filter, Order64 order) {
    static constinit Next<int(const char*, dirent64***, Filter64, Order64)> next("scandir64");
    return next(Seen(path), list, filter, order);
}

using Complain = int (*)(const char*, int);
int glob(const char* pattern, int flags, Complain complain, glob_t* result) noexcept {
    static constinit Next<int(const char*, int, Complain, glob_t*)> next("glob");
    if (!(flags & GLOB_ALTDIRFUNC) && Seen(pattern).moved()) {
        use_ours(result, readdir, stat, lstat);
        flags |= GLOB_ALTDIRFUNC;
    }
    return next(pattern, flags, complain, result);
}

int glob64(const char* pattern, int flags, Complain complain, glob64_t* result) noexcept {
    static constinit Next<int(const char*, int, Complain, glob64_t*)> next("glob64");
    if (!(flags & GLOB_ALTDIRFUNC) && Seen(pattern).moved()) {
        use_ours(result, readdir64, stat64, lstat64);
        flags |= GLOB_ALTDIRFUNC;
    }
    return next(pattern, flags, complain, result);
}

}  // extern "C"
