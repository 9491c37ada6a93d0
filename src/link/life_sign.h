// How peers learn of our end where the kernel follows no process for them (base/pidfd.h): one end of a pipe,
// whose other end no other process has. It hangs up when we have ended, or have become another program.
//
// Thread safety: one thread at a time.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/own_file.h"

namespace verbena::link {

class LifeSign {
   public:
    // The end for peers, the same each time: readable when we are gone. -1: there is no descriptor left for
    // it.
    int shown() {
        if (shown_) return shown_.get();
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) return -1;
        Descriptor shown(out_of_the_way(ends[0]));
        kept_.reset(out_of_the_way(ends[1]));
        if (shown && kept_) shown_ = std::move(shown);
        return shown_.get();
    }
    // In a child after fork(): or its parent would seem to live as long as it does.
    void abandon() { kept_.reset(); }

   private:
    Descriptor shown_, kept_;
};

}  // namespace verbena::link
