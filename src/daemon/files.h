// The event channels' files: our end of each channel's socket pair. An event is one datagram; the channel's
// descriptor is readable exactly while one waits. Events queue here until all that the daemon was told has
// been acted upon, since a program that sleeps may take the processor with the first one of many; and when
// the socket is full, to follow as the program reads, so that none is lost and the daemon never blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "base/descriptor.h"
#include "cm/types.h"
#include "daemon/loop.h"

namespace verbena::daemon {

using SessionNumber = std::uint32_t;  // names a connected program; 0 is never one

class Files {
   public:
    // `closed` is called when the program has closed its end; the file still exists then.
    using Closed = std::function<void(cm::FileNumber)>;
    Files(Loop& loop, std::uint32_t first_number, Closed closed);

    // Takes `end` over. EINVAL with a reason if it is no SOCK_SEQPACKET unix socket.
    int create(SessionNumber owner, Descriptor end, cm::FileNumber& number);
    void close(cm::FileNumber number);
    void deliver(cm::FileNumber number, const cm::Event& event, std::uint32_t count = 1);
    // Sends what was delivered. Before the daemon waits or answers, who may ask how many events an id had.
    void flush();

    int descriptor(cm::FileNumber number) const;       // our end; -1: no such file
    SessionNumber owner(cm::FileNumber number) const;  // 0: no such file
    // each(number), which may close that one.
    template <class Each>
    void for_each_of(SessionNumber owner, Each each) {
        for (auto next = files_.begin(); next != files_.end();) {
            const auto at = next++;
            if (at->second.owner == owner) each(at->first);
        }
    }
    std::size_t count() const { return files_.size(); }

   private:
    struct File {
        SessionNumber owner;
        Descriptor end;
        std::deque<cm::Event> waiting;
        bool full = false;  // the loop tells when there is room
    };
    void ready(cm::FileNumber number, std::uint32_t events);
    void send_waiting(File& file);

    Loop& loop_;
    cm::FileNumber next_number_;
    Closed closed_;
    std::unordered_map<cm::FileNumber, File> files_;
    std::vector<cm::FileNumber> unsent_;  // since the last flush()
};

}  // namespace verbena::daemon
