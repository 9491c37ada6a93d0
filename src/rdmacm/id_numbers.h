// The daemon's half of new ids. A process that makes many has numbers in reserve (host/protocol.h), so that
// rdma_create_id need not wait for the daemon.
//
// Thread safety: all calls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "rdmacm/daemon_call.h"

namespace verbena::rdmacm {

class IdNumbers {
   public:
    // Makes an id as `request` describes it, at the daemon that has this generation (host::generation()).
    // 0, or -1 with errno and a reason. If none could be made after all, calls on the id that wait
    // for an answer say that there is none.
    int create(host::CreateIdRequest request, std::uint32_t generation, cm::IdNumber& number) {
        std::lock_guard lock(mutex_);  // until it is sent: numbers are taken in ascending order
        if (generation_ != generation) next_ = end_ = made_ = 0;
        generation_ = generation;
        host::IdReply reply;
        if (next_ < end_) {
            number = request.id = next_++;
            // That port space takes any type of queue pair, which may be wrong.
            if (request.port_space == cm::PortSpace::ib) return ask(host::Command::create_id, request, reply);
            return put_off(host::Command::create_id, request);
        }
        // As many as there have been: programs with few ids take few numbers.
        request.reserve = std::min(made_, host::kMostReserved);
        if (ask(host::Command::create_id, request, reply) != 0) return -1;
        number = reply.id;
        next_ = number + 1;
        end_ = next_ + request.reserve;
        made_ += 1 + request.reserve;
        return 0;
    }

   private:
    std::mutex mutex_;
    std::uint32_t generation_ = 0;
    cm::IdNumber next_ = 0, end_ = 0;
    std::uint32_t made_ = 0;  // or in reserve
};

}  // namespace verbena::rdmacm
