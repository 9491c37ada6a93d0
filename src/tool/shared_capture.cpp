#include "tool/shared_capture.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "base/reason.h"
#include "base/sealed_file.h"
#include "link/pcap_writer.h"

namespace verbena::tool {
namespace {

constexpr int kStartMs = 1000, kStartStepMs = 5;  // until all programs know

bool tell(const char* what) {
    std::fprintf(stderr, "verbena: %s: %s\n", what, last_reason());
    return false;
}

}  // namespace

int packet_memory() {
    const int fd = create_memory_file("verbena-capture");
    if (fd >= 0) fcntl(fd, F_SETFL, O_APPEND);
    return fd;
}

bool SharedCapture::begin(int fd, const std::string& file) {
    host::CaptureReply reply;
    if (host::open_connection(connection_, host::kLookersPatience) != 0) return tell("no daemon");
    begun_ = true;
    // Not before: a file that was there stays as it is if nothing comes of the capture. The writer takes its
    // descriptor along when it goes.
    if (ftruncate(fd, 0) != 0 ||
        !link::PcapWriter::begin(fcntl(fd, F_DUPFD_CLOEXEC, 0), "verbena capture", "verbena"))
        return tell(file.c_str());
    if (host::ask(connection_, host::Command::capture, host::CaptureRequest{}, reply, fd) != 0)
        return tell("capture");
    for (int waited = 0; reply.waiting > 0 && waited < kStartMs; waited += kStartStepMs) {
        poll(nullptr, 0, kStartStepMs);
        if (host::ask(connection_, host::Command::capture, host::CaptureRequest{}, reply) != 0)
            return tell("capture");
    }
    return true;
}

bool SharedCapture::lost() const {
    pollfd daemon{connection_.lifeline, 0, 0};
    return begun_ && poll(&daemon, 1, 0) > 0;
}

void SharedCapture::end() {
    if (begun_) host::close_connection(connection_);
    begun_ = false;
}

}  // namespace verbena::tool
