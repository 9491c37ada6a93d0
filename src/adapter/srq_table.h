// The shared receive queues of a process by their number, which XRC requests carry (annex A14): 24 bits, not
// given out again soon after the queue's end.
//
// Thread safety: all calls.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "transport/queue_pair.h"

namespace verbena::adapter {

class SrqTable final : public transport::XrcQueues {
   public:
    // 0: every number is in use.
    std::uint32_t add(std::shared_ptr<transport::ReceiveQueue> queue);
    void remove(std::uint32_t number);
    std::shared_ptr<transport::ReceiveQueue> find(std::uint32_t number) override;

   private:
    std::mutex lock_;
    std::unordered_map<std::uint32_t, std::shared_ptr<transport::ReceiveQueue>> queues_;
    std::uint32_t last_ = 0;
};

}  // namespace verbena::adapter
