#include "tool/recording_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "adapter/clock.h"
#include "base/write_all.h"
#include "host/launch.h"
#include "tool/json_text.h"
#include "tool/sole_writer.h"

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

bool RecordingFile::begin() {
    struct stat status {};
    if (!become_sole_writer(fd_, name_)) return false;
    if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return true;  // a device: it is not read again
    if (ftruncate(fd_, 0) != 0) error_ = errno;
    // Of what the programs write, queue pairs are enough.
    events_ = std::make_unique<trace::EventTail>(fd_, R"("k":"qp")");
    return true;
}

void RecordingFile::add(std::vector<trace::Json> packets) {
    if (events_)
        for (const trace::Json& event : events_->read()) trace::leniently([&] { concerned_.note(event); });
    std::string lines;
    const bool all = data_ && !events_;
    for (const trace::Json& packet : waiting_)
        if (all || concerned_.concerns(packet, data_)) lines += json_text(packet) + "\n";
    waiting_ = std::move(packets);
    append(lines);
}

void RecordingFile::append(const std::string& lines) {
    const int error = write_all(fd_, (half_line_ ? "\n" : "") + lines);
    half_line_ = error != 0;
    if (error) error_ = error;
}

void RecordingFile::end() { add(std::vector<trace::Json>()); }

void RecordingFile::add(const faults::Board& plan) {
    std::string lines;
    for (unsigned index = 0; index < plan.count(); index++) {
        const trace::Json line{{"k", "fault"},
                               {"t", adapter::wall_clock()},
                               {"plan", plan.text(index)},
                               {"seen", plan.seen(index)},
                               {"fired", plan.fired(index)}};
        lines += json_text(line) + "\n";
    }
    append(lines);
}

}  // namespace verbena::tool
