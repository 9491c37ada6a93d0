// The file of a recording, to which the programs append their events and we the packets that concern them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "faults/board.h"
#include "trace/concerned.h"
#include "trace/tail.h"

namespace verbena::tool {

class RecordingFile {
   public:
    // `data`: also packets that are not the connection manager's.
    explicit RecordingFile(bool data) : data_(data) {}
    ~RecordingFile();
    RecordingFile(const RecordingFile&) = delete;
    RecordingFile& operator=(const RecordingFile&) = delete;

    // False when the reason was told. What is in the file stays there until begin().
    bool open(const std::string& name);
    bool begin();
    // Packets are kept back until the next call, when it is known which of them concern the programs.
    void add(std::vector<trace::Json> packets);
    void end();  // the last ones
    // What became of a plan of faults, for those who read the file.
    void add(const faults::Board& plan);
    int error() const { return error_; }  // an errno, if not all packets could be written

    const std::string& name() const { return name_; }
    const std::string& path() const { return path_; }

   private:
    void append(const std::string& lines);

    const bool data_;
    std::string name_, path_;
    int fd_ = -1, error_ = 0;
    bool half_line_ = false;  // what we wrote last may have no end
    std::unique_ptr<trace::EventTail> events_;
    trace::Concerned concerned_;
    std::vector<trace::Json> waiting_;
};

}  // namespace verbena::tool
