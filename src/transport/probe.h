// What the answer to a probe tells (retransmission.h). A probe repeats the oldest packet after a silence.
// Either something was lost, and all that was sent behind it must be sent again, for a responder need not
// take anything behind a gap (IBA 9.7.5.1.1). Or the peer has only been slow, as a program is that computes:
// then sending again would be in vain, and taking it for a loss would make the window smaller with each pause
// of the peer.
//
// An acknowledgement that ends with the repeated packet is taken to tell that this one was lost. One that
// goes further may be all that the peer has for us, or the first of many. So may the data of a READ, of which
// the first piece is also what the probe asked for. What was only slow goes on soon. Where a gap was noticed
// since the last answer to a probe, that is not waited for.
//
// A repair is the same at once, since the peer has told of a gap. If the answer goes further than what was
// repeated, the peer has kept what lay behind, and nothing more has to be repeated; if it ends there, it has
// not. One that has not twice in a row gets all of it at once from then on.
//
// After a second probe without an answer the requester may hold back: nothing new leaves until there is
// progress, so that a silent peer does not keep the window that others share (flow.h).
//
// Thread safety: the queue pair's lock.
#pragma once

#include <cstdint>
#include <utility>

#include "wire/psn.h"

namespace verbena::transport {

class Probe {
   public:
    void gap() { gaps_ = true; }

    // Whether the peer is believed to keep what lies behind a gap.
    bool may_repair() const { return dropped_ < kEnough; }
    void repair() { repair_due_ = true; }  // what is sent next
    void peer_keeps() { dropped_ = 0; }

    // first..end was repeated, first..limit had been sent. `data`: the answer is that of a READ or an atomic.
    // True: the one before is unanswered.
    bool sent(std::uint32_t first, std::uint32_t end, std::uint32_t limit, bool data) {
        const bool unanswered = state_ == State::sent && first == first_ && !repair_;
        repair_ = repair_due_;
        repair_due_ = false;
        gaps_before_ = std::exchange(gaps_, false) || (state_ == State::sent && gaps_before_);
        state_ = State::sent;
        first_ = first, end_ = end, limit_ = limit;
        data_ = data;
        return unanswered;
    }
    void hold_back() { holds_back_ = true; }  // after sent(): ends with progress
    bool holds_back() const { return holds_back_; }
    void forget() {
        state_ = State::none;
        holds_back_ = repair_due_ = false;
    }
    bool repairs() const { return repair_due_; }
    bool idle() const { return state_ == State::none; }  // progress tells it nothing

    enum class Says : std::uint8_t {
        nothing,
        lost,     // the rest is to be sent again
        unclear,  // wait a little, and if nothing comes, ask silent()
        slow,     // the first packet was answered, and not the probe
        over      // one of the two was answered, and nothing speaks for a loss
    };
    // Everything before `una` is acknowledged, more than before. Each answer but `nothing` is given once.
    Says progressed(std::uint32_t una) {
        repair_due_ = false;
        if (state_ == State::none) return Says::nothing;
        holds_back_ = false;
        if (wire::psn_less(una, end_)) return Says::nothing;
        const bool unclear = std::exchange(state_, State::none) == State::unclear;
        if (unclear) return data_ ? Says::slow : Says::over;
        if (wire::psn_less_equal(limit_, una)) return Says::over;
        if (!data_ && una == end_) {
            if (repair_ && may_repair()) dropped_++;
            return Says::lost;
        }
        if (!data_ && (repair_ || keeps_)) {  // what lay behind it had been kept
            keeps_ = true;
            dropped_ = 0;
            return Says::over;
        }
        if (gaps_before_ && !repair_ && !keeps_) return Says::lost;
        state_ = State::unclear;
        return Says::unclear;
    }
    // Nothing has come for a while. True, once, if that means that the rest was lost.
    bool silent() {
        if (state_ != State::unclear) return false;
        state_ = State::none;
        return true;
    }
    // Whether an acknowledgement of this PSN may be that of either of two packets.
    bool doubts(std::uint32_t psn) const {
        return state_ != State::none && wire::psn_less_equal(first_, psn) && wire::psn_less(psn, end_);
    }

   private:
    static constexpr std::uint8_t kEnough = 2;

    enum class State : std::uint8_t { none, sent, unclear };
    State state_ = State::none;
    bool data_ : 1 = false;
    bool holds_back_ : 1 = false;  // only while a probe is out
    bool repair_due_ : 1 = false, repair_ : 1 = false;
    bool keeps_ : 1 = false;        // the peer has kept what lay behind a gap
    std::uint8_t dropped_ : 2 = 0;  // ... or not, so many times in a row
    bool gaps_ = false;             // noticed since the last probe
    bool gaps_before_ = false;      // ... and between it and the one before that was answered
    std::uint32_t first_ = 0, end_ = 0, limit_ = 0;
};

}  // namespace verbena::transport
