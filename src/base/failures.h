// Why requests of a queue pair failed, for programs that ask after the completion (verbena_wc_reason): a
// completion carries numbers only, and the thread that polls it is rarely the one that found the fault.
//
// The process keeps the last kFailuresKept sentences. Each is logged at `warn` as well, so that a failure is
// told by one call. Nothing here is on a path of success.
//
// Thread safety: everything may be called from any thread, with or without a queue pair's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace verbena {

inline constexpr std::size_t kFailuresKept = 256;

enum class FailedPart : std::uint8_t {
    send,          // a send request; wr_id names it
    receive,       // a receive request; wr_id names it
    peer_request,  // something that the peer asked for was refused; wr_id is 0
    queue_pair,    // it went to the error state for another reason; wr_id is 0, and nothing is logged
};

// "QP 0x000102: send request wr_id 0x7 failed: <the sentence>".
[[gnu::visibility("default"), gnu::format(printf, 4, 5)]] void record_failure(FailedPart part,
                                                                              std::uint32_t qp_number,
                                                                              std::uint64_t wr_id,
                                                                              const char* format, ...);

// A new queue pair has the number: what was said of an earlier one does not count any more.
[[gnu::visibility("default")]] void forget_failures(std::uint32_t qp_number);

// The last sentence about this request, or else about a request of the peer; empty if there is none.
[[gnu::visibility("default")]] std::string failure_of_request(std::uint32_t qp_number, std::uint64_t wr_id);
// The first sentence about anything of the queue pair that is kept: why it went to the error state.
[[gnu::visibility("default")]] std::string failure_of_queue_pair(std::uint32_t qp_number);

// In the child of a fork(): what the parent kept is forgotten, and a lock that another of its threads held is
// free.
[[gnu::visibility("default")]] void failures_forked();

// The public call that runs in this thread; nullptr if none does.
[[gnu::visibility("default")]] const char* current_call_name();

}  // namespace verbena
