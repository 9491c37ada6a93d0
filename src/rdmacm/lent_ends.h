// The daemon's ends of event channels, as far as it has lent them: what is written there is an event of the
// channel's, as if the daemon had sent it. So the library tells its program by itself what the daemon would
// only repeat (own_events.h).
//
// A socket of which this process has both ends does not end when the daemon dies. So libibverbs, which
// watches the daemon while a device is open, says so, and the ends are shut down here.
//
// Thread safety: all calls. No lock but its own is taken, nor anything waited for.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/own_file.h"
#include "cm/types.h"

namespace verbena::rdmacm {

struct Channel;

class LentEnds {
   public:
    LentEnds() = default;
    ~LentEnds();
    LentEnds(const LentEnds&) = delete;
    LentEnds& operator=(const LentEnds&) = delete;

    bool has(const Channel& channel) const;
    // Takes `fd` over, which is lent by the daemon of that generation (host::generation()). False: there was
    // no memory, and it is closed.
    bool keep(const Channel& channel, std::uint32_t generation, int fd);
    void give_back(const Channel& channel);
    // False if it has no end of this channel, or the socket is full.
    bool write(const Channel& channel, const cm::Event& event);

    // Each channel of that daemon's, or an older one's, is at its end behind what was written.
    void daemon_ended(std::uint32_t generation);

   private:
    struct End {
        std::uint32_t generation;
        int fd;
        FileIdentity identity;  // the program may have closed it, and opened another file
        bool is_ours() const { return identity.is(fd); }
        void shut() const;
    };
    mutable std::mutex mutex_;
    std::map<const Channel*, End> ends_;
    std::uint32_t last_ended_ = 0;
};

}  // namespace verbena::rdmacm
