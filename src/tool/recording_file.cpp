#include "tool/recording_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/write_all.h"
#include "host/launch.h"
#include "tool/json_text.h"

namespace verbena::tool {

RecordingFile::~RecordingFile() {
    if (fd_ >= 0) close(fd_);
}

bool RecordingFile::open(const std::string& name) {
    name_ = name;
    path_ = host::absolute_path(name);  // programs change their folder
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd_ < 0) std::fprintf(stderr, "verbena: %s: %s\n", name.c_str(), std::strerror(errno));
    return fd_ >= 0;
}

void RecordingFile::begin() {
    struct stat status {};
    if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return;  // a device, which cannot be read again
    if (ftruncate(fd_, 0) != 0) error_ = errno;
    // Of what the programs write, queue pairs are enough.
    events_ = std::make_unique<trace::EventTail>(fd_, R"("k":"qp")");
}

void RecordingFile::add(std::vector<trace::Json> packets) {
    if (events_)
        for (const trace::Json& event : events_->read()) trace::leniently([&] { concerned_.note(event); });
    std::string lines = half_line_ ? "\n" : "";
    const bool all = data_ && !events_;
    for (const trace::Json& packet : waiting_)
        if (all || concerned_.concerns(packet, data_)) lines += json_text(packet) + "\n";
    waiting_ = std::move(packets);
    const int error = write_all(fd_, lines);
    half_line_ = error != 0;
    if (error) error_ = error;
}

void RecordingFile::end() { add({}); }

}  // namespace verbena::tool
