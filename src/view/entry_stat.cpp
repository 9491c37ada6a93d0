// Asking about files (stat(2), access(2), statx(2), getxattr(2), statfs(2)) under every name that the C
// library has or had for it.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "view/real.h"

using verbena::view::Next;
using verbena::view::Seen;

extern "C" {

int stat(const char* path, struct stat* status) noexcept {
    static constinit Next<int(const char*, struct stat*)> next("stat");
    return next(Seen(path), status);
}

int stat64(const char* path, struct stat64* status) noexcept {
    static constinit Next<int(const char*, struct stat64*)> next("stat64");
    return next(Seen(path), status);
}

int lstat(const char* path, struct stat* status) noexcept {
    static constinit Next<int(const char*, struct stat*)> next("lstat");
    return next(Seen(path), status);
}

int lstat64(const char* path, struct stat64* status) noexcept {
    static constinit Next<int(const char*, struct stat64*)> next("lstat64");
    return next(Seen(path), status);
}

int fstatat(int folder, const char* path, struct stat* status, int flags) noexcept {
    static constinit Next<int(int, const char*, struct stat*, int)> next("fstatat");
    return next(folder, Seen(path), status, flags);
}

int fstatat64(int folder, const char* path, struct stat64* status, int flags) noexcept {
    static constinit Next<int(int, const char*, struct stat64*, int)> next("fstatat64");
    return next(folder, Seen(path), status, flags);
}

// Programs built before glibc 2.33 call these.
int __xstat(int version, const char* path, struct stat* status) noexcept {
    static constinit Next<int(int, const char*, struct stat*)> next("__xstat");
    return next(version, Seen(path), status);
}

int __xstat64(int version, const char* path, struct stat64* status) noexcept {
    static constinit Next<int(int, const char*, struct stat64*)> next("__xstat64");
    return next(version, Seen(path), status);
}

int __lxstat(int version, const char* path, struct stat* status) noexcept {
    static constinit Next<int(int, const char*, struct stat*)> next("__lxstat");
    return next(version, Seen(path), status);
}

int __lxstat64(int version, const char* path, struct stat64* status) noexcept {
    static constinit Next<int(int, const char*, struct stat64*)> next("__lxstat64");
    return next(version, Seen(path), status);
}

int __fxstatat(int version, int folder, const char* path, struct stat* status, int flags) noexcept {
    static constinit Next<int(int, int, const char*, struct stat*, int)> next("__fxstatat");
    return next(version, folder, Seen(path), status, flags);
}

int __fxstatat64(int version, int folder, const char* path, struct stat64* status, int flags) noexcept {
    static constinit Next<int(int, int, const char*, struct stat64*, int)> next("__fxstatat64");
    return next(version, folder, Seen(path), status, flags);
}

int statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) noexcept {
    static constinit Next<int(int, const char*, int, unsigned, struct statx*)> next("statx");
    return next(folder, Seen(path), flags, mask, status);
}

int access(const char* path, int mode) noexcept {
    static constinit Next<int(const char*, int)> next("access");
    return next(Seen(path), mode);
}

int eaccess(const char* path, int mode) noexcept {
    static constinit Next<int(const char*, int)> next("eaccess");
    return next(Seen(path), mode);
}

int euidaccess(const char* path, int mode) noexcept {
    static constinit Next<int(const char*, int)> next("euidaccess");
    return next(Seen(path), mode);
}

int faccessat(int folder, const char* path, int mode, int flags) noexcept {
    static constinit Next<int(int, const char*, int, int)> next("faccessat");
    return next(folder, Seen(path), mode, flags);
}

int statfs(const char* path, struct statfs* status) noexcept {
    static constinit Next<int(const char*, struct statfs*)> next("statfs");
    return next(Seen(path), status);
}

int statfs64(const char* path, struct statfs64* status) noexcept {
    static constinit Next<int(const char*, struct statfs64*)> next("statfs64");
    return next(Seen(path), status);
}

// `ls -l` asks for these.
ssize_t getxattr(const char* path, const char* name, void* value, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, const char*, void*, size_t)> next("getxattr");
    return next(Seen(path), name, value, size);
}

ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, const char*, void*, size_t)> next("lgetxattr");
    return next(Seen(path), name, value, size);
}

ssize_t listxattr(const char* path, char* list, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, char*, size_t)> next("listxattr");
    return next(Seen(path), list, size);
}

ssize_t llistxattr(const char* path, char* list, size_t size) noexcept {
    static constinit Next<ssize_t(const char*, char*, size_t)> next("llistxattr");
    return next(Seen(path), list, size);
}

}  // extern "C"
