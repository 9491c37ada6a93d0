// Makes public calls fail as the board's rules say: the implementation of the seam in base/call_fault.h.
//
// Thread safety: all calls.
#pragma once

#include <string>

#include "base/call_fault.h"
#include "faults/board.h"

namespace verbena::faults {

class PlannedCalls final : public CallFaults {
   public:
    // The board outlives this.
    PlannedCalls(Board& board, std::string program) : board_(board), program_(std::move(program)) {}

    int error_of(const char* call) override;

   private:
    Board& board_;
    const std::string program_;
};

}  // namespace verbena::faults
