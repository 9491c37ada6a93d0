// Files of the command's own, by which it and the programs that it runs share something.
#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

// Where such files can be: $XDG_RUNTIME_DIR, /dev/shm, /tmp, those of them that can be written and are no
// other user's.
std::vector<std::string> scratch_folders();
// On standard error: that there is none for this purpose. `reason`: why the last of them does not serve.
void say_no_folder(const char* purpose, const char* reason);

// A command that is killed leaves its files. So that others can tell: their names end like this, and whoever
// uses one has a lock on it.
inline constexpr const char* kHeld = ".held";
// Takes the lock of a file that this process has just made; false: it was taken for a left one, and is gone.
bool hold(int fd);
inline constexpr unsigned kHoldAttempts = 10;  // with another one each
// Removes the user's files that nobody holds.
void remove_abandoned_files();

// One that goes with its owner, open for reading and appending.
class ScratchFile {
   public:
    ScratchFile() = default;
    ~ScratchFile();
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;

    // `what` becomes a part of its name. False when the reason was told.
    bool open(const std::string& what);
    int fd() const { return fd_; }
    const std::string& path() const { return path_; }

   private:
    std::string path_;
    int fd_ = -1;
};

}  // namespace verbena::tool
