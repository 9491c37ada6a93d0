// One mistake that people make with RDMA programs: what is done, and the sentence that must come of it. The
// tables are in *_mistakes.cpp; a run over each link makes every one of them through the real libraries.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "../verbs/harness.h"

namespace verbena::mistakes {

using namespace verbs_test;

// Where a reason is found besides the log.
enum class From {
    call,   // verbena_last_reason
    other,  // the mistake asks itself, of a completion or of an event, and returns the sentence
    alone,  // the same, and the log says it in other words
    log,    // nobody can ask: nothing fails, or the call does not return
};

struct Mistake {
    const char* name;
    From from;
    // Makes the mistake, and checks the numbers that every implementation gives. From::log: returns what it
    // has read of the log itself.
    std::function<std::string()> make;
    // An extended regular expression that is found in the sentence: the check, and its values.
    const char* sentence;
    // A public thread about it and how the sentence would have answered it; nullptr if it is only well known.
    const char* thread = nullptr;
    const char* answer = nullptr;
};

std::ostream& operator<<(std::ostream& out, const Mistake& mistake);  // its name, for GoogleTest

const std::vector<Mistake>& setup_mistakes();       // objects and attributes
const std::vector<Mistake>& posting_mistakes();     // requests that are refused at once
const std::vector<Mistake>& completion_mistakes();  // requests that complete in error
const std::vector<Mistake>& datagram_mistakes();    // datagrams that are refused, or vanish
const std::vector<Mistake>& connection_mistakes();  // the connection manager

// A call that returns its errno, or NULL or -1 with errno: whether it was that error.
void expect_errno(int error, int returned);
void expect_null(int error, const void* returned);

// The next completion, which is of that status: what is said of it.
std::string reason_of(ibv_cq* cq, ibv_wc_status status);

// The attributes of a transition that is right, to be spoilt.
ibv_qp_attr right_rtr(const Side& side);
inline constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

}  // namespace verbena::mistakes
