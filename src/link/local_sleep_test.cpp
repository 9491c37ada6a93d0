// The rules of sleeping and waking (local_ring.h, local_peers.h) as a model: every interleaving of a writer
// and of two threads on the other side, one of which serves what it finds, while the other only naps and
// takes signals away. Each step is one atomic operation. Nobody may sleep for ever while there is work. The
// model can fail: each rule that is left out is found.
#include <gtest/gtest.h>

#include <array>
#include <compare>
#include <set>
#include <vector>

namespace verbena::link {
namespace {

enum class LeftOut : unsigned char {
    nothing,
    look_after_entering,
    passing_on,
    asking_before_looking,   // for room: the tail is looked at first
    telling_before_looking,  // of a packet: the sleepers are looked at first
    looking_again            // for sleepers, after publishing lightly
};
enum class Publishing : unsigned char { strictly, lightly };

constexpr int kRecords = 4, kCapacity = 2;

enum Thread : unsigned char { writer, server, napper };
constexpr std::array<Thread, 3> kThreads{writer, server, napper};

// What a thread does next. Enter to leave is a sleep; `left` is where the thread goes on to its own work.
enum Step : unsigned char {
    work,
    ask,
    look_for_room,
    look_once_more,
    publish_1,
    publish_2,
    publish_3,
    settle_1,
    settle_2,
    enter,
    look_in,
    wait,
    leave,
    empty_it,
    pass_on,
    left,
    over
};

struct World {
    int shown = 0;  // slots that have their numbers, by which packets are taken
    int head = 0, tail = 0, taken = 0;
    bool awaited = false, saw_awaited = false, saw_sleeper = false, saw_no_room = false;
    bool unsure = false;            // of the sleepers
    std::array<int, 2> sleepers{};  // of the writer's process, of the reader's
    std::array<bool, 2> signalled{};
    std::array<bool, 2> locked{};  // the peers' lock
    std::array<Step, 3> at{work, work, enter};
    auto operator<=>(const World&) const = default;
};

class Model {
   public:
    explicit Model(LeftOut left_out, Publishing publishing = Publishing::strictly)
        : left_out_(left_out), publishing_(publishing) {}

    // Whether everything arrives, however the threads are interleaved.
    bool holds() {
        std::set<World> seen;
        std::vector<World> open{World{}};
        while (!open.empty()) {
            const World world = open.back();
            open.pop_back();
            if (!seen.insert(world).second) continue;
            bool moved = false;
            for (const Thread thread : kThreads) {
                World next = world;
                if (!step(next, thread)) continue;
                moved = true;
                open.push_back(next);
            }
            if (!moved && world.taken != kRecords) return false;
        }
        states_ = seen.size();
        return true;
    }
    std::size_t states() const { return states_; }

   private:
    bool lacks(LeftOut rule) const { return left_out_ == rule; }
    bool looks_first() const {
        return lacks(LeftOut::telling_before_looking) || publishing_ == Publishing::lightly;
    }
    bool looks_again(const World& w) const { return w.unsure && !lacks(LeftOut::looking_again); }

    static bool has_work(const World& w, unsigned side) {
        if (side == 1) return w.head > w.tail;
        return w.at[writer] != over && !w.awaited;  // a packet waits for room, and the question is answered
    }

    // False: it can do nothing now.
    bool step(World& w, Thread thread) {
        Step& at = w.at[thread];
        const unsigned side = thread == writer ? 0 : 1;
        switch (at) {
            case enter:
                if (w.locked[side]) return false;
                w.locked[side] = true;
                w.sleepers[side]++;
                at = look_in;
                return true;
            case look_in:
                if (!lacks(LeftOut::look_after_entering) && has_work(w, side)) w.signalled[side] = true;
                w.locked[side] = false;
                at = wait;
                return true;
            case wait:
                if (!w.signalled[side] && thread != napper) return false;  // a nap ends by itself
                at = leave;
                return true;
            case leave:
                if (w.locked[side]) return false;
                w.locked[side] = true;
                w.sleepers[side]--;
                at = empty_it;
                return true;
            case empty_it:
                w.signalled[side] = false;
                at = pass_on;
                return true;
            case pass_on:
                if (!lacks(LeftOut::passing_on) && w.sleepers[side] > 0 && has_work(w, side))
                    w.signalled[side] = true;
                w.locked[side] = false;
                at = left;
                return true;
            case left:
                at = thread == napper ? over : work;
                return true;
            case over:
                return false;
            default:
                return thread == writer ? write(w, at) : serve(w, at);
        }
    }

