// The names of a program's deliberate errors, as reports show them.
#include "sim/plan.h"

namespace verbena::sim {

const char* to_string(Mistake mistake) {
    switch (mistake) {
        case Mistake::none:
            return "none";
        case Mistake::bad_rkey:
            return "bad rkey";
        case Mistake::wrong_pd:
            return "rkey of another domain";
        case Mistake::out_of_bounds:
            return "out of bounds";
        case Mistake::no_access:
            return "no access";
        case Mistake::qp_no_access:
            return "no access by the QP";
        case Mistake::bad_lkey:
            return "bad lkey";
        case Mistake::short_receive:
            return "short receive";
        case Mistake::bad_receive_lkey:
            return "bad lkey of the receive";
        case Mistake::missing_receive:
            return "missing receive";
        case Mistake::misaligned:
            return "misaligned atomic";
        case Mistake::stale_invalidate:
            return "invalidation of an unknown rkey";
    }
    return "?";
}

}  // namespace verbena::sim
