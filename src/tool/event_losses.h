// What the programs that are watched could not write of their events.
#pragma once

#include <string>

#include "interpose/lost_events.h"
#include "tool/scratch_file.h"

namespace verbena::tool {

class EventLosses {
   public:
    EventLosses() = default;
    ~EventLosses();
    EventLosses(const EventLosses&) = delete;
    EventLosses& operator=(const EventLosses&) = delete;

    bool open();  // false when the reason was told
    // The programs know of it by this variable, with this value.
    static const char* variable() { return interpose::LostEvents::kVariable; }
    const std::string& path() const { return file_.path(); }
    // On stderr, if there were any; false then. `events`: the file that lacks them, and packets if there is
    // an errno for which those could not be written.
    bool tell(const std::string& events, int packets_error = 0) const;

   private:
    ScratchFile file_;
    interpose::LostEvents* lost_ = nullptr;
};

}  // namespace verbena::tool
