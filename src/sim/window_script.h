// Memory windows (IBA 10.6.7), one step after the other: the target binds and invalidates, the initiator
// writes through the window. At the end comes an access that must fail and change nothing: with a dead key,
// by a queue pair that did not bind the window, or beyond its end.
//
// Thread safety: none.
#pragma once

#include <string>

#include "sim/pool.h"

namespace verbena::sim {

class WindowScript {
   public:
    WindowScript(Station& initiator, Station& target, std::uint64_t seed);

    void create();
    bool over() const { return step_ == Step::over; }
    void end();
    std::string describe() const;

   private:
    enum class Step : std::uint8_t { bind, write, local_invalidate, remote_invalidate, forbidden, over };
    enum class Crime : std::uint8_t { dead_key, other_qp, beyond };

    // One end of the script.
    struct End final : Party {
        explicit End(WindowScript& s) : script(s) {}
        void completed(const completion::Completion& c) override { script.completed(*this, c); }
        bool turn() override { return script.turn(*this); }
        WindowScript& script;
        std::uint32_t party = 0;
        transport::QueuePair *qp = nullptr, *other_qp = nullptr;
    };
    void completed(End& end, const completion::Completion& c);
    bool turn(End& end);
    void next();
    void post(End& end, transport::QueuePair& qp, transport::SendRequest request);
    void write(transport::QueuePair& qp, std::uint32_t rkey, std::uint64_t at, std::uint32_t length);
    void invalidated();
    void violation(const char* text);

    Station &initiator_, &target_;
    Random random_;
    End a_, b_;  // initiator's, target's
    const bool type1_;
    const Crime crime_;
    std::uint32_t region_, source_;  // offsets in the arenas
    memory::Keys region_keys_{};
    std::uint32_t fresh_key_ = 0;  // the next bind's
    std::uint32_t key_ = 0, dead_key_ = 0;
    std::uint64_t window_at_ = 0;                          // as the initiator names it
    std::uint32_t window_offset_ = 0, window_length_ = 0;  // in the region
    std::uint64_t data_key_ = 0;
    std::uint32_t written_at_ = 0, written_ = 0;  // in the region
    unsigned steps_left_;
    Step step_ = Step::bind;
    bool bound_ = false, posted_ = false, delivered_ = false;
};

}  // namespace verbena::sim
