// The packets of all programs of the user while a program is watched, from memory in which they do not stay.
#pragma once

#include <memory>
#include <vector>

#include "tool/shared_capture.h"
#include "trace/tail.h"

namespace verbena::tool {

class WatchedPackets {
   public:
    ~WatchedPackets();
    WatchedPackets() = default;
    WatchedPackets(const WatchedPackets&) = delete;
    WatchedPackets& operator=(const WatchedPackets&) = delete;

    // False when the reason was told. Without it there are no packets.
    bool begin();
    // What is new. Says once that there is nothing any more, if so.
    std::vector<trace::Json> read();
    void end();  // what was captured can be read all the same

   private:
    int fd_ = -1;
    bool told_ = false;
    SharedCapture shared_;
    std::unique_ptr<trace::PacketTail> tail_;
};

}  // namespace verbena::tool
