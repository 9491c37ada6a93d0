// A trace for Perfetto (ui.perfetto.dev) and chrome://tracing: the "Trace Event Format", as JSON.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "trace/timeline.h"

namespace verbena::trace {

// Calls are slices on the tracks of their threads; completions, events and the queue pairs' states instants;
// packets are slices on a track of their own. An arrow leads from each post of a send to its completion.
class Perfetto {
   public:
    explicit Perfetto(std::FILE* file);
    void add(const Json& event, Part part);
    void end();  // completes the file

   private:
    void put(const Json& event);
    void call(const Json& event, double time);
    void completion(const Json& event, double time);
    void packet(const Json& event, double time);
    void instant(const Json& event, double time, const std::string& name);
    double microseconds(const Json& event);

    std::FILE* file_;
    bool first_ = true;
    std::uint64_t origin_ = 0;
    std::map<std::string, std::uint64_t> flows_;  // by pid, queue pair and wr_id: the last post's
    std::uint64_t flow_ = 0;
    std::map<std::string, Json> unfinished_;
};

}  // namespace verbena::trace
