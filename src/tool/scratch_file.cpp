#include "tool/scratch_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbena::tool {

namespace {

// Everybody's (sticky), or the user's own: in XDG_RUNTIME_DIR as sudo and su leave it the files would be in
// another user's hands.
bool belongs_here(const struct stat& folder) {
    return (folder.st_mode & S_ISVTX) != 0 || folder.st_uid == geteuid();
}

}  // namespace

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

bool ScratchFile::open(const std::string& what) {
    for (const std::string& folder : scratch_folders()) {
        path_ = folder;
        path_.append("/verbena-").append(what).append("-XXXXXX");
        fd_ = mkostemp(path_.data(), O_APPEND | O_CLOEXEC);
        if (fd_ >= 0) return true;
    }
    std::fprintf(stderr, "verbena: no folder for a file (XDG_RUNTIME_DIR, /dev/shm, /tmp): %s\n",
                 std::strerror(errno));
    return false;
}

ScratchFile::~ScratchFile() {
    if (fd_ < 0) return;
    unlink(path_.c_str());
    close(fd_);
}

}  // namespace verbena::tool
