#include "tool/sole_writer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

namespace verbena::tool {

// The lock is one of an open file. Ours is shared with the programs, which may outlive this command; so it is
// opened once more, and closed by the end of the process.
bool become_sole_writer(int fd, const std::string& name) {
    struct stat status {};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return true;
    const int own = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC);
    if (own < 0) return true;
    struct flock whole {};
    whole.l_type = F_WRLCK;
    if (fcntl(own, F_OFD_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES)) return true;
    std::fprintf(stderr, "verbena: %s: another verbena command is writing to it\n", name.c_str());
    return false;
}

}  // namespace verbena::tool
