// The packets of all programs of the user in one file, to which the programs append: the part that verbena
// capture, trace and record have in common.
#pragma once

#include <string>

#include "host/connection.h"

namespace verbena::tool {

// A file in memory that packets can be appended to; -1 with errno.
int packet_memory();

class SharedCapture {
   public:
    ~SharedCapture() { end(); }
    SharedCapture() = default;
    SharedCapture(const SharedCapture&) = delete;
    SharedCapture& operator=(const SharedCapture&) = delete;

    // Empties the file, writes its beginning and lets the programs know; those that run know when this
    // returns. False when the reason was told; `file` is its name for that. The descriptor stays the
    // caller's.
    bool begin(int fd, const std::string& file);
    void end();
    // Becomes readable (or hangs up) when the daemon is gone.
    int lifeline() const { return connection_.lifeline; }
    bool lost() const;  // whether it is

   private:
    bool begun_ = false;
    host::Connection connection_;
};

}  // namespace verbena::tool
