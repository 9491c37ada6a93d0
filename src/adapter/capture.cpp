#include "adapter/capture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "adapter/clock.h"
#include "base/reason.h"
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

// Open for appending; one that is new has exactly that mode, whatever our own umask. Where others may write,
// somebody could have guessed the name: what is there is a file of ours, or refused. -1 with errno.
int open_asked(const std::string& path, mode_t mode) {
    constexpr int kAppend = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const int fresh = open(path.c_str(), kAppend | O_EXCL, mode);
    if (fresh >= 0) {
        fchmod(fresh, mode);
        return fresh;
    }
    const int known = errno == EEXIST ? open(path.c_str(), kAppend, mode) : -1;
    struct stat status {};
    if (known < 0 || (fstat(known, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid()))
        return known;
    close(known);
    errno = EPERM;
    return -1;
}

// A file that others asked for; it is opened at the first packet. What was there, of an earlier time, stays:
// a file may have many sections.
class ForOthers {
   public:
    explicit ForOthers(AskedCapture asked) : asked_(std::move(asked)) {}
    const std::string& path() const { return asked_.path; }
    void write(const link::PacketEvent& event, Time time, const std::string& application) {
        if (!std::exchange(tried_, true)) begin(application);
        if (writer_) writer_->write(event, time);
    }

   private:
    void begin(const std::string& application) {
        const std::string path = asked_.path + "." + std::to_string(getpid());
        const int fd = open_asked(path, asked_.mode);
        if (fd >= 0)
            writer_ = link::PcapWriter::begin(fd, application, application);
        else
            log(LogLevel::warn, "no capture of the connection manager's packets in %s: %s", path.c_str(),
                std::strerror(errno));
    }

    AskedCapture asked_;
    bool tried_ = false;
    std::unique_ptr<link::PcapWriter> writer_;
};

// One per process, never deleted: packets may flow through it until the process ends.
class Capture : public link::PacketObserver {
   public:
    void packet(const link::PacketEvent& event) override {
        const Time time = wall_clock();
        std::lock_guard guard(lock_);
        if (link::PcapWriter* writer = own_writer(getpid())) writer->write(event, time);
        for (ForOthers& each : for_others_) each.write(event, time, application_);
        if (shared_.empty() || !(event.sent || event.note || !is_local_ || !is_local_(event.path->source)))
            return;
        for (const auto& writer : shared_) writer->write(event, time);
    }

    void begin_own(std::string_view path, std::string_view application) {
        std::lock_guard guard(lock_);
        path_ = path;
        application_ = application;
        observe_if_asked();
    }

    void serve(std::span<const AskedCapture> files, std::string_view application) {
        std::lock_guard guard(lock_);
        application_ = application;
        std::vector<ForOthers> now;
        for (const AskedCapture& file : files) {
            if (file.path == path_) continue;  // the same file
            auto known = std::ranges::find(for_others_, file.path, &ForOthers::path);
            now.push_back(known == for_others_.end() ? ForOthers(file) : std::move(*known));
        }
        for_others_ = std::move(now);
        observe_if_asked();
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
        observe_if_asked();
    }

   private:
    void observe_if_asked() {
        const bool asked = !shared_.empty() || !path_.empty() || !for_others_.empty();
        link::set_packet_observer(asked ? this : nullptr);
    }

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
    std::vector<ForOthers> for_others_;
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
        if (path && *path) capture().begin_own(path, application);
    });
}

void capture_for_others(std::span<const AskedCapture> files, std::string_view application) {
    capture().serve(files, application);
}

void share_captures(std::span<const int> files, const std::function<bool(const Gid&)>& is_local) {
    capture().share(files, is_local);
}

}  // namespace verbena::adapter
