#include "adapter/capture.h"

#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "adapter/clock.h"
#include "link/hooks.h"
#include "link/pcap_writer.h"

namespace verbena::adapter {
namespace {

class Capture : public link::PacketObserver {
   public:
    Capture(std::string path, std::string application)
        : path_(std::move(path)), application_(std::move(application)) {}

    void packet(const link::PacketEvent& event) override {
        // A child after fork() that sends packets of its own gets a file of its own.
        if (link::PcapWriter* writer = writer_of(getpid())) writer->write(event, wall_clock());
    }

   private:
    link::PcapWriter* writer_of(pid_t pid) {
        std::lock_guard guard(lock_);
        if (pid != pid_) {
            pid_ = pid;
            writer_ = link::PcapWriter::create(path_ + "." + std::to_string(pid), application_, application_);
        }
        return writer_.get();
    }

    const std::string path_, application_;
    std::mutex lock_;
    pid_t pid_ = 0;
    std::unique_ptr<link::PcapWriter> writer_;
};

}  // namespace

void start_capture_if_asked(std::string_view application) {
    static std::once_flag once;
    std::call_once(once, [&] {
        const char* path = std::getenv("VERBENA_CAPTURE");
        if (path && *path) capture_to(path, application);
    });
}

void capture_to(std::string_view path, std::string_view application) {
    static std::mutex lock;
    static std::string current;
    std::lock_guard guard(lock);
    if (path == current) return;
    current = path;
    // Never deleted: packets may flow through any of them until the process ends.
    link::set_packet_observer(new Capture(current, std::string(application)));
}

}  // namespace verbena::adapter
