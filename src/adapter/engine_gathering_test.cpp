// Requests that gather (gathering.cpp) leave though their program neither posts nor polls any more, whatever
// the helper is doing then.
#include <sys/eventfd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "adapter/engine_testing.h"
#include "base/signal_event.h"

namespace verbena::adapter {
namespace {

constexpr unsigned kInARow = 20;

class EngineGatheringTest : public testing::EngineTest {
   protected:
    // True if some of a row waited for others at its end.
    bool post_row(std::uint64_t value) {
        std::memcpy(near().memory.data(), &value, sizeof value);
        for (unsigned i = 0; i < kInARow; i++) {
            EXPECT_EQ(near().post(transport::Operation::rdma_write, 0, sizeof value, now(),
                                  far().address_of(i * sizeof value), far().keys.rkey),
                      0);
            engine().posted();
        }
        return near().adapter->gathers_until() != kNever;
    }
    bool arrives(std::uint64_t value) {
        const auto* last =
            reinterpret_cast<const std::uint64_t*>(far().address_of((kInARow - 1) * sizeof value));
        for (const Time start = now(); now() - start < 10 * kSecond;) {
            if (__atomic_load_n(last, __ATOMIC_ACQUIRE) == value) return true;
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        return false;
    }
    // Rows until one has waited. `before`: what the program does in front of each.
    template <class Before>
    void check(Before&& before) {
        bool waited = false;
        for (std::uint64_t value = 1; !waited && value < 1000; value++) {
            before();
            waited = post_row(value);
            ASSERT_TRUE(arrives(value)) << value;
            while (near().adapter->awaits_acknowledgement(*near().qp)) std::this_thread::yield();
            near().poll();
        }
        EXPECT_TRUE(waited);
    }
};

TEST_F(EngineGatheringTest, TheyLeaveWhileTheHelperStandsBy) {
    check([&] {
        for (const Time start = now(); now() - start < 5 * kMillisecond;) engine().poll_progress();
    });
}

TEST_F(EngineGatheringTest, TheyLeaveWhileTheHelperStandsIn) {
    check([&] { engine().arm(); });
}

// A thread of the program that is blocked in wait_readable(), and drives.
class Waiter {
   public:
    explicit Waiter(Engine& engine)
        : thread_([this, &engine] {
              Awaited awaited(fd_);
              EXPECT_EQ(engine.wait_readable(awaited), Engine::Wait::readable);
          }) {}
    ~Waiter() {
        signal_event(fd_);
        thread_.join();
        close(fd_);
    }

   private:
    const int fd_ = eventfd(0, EFD_CLOEXEC);
    std::thread thread_;
};

TEST_F(EngineGatheringTest, TheyLeaveWhileAnotherThreadWaits) {
    const Waiter waiter(engine());
    check([] {});
}

// Who is going to wait lets them leave, and what has come by then it may have queued for itself, of which the
// descriptor does not know.
TEST_F(EngineGatheringTest, WhoWaitsBesideAnotherLooksWhatHasCome) {
    const Waiter waiter(engine());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int fd = eventfd(0, EFD_CLOEXEC);
    Awaited awaited(fd, true);
    awaited.events = 1;
    EXPECT_EQ(engine().wait_readable(awaited, now() + kSecond), Engine::Wait::readable);
    awaited.events = 0;
    EXPECT_EQ(engine().wait_readable(awaited, now() + kMillisecond), Engine::Wait::timed_out);
    close(fd);
}

}  // namespace
}  // namespace verbena::adapter
