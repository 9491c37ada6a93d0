#include "tool/watched_packets.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace verbena::tool {

WatchedPackets::~WatchedPackets() {
    if (fd_ >= 0) close(fd_);
}

bool WatchedPackets::begin() {
    fd_ = packet_memory();
    if (fd_ < 0) {
        std::fprintf(stderr, "verbena: memory for packets: %s\n", std::strerror(errno));
        return false;
    }
    if (!shared_.begin(fd_, "packets")) return false;
    tail_ = std::make_unique<trace::PacketTail>(fd_);
    return true;
}

std::vector<trace::Json> WatchedPackets::read() {
    if (!tail_) return {};
    if (!told_ && shared_.lost()) {
        told_ = true;
        std::fprintf(stderr, "verbena: the daemon is gone; no packets from here on\n");
    }
    return tail_->read();
}

void WatchedPackets::end() { shared_.end(); }

}  // namespace verbena::tool