    bool write(World& w, Step& at) {
        switch (at) {
            case work:
                if (w.head == kRecords) return at = looks_again(w) ? look_once_more : over, true;
                w.saw_no_room = w.head - w.tail == kCapacity;
                at = w.saw_no_room ? ask : publish_1;
                return true;
            case ask:
                w.awaited = true;
                at = look_for_room;
                return true;
            case look_for_room:
                if (!lacks(LeftOut::asking_before_looking)) w.saw_no_room = w.head - w.tail == kCapacity;
                if (!w.saw_no_room) w.awaited = false;
                at = !w.saw_no_room ? publish_1 : looks_again(w) ? look_once_more : enter;
                return true;
            case look_once_more:
                w.unsure = false;
                if (w.sleepers[1] > 0) w.signalled[1] = true;
                at = work;
                return true;
            case publish_1:
                looks_first() ? look_at_sleepers(w) : show(w);
                at = publish_2;
                return true;
            case publish_2:
                looks_first() ? show(w) : tell(w);
                at = publish_3;
                return true;
            default:
                looks_first() ? tell(w) : look_at_sleepers(w);
                if (w.saw_sleeper) w.signalled[1] = true;
                if (publishing_ == Publishing::lightly && !w.saw_sleeper) w.unsure = true;
                at = work;
                return true;
        }
    }

    static void show(World& w) { w.shown++; }
    static void tell(World& w) { w.head++; }
    static void look_at_sleepers(World& w) { w.saw_sleeper = w.sleepers[1] > 0; }

    // Its two steps of settling may be seen in the other order, and it settles before it has read all.
    static bool serve(World& w, Step& at) {
        switch (at) {
            case work:
                if (w.taken == w.shown) return at = w.taken == kRecords ? over : enter, true;
                w.taken++;
                at = settle_1;
                return true;
            case settle_1:
                w.saw_awaited = w.awaited;
                at = settle_2;
                return true;
            default:
                w.tail = w.taken;
                if (w.saw_awaited && w.awaited && w.head - w.tail <= kCapacity / 2) {
                    w.awaited = false;
                    w.signalled[0] = true;
                }
                at = work;
                return true;
        }
    }

    const LeftOut left_out_;
    const Publishing publishing_;
    std::size_t states_ = 0;
};

TEST(LocalSleepTest, NobodySleepsForEverWhileThereIsWork) {
    Model model(LeftOut::nothing);
    EXPECT_TRUE(model.holds());
    EXPECT_GT(model.states(), 500u);
}

TEST(LocalSleepTest, NorWhereHeadsAreSeenLateAndSleepersLookedForAgain) {
    Model model(LeftOut::nothing, Publishing::lightly);
    EXPECT_TRUE(model.holds());
    EXPECT_GT(model.states(), 500u);
}

TEST(LocalSleepTest, EachRuleIsNeeded) {
    EXPECT_FALSE(Model(LeftOut::look_after_entering).holds());
    EXPECT_FALSE(Model(LeftOut::passing_on).holds());
    EXPECT_FALSE(Model(LeftOut::asking_before_looking).holds());
    EXPECT_FALSE(Model(LeftOut::telling_before_looking).holds());
    EXPECT_FALSE(Model(LeftOut::looking_again, Publishing::lightly).holds());
}

}  // namespace
}  // namespace verbena::link
