// What happened in a run, as `verbena record` or a capture has it: what programs called and were told, and
// the packets. Times are nanoseconds since 1970. Values of calls are text already: they are shown, not
// computed with.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <utility>
#include <vector>

#include "link/capture_reader.h"

namespace verbena::report {

using Pairs = std::vector<std::pair<std::string, std::string>>;  // name, value

struct Process {
    unsigned file = 0;
    long pid = 0;
    std::string host;
    std::vector<std::string> argv;

    std::string name() const;  // "rping (pid 12)"
};

// What all entries of a process have.
struct Entry {
    std::uint64_t time = 0;
    std::size_t process = 0;
    long thread = 0;
};

struct Call : Entry {
    std::uint64_t duration = 0;
    int depth = 0;  // above 0: made by librdmacm inside another call
    std::string name;
    Pairs arguments, out;
    std::string result;
    std::string error;  // EINVAL; empty if it did not fail
    std::string reason;
    bool finished = true;     // false: the program ended in it
    bool hung = false;        // and no other thread of the program did anything any more
    std::uint64_t empty = 0;  // polls that found nothing since the last line of the kind

    bool failed() const { return !error.empty() && error != "EAGAIN"; }
};

struct Completion : Entry {
    std::string cq;
    std::uint32_t qp = 0;
    std::string wr_id, status, opcode, immediate, reason;
    std::uint64_t bytes = 0;
    std::uint32_t vendor_err = 0;

    bool failed() const { return status != "success" && status != "IBV_WC_SUCCESS"; }
};

struct CmEvent : Entry {
    std::string id, listen_id, event, reason;
    int status = 0;
    Pairs parameters;
};

struct AsyncEvent : Entry {
    std::string event, element, reason;
};

// A queue pair's change of state; from "" it is new, to "" it is gone.
struct Transition : Entry {
    std::uint32_t qp = 0;
    std::string from, to, type;
    Pairs attributes;
};

struct RecordedPacket {
    link::CapturedPacket captured;
    unsigned file = 0;
    bool lost = false;  // left, and did not arrive
};

struct Recording {
    std::vector<std::string> files;
    std::vector<Process> processes;
    std::vector<Call> calls;
    std::vector<Completion> completions;
    std::vector<CmEvent> cm_events;
    std::vector<AsyncEvent> async_events;
    std::vector<Transition> transitions;
    std::vector<RecordedPacket> packets;
    std::vector<std::string> remarks;  // for the reader of the report: corrected clocks, a half-written line

    std::uint64_t first_time() const;
    std::uint64_t last_time() const;
};

// Adds a file: JSON lines (a .vrec), pcapng or pcap. False, with "FILE:LINE: what is wrong" in `error`, if it
// is neither.
bool read_recording(const std::string& file, Recording& recording, std::string& error);

// The same for a stream that can be read again from its beginning.
bool read_recording(const std::string& name, std::istream& stream, Recording& recording, std::string& error);

// Brings what several files say into one order: the clocks of different hosts are compared by the packets
// that both saw, a packet that two files have is there once, and one that left but did not arrive is marked
// as lost.
void merge_recording(Recording& recording);

}  // namespace verbena::report
