// The programs append to one file themselves, a packet with each write(2): what they write is there whatever
// becomes of this command, and nobody waits for it. A pipe cannot be appended to by many so, so there is a
// file in memory behind it, which is copied and forgotten.

#include "tool/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/write_all.h"
#include "host/address_name.h"
#include "link/pcap_writer.h"
#include "tool/ending_signals.h"
#include "tool/shared_capture.h"
#include "tool/sole_writer.h"

namespace verbena::tool {
namespace {

constexpr int kCopyEveryMs = 50;

int open_file(const std::string& file) {
    if (file != "-") return open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return packet_memory();
}

// What has been appended since. 0, or an errno: EPIPE when nobody reads it any more.
int copy_on(int from, off_t& at) {
    std::array<char, 65536> buffer;
    const off_t begin = at;
    for (ssize_t size; (size = pread(from, buffer.data(), buffer.size(), at)) > 0; at += size)
        if (int error = write_all(STDOUT_FILENO, {buffer.data(), static_cast<std::size_t>(size)}))
            return error;
    if (at > begin) fallocate(from, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, at - begin);
    return 0;
}

}  // namespace

int capture(const std::string& file) {
    const int fd = open_file(file);
    struct stat status {};
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        std::fprintf(stderr, "verbena: %s: %s\n", file.c_str(),
                     fd < 0 ? std::strerror(errno) : "not a file; for a pipe, -w - writes to stdout");
        return 1;
    }
    if (!become_sole_writer(fd, file)) return 1;
    sigset_t ends;
    sigemptyset(&ends);
    for (const int each : ending_signals()) sigaddset(&ends, each);
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    signal(SIGPIPE, SIG_IGN);
    const int signals = signalfd(-1, &ends, SFD_CLOEXEC);

    SharedCapture shared;
    if (!shared.begin(fd, file)) return 1;
    std::fprintf(stderr, "verbena: capturing to %s%s; Ctrl-C ends it\n",
                 file == "-" ? "stdout" : file.c_str(),
                 host::in_user_namespace() ? ", of programs in this user namespace" : "");

    off_t copied = 0;
    bool lost = false;
    int error = 0;
    for (;;) {
        // Of stdout: whether it still has a reader, which with nothing to write would never be known.
        pollfd waiting[] = {
            {signals, POLLIN, 0}, {shared.lifeline(), 0, 0}, {file == "-" ? STDOUT_FILENO : -1, 0, 0}};
        const int ready = poll(waiting, 3, file == "-" ? kCopyEveryMs : -1);
        if (file == "-" && (error = copy_on(fd, copied))) break;
        if (ready <= 0) continue;
        if (waiting[2].revents != 0) error = EPIPE;
        lost = waiting[1].revents != 0;
        break;
    }
    shared.end();
    if (lost) std::fprintf(stderr, "verbena: the daemon is gone, and the capture ends\n");
    if (file == "-" && !error) {
        poll(nullptr, 0, kCopyEveryMs);  // programs hear of the end
        error = copy_on(fd, copied);
    }
    if (error && error != EPIPE) {
        std::fprintf(stderr, "verbena: stdout: %s; the capture ends\n", std::strerror(error));
        return 1;
    }
    const bool lacks = link::PcapWriter::lacks_packets(fd);
    if (lacks) std::fprintf(stderr, "verbena: %s: packets found no room and are missing\n", file.c_str());
    return lost || lacks ? 1 : 0;
}

}  // namespace verbena::tool
