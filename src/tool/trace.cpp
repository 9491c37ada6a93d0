#include "tool/trace.h"

#include <fnmatch.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>

#include "adapter/clock.h"
#include "tool/event_losses.h"
#include "tool/program_check.h"
#include "tool/recording_file.h"
#include "tool/scratch_file.h"
#include "tool/sole_writer.h"
#include "tool/supervise.h"
#include "tool/watched_packets.h"
#include "tool/words.h"
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
        name_ = options.output;
        file_ = name_.empty() ? stderr : std::fopen(name_.c_str(), "ae");
        return file_ || complain(name_);
    }
    // What is in the file stays there until now. False when the reason was told.
    bool begin(const TraceOptions& options) {
        if (file_ != stderr) {
            if (!become_sole_writer(fileno(file_), name_)) return false;
            [[maybe_unused]] const int no_file = ftruncate(fileno(file_), 0);
        }
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
        failed_ = std::fflush(file_) != 0 || std::ferror(file_);
    }
    // On stderr, if not everything could be written; false then.
    bool tell_what_failed() const {
        if (failed_ && !name_.empty())
            std::fprintf(stderr, "verbena: %s: not everything could be written\n", name_.c_str());
        return !failed_;
    }

   private:
    CallPatterns calls_;
    const bool data_;
    trace::Concerned concerned_;
    std::string name_;
    std::FILE* file_ = nullptr;
    bool failed_ = false;
    trace::Text text_;
    std::unique_ptr<trace::Perfetto> perfetto_;
};

// The interposer's environment and the fabric's packets: what both commands need before the program starts,
// and before anything that is there is overwritten. 0, or an exit status when the reason was told.
int prepare_watched(const TraceOptions& options, RunOptions& run, const std::string& events,
                    const std::vector<std::string>& command, EventLosses& losses, WatchedPackets& packets) {
    if (!losses.open()) return 1;
    run.interposer.emplace_back("VERBENA_TRACE_EVENTS", events);
    run.interposer.emplace_back(losses.variable(), losses.path());
    run.interposer.emplace_back("VERBENA_TRACE_DATA", options.no_data ? "0" : "1");
    if (int status = prepare(run, command)) return status;
    if (find_program(command[0]).empty()) return become(command);  // which says why not
    return options.no_packets || options.run.system || packets.begin() ? 0 : 1;
}

}  // namespace

int trace(const TraceOptions& options, const std::vector<std::string>& command) {
    int status = 0, instead_of_0 = 0;
    {
        ScratchFile events;
        ActivePlan plan;
        EventLosses losses;
        WatchedPackets packets;
        Output output(options);
        RunOptions run = options.run;
        if (int wrong = plan.begin(run)) return wrong;
        if (!output.open(options) || !events.open("trace")) return 1;
        if (int wrong = prepare_watched(options, run, events.path(), command, losses, packets)) return wrong;
        if (!output.begin(options)) return 1;
        trace::EventTail tail(events.fd(), trace::Afterwards::goes);
        trace::Timeline timeline([&](const Json& event, Part part) { output.show(event, part); });
        const auto collect = [&] {
            for (Json& event : tail.read()) trace::leniently([&] { timeline.add(std::move(event)); });
            for (Json& event : packets.read()) trace::leniently([&] { timeline.add(std::move(event)); });
        };
        status = run_and_wait(command, [&] {
            collect();
            trace::leniently([&] { timeline.advance(static_cast<std::uint64_t>(adapter::wall_clock())); });
        });
        packets.end();
        collect();
        trace::leniently([&] { timeline.end(); });
        output.end();
        instead_of_0 = plan.end();
        const bool all = losses.tell(events.path());
        if (!output.tell_what_failed() || !all) instead_of_0 = 1;
    }
    return end_as(status, instead_of_0);
}

int record(const TraceOptions& options, const std::vector<std::string>& command) {
    int status = 0, instead_of_0 = 0;
    {
        RecordingFile file(!options.no_data);
        ActivePlan plan;
        EventLosses losses;
        WatchedPackets packets;
        RunOptions run = options.run;
        if (int wrong = plan.begin(run)) return wrong;
        if (!file.open(options.output.empty() ? "verbena.vrec" : options.output)) return 1;
        if (int wrong = prepare_watched(options, run, file.path(), command, losses, packets)) return wrong;
        if (!file.begin()) return 1;
        status = run_and_wait(command, [&] { file.add(packets.read()); });
        packets.end();
        file.add(packets.read());
        file.end();
        if (plan.board()) file.add(*plan.board());
        instead_of_0 = plan.end();
        if (!losses.tell(file.name(), file.error())) instead_of_0 = 1;
    }
    return end_as(status, instead_of_0);
}

}  // namespace verbena::tool
