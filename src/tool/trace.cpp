#include "tool/trace.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <system_error>

#include "adapter/clock.h"
#include "link/capture_reader.h"
#include "tool/scratch_file.h"
#include "tool/shared_capture.h"
#include "tool/supervise.h"
#include "trace/concerned.h"
#include "trace/perfetto.h"
#include "trace/tail.h"
#include "trace/text.h"
#include "trace/timeline.h"

namespace verbena::tool {
namespace {

using trace::Json;
using trace::Part;

bool complain(const std::string& what) {
    std::fprintf(stderr, "verbena: %s: %s\n", what.c_str(), std::strerror(errno));
    return false;
}

// The file of a recording, to which the programs append their events.
class RecordingFile {
   public:
    ~RecordingFile() {
        if (fd_ >= 0) close(fd_);
    }
    bool open(const std::string& name) {
        std::error_code error;
        path_ = std::filesystem::absolute(name, error).string();  // programs change their folder
        fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
        return fd_ >= 0 || complain(name);
    }
    int fd() const { return fd_; }
    const std::string& path() const { return path_; }

   private:
    std::string path_;
    int fd_ = -1;
};

// Whether a call is among those to show.
class CallPatterns {
   public:
    explicit CallPatterns(const std::string& text) {
        std::stringstream words(text);
        for (std::string word; std::getline(words, word, ',');) patterns_.push_back(word);
    }
    bool match(const std::string& call) const {
        for (const std::string& pattern : patterns_)
            if (fnmatch(pattern.c_str(), call.c_str(), 0) == 0) return true;
        return patterns_.empty();
    }

   private:
    std::vector<std::string> patterns_;
};

// Where the time line is shown.
class Output {
   public:
    explicit Output(const TraceOptions& options) : calls_(options.calls), data_(!options.no_data) {}
    ~Output() {
        if (file_ && file_ != stderr) std::fclose(file_);
    }
    bool open(const TraceOptions& options) {
        file_ = options.output.empty() ? stderr : std::fopen(options.output.c_str(), "we");
        if (!file_) return complain(options.output);
        const bool json =
            options.output.size() > 5 && options.output.rfind(".json") == options.output.size() - 5;
        if (options.perfetto || json) perfetto_ = std::make_unique<trace::Perfetto>(file_);
        return true;
    }
    void show(const Json& event, Part part) {
        const std::string kind = event.value("k", "");
        concerned_.note(event);
        if ((kind == "call" || kind == "begin") && !calls_.match(event.value("call", ""))) return;
        if (kind == "packet" && !concerned_.concerns(event, data_)) return;
        if (perfetto_) return perfetto_->add(event, part);
        if (const std::string line = text_.line(event, part); !line.empty())
            std::fprintf(file_, "%s\n", line.c_str());
    }
    void end() {
        if (perfetto_) perfetto_->end();
        std::fflush(file_);
    }

   private:
    CallPatterns calls_;
    const bool data_;
    trace::Concerned concerned_;
    std::FILE* file_ = nullptr;
    trace::Text text_;
    std::unique_ptr<trace::Perfetto> perfetto_;
};

// The packets of all programs, unless nobody wants them or there are none.
class Packets {
   public:
    ~Packets() {
        if (fd_ >= 0) close(fd_);
    }
    bool begin(const TraceOptions& options) {
        if (options.no_packets || options.run.system) return true;
        fd_ = packet_memory();
        if (fd_ < 0) return complain("memory for packets");
        if (!shared_.begin(fd_, "packets")) return false;
        tail_ = std::make_unique<trace::PacketTail>(fd_);
        return true;
    }
    std::vector<Json> read() { return tail_ ? tail_->read() : std::vector<Json>{}; }
    void end() { shared_.end(); }

   private:
    int fd_ = -1;
    SharedCapture shared_;
    std::unique_ptr<trace::PacketTail> tail_;
};

// The interposer's environment, the fabric's packets, faults: what both commands need before the program
// starts.
int prepare_watched(const TraceOptions& options, const std::string& events,
                    const std::vector<std::string>& command, ActivePlan& plan, Packets& packets) {
    RunOptions run = options.run;
    run.interposer.emplace_back("VERBENA_TRACE_EVENTS", events);
    run.interposer.emplace_back("VERBENA_TRACE_DATA", options.no_data ? "0" : "1");
    if (int status = plan.begin(run)) return status;
    if (int status = prepare(run, command)) return status;
    return packets.begin(options) ? 0 : 1;
}

// What is wrong with an event of the program's is no reason to end it.
template <class Body>
void leniently(Body body) {
    try {
        body();
    } catch (const Json::exception&) {
    }
}

}  // namespace

int trace(const TraceOptions& options, const std::vector<std::string>& command) {
    int status = 0, instead_of_0 = 0;
    {
        ScratchFile events;
        ActivePlan plan;
        Packets packets;
        Output output(options);
        if (!output.open(options) || !events.open("trace")) return 1;
        if (int wrong = prepare_watched(options, events.path(), command, plan, packets)) return wrong;
        trace::EventTail tail(events.fd());
        trace::Timeline timeline([&](const Json& event, Part part) { output.show(event, part); });
        const auto collect = [&] {
            for (Json& event : tail.read()) leniently([&] { timeline.add(std::move(event)); });
            for (Json& event : packets.read()) leniently([&] { timeline.add(std::move(event)); });
        };
        status = run_and_wait(command, [&] {
            collect();
            leniently([&] { timeline.advance(static_cast<std::uint64_t>(adapter::wall_clock())); });
        });
        packets.end();
        collect();
        leniently([&] { timeline.end(); });
        output.end();
        instead_of_0 = plan.end();
    }
    return end_as(status, instead_of_0);
}

int record(const TraceOptions& options, const std::vector<std::string>& command) {
    int status = 0, instead_of_0 = 0;
    {
        RecordingFile events;
        ActivePlan plan;
        Packets packets;
        if (!events.open(options.output.empty() ? "verbena.vrec" : options.output)) return 1;
        if (int wrong = prepare_watched(options, events.path(), command, plan, packets)) return wrong;
        const auto collect = [&] {
            std::string lines;
            for (const Json& event : packets.read()) lines += event.dump() + "\n";
            for (std::size_t at = 0; at < lines.size();) {
                const ssize_t written = write(events.fd(), lines.data() + at, lines.size() - at);
                if (written < 0 && errno != EINTR) break;  // a full disk
                if (written > 0) at += static_cast<std::size_t>(written);
            }
        };
        status = run_and_wait(command, collect);
        packets.end();
        collect();
        instead_of_0 = plan.end();
    }
    return end_as(status, instead_of_0);
}

}  // namespace verbena::tool
