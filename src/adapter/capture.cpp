#include "adapter/capture.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "adapter/clock.h"
#include "link/hooks.h"
#include "link/pcap_writer.h"

namespace verbena::adapter {
namespace {

bool is_same_file(int a, int b) {
    struct stat first {
    }, second{};
    return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

// One per process, never deleted: packets may flow through it until the process ends.
class Capture : public link::PacketObserver {
   public:
    void packet(const link::PacketEvent& event) override {
        const Time time = wall_clock();
        std::lock_guard guard(lock_);
        if (link::PcapWriter* writer = own_writer(getpid())) writer->write(event, time);
        if (shared_.empty() || !(event.sent || event.note || !is_local_ || !is_local_(event.path->source)))
            return;
        for (const auto& writer : shared_) writer->write(event, time);
    }

    void begin_own(std::string_view path, std::string_view application) {
        std::lock_guard guard(lock_);
        if (path == path_) return;
        path_ = path;
        application_ = application;
        pid_ = 0;
        link::set_packet_observer(this);
    }

    void share(std::span<const int> files, const std::function<bool(const Gid&)>& is_local) {
        std::lock_guard guard(lock_);
        std::vector<std::unique_ptr<link::PcapWriter>> now;
        for (const int fd : files) {
            auto known = std::find_if(shared_.begin(), shared_.end(),
                                      [&](const auto& each) { return each && is_same_file(fd, each->fd()); });
            if (known == shared_.end()) {
                now.push_back(link::PcapWriter::join(fd));
            } else {
                close(fd);
                now.push_back(std::move(*known));
            }
        }
        shared_ = std::move(now);
        is_local_ = is_local;
        link::set_packet_observer(!shared_.empty() || !path_.empty() ? this : nullptr);
    }

   private:
    // A child after fork() that sends packets of its own gets a file of its own.
    link::PcapWriter* own_writer(pid_t pid) {
        if (path_.empty()) return nullptr;
        if (pid != pid_) {
            pid_ = pid;
            writer_ = link::PcapWriter::create(path_ + "." + std::to_string(pid), application_, application_);
        }
        return writer_.get();
    }

    std::mutex lock_;
    std::string path_, application_;
    pid_t pid_ = 0;
    std::unique_ptr<link::PcapWriter> writer_;
    std::vector<std::unique_ptr<link::PcapWriter>> shared_;
    std::function<bool(const Gid&)> is_local_;
};

Capture& capture() {
    static auto* const instance = new Capture;
    return *instance;
}

}  // namespace

void start_capture_if_asked(std::string_view application) {
    static std::once_flag once;
    std::call_once(once, [&] {
        // Not with raised rights: the user could write files as somebody else.
        const char* path = secure_getenv("VERBENA_CAPTURE");
        if (path && *path) capture_to(path, application);
    });
}

void capture_to(std::string_view path, std::string_view application) {
    capture().begin_own(path, application);
}

void share_captures(std::span<const int> files, const std::function<bool(const Gid&)>& is_local) {
    capture().share(files, is_local);
}

}  // namespace verbena::adapter
