// Writes packets into a pcapng file that tshark reads: raw IP packets whose IP and UDP headers are put
// together again from the path, so that addresses, ports and IP identification are those that the ICRC
// counts. Each file is one program's; times are since 1970, so files can be merged.
//
// Thread safety: all calls. Every packet is written at once, with one call, so that a killed program's file
// is whole.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/own_file.h"
#include "base/time.h"
#include "link/hooks.h"

namespace verbena::link {

class PcapWriter {
   public:
    // Makes the file anew. `application` and `interface` are shown by the tools that read it. nullptr with
    // errno and a reason.
    static std::unique_ptr<PcapWriter> create(const std::string& path, const std::string& application,
                                              const std::string& interface);
    // Goes on with a file that has a beginning, among other writers; the descriptor, which appends
    // (O_APPEND), is the writer's from now on.
    static std::unique_ptr<PcapWriter> join(int fd);
    ~PcapWriter();
    PcapWriter(const PcapWriter&) = delete;
    PcapWriter& operator=(const PcapWriter&) = delete;

    // The file, to be joined by others; it stays the writer's.
    int fd() const { return fd_; }
    // Whether somebody who writes to the file, or to what it was joined from, had to leave packets out.
    static bool lacks_packets(int fd);

    // Begins a file whose descriptor is given, as create() does. nullptr with errno and a reason.
    static std::unique_ptr<PcapWriter> begin(int fd, const std::string& application,
                                             const std::string& interface);

    // `time`: nanoseconds since 1970. What finds no room is missing; the log says so.
    void write(const PacketEvent& event, Time time);

   private:
    explicit PcapWriter(int fd) : fd_(fd) {}
    bool start(const std::string& application, const std::string& interface);
    bool put();  // false with errno
    void take_back(off_t size) const;
    void note_a_loss(int error) const;

    // Those who write have nothing in common but the file's flags; this one means nothing to a file.
    static constexpr int kLacksPackets = O_NONBLOCK;

    const int fd_;
    const FileIdentity file_ = FileIdentity::of(fd_);  // a program may close it
    std::mutex lock_;
    std::vector<std::uint8_t> block_;  // under construction
};

}  // namespace verbena::link
