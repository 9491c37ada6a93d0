#include "tool/scratch_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace verbena::tool {

namespace {

// Everybody's (sticky), or the user's own: in XDG_RUNTIME_DIR as sudo and su leave it the files would be in
// another user's hands.
bool belongs_here(const struct stat& folder) {
    return (folder.st_mode & S_ISVTX) != 0 || folder.st_uid == geteuid();
}

bool is_linked(int fd) {
    struct stat status {};
    return fstat(fd, &status) == 0 && status.st_nlink > 0;
}

bool is_named_so(const std::string& name) { return name.starts_with("verbena-") && name.ends_with(kHeld); }

// Under its lock: whoever made it meanwhile finds it gone, and makes another.
void remove_if_abandoned(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    struct stat status {};
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlink(path.c_str());
    close(fd);
}

}  // namespace

bool hold(int fd) {
    int locked;
    while ((locked = flock(fd, LOCK_EX)) != 0 && errno == EINTR) {
    }
    return locked != 0 || is_linked(fd);  // a file system that knows no locks takes none of ours either
}

void remove_abandoned_files() {
    for (const std::string& folder : scratch_folders()) {
        std::error_code error;
        for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end;
             each.increment(error))
            if (is_named_so(each->path().filename().string())) remove_if_abandoned(each->path().string());
    }
}

std::vector<std::string> scratch_folders() {
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    std::vector<std::string> folders{runtime ? runtime : "", "/dev/shm", "/tmp"};
    std::erase_if(folders, [](const std::string& folder) {
        struct stat status {};
        return folder.empty() || folder[0] != '/' || access(folder.c_str(), W_OK | X_OK) != 0 ||
               stat(folder.c_str(), &status) != 0 || !belongs_here(status);
    });
    return folders;
}

void say_no_folder(const char* purpose, const char* reason) {
    std::fprintf(stderr, "verbena: no folder for %s (XDG_RUNTIME_DIR, /dev/shm, /tmp): %s\n", purpose,
                 scratch_folders().empty() ? "this user can write to none of them" : reason);
}

bool ScratchFile::open(const std::string& what) {
    remove_abandoned_files();
    for (const std::string& folder : scratch_folders())
        for (unsigned attempt = 0; attempt < kHoldAttempts; attempt++) {
            path_ = folder;
            path_.append("/verbena-").append(what).append("-XXXXXX").append(kHeld);
            fd_ = mkostemps(path_.data(), static_cast<int>(std::strlen(kHeld)), O_APPEND | O_CLOEXEC);
            if (fd_ < 0) break;
            if (hold(fd_)) return true;
            close(fd_);
        }
    fd_ = -1;
    say_no_folder("a file", std::strerror(errno));
    return false;
}

ScratchFile::~ScratchFile() {
    if (fd_ < 0) return;
    unlink(path_.c_str());
    close(fd_);
}

}  // namespace verbena::tool
