#include "base/fifo.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace verbena {
namespace {

// Beside a deque, whatever is done.
TEST(Fifo, KeepsTheOrder) {
    Fifo<int> fifo;
    std::deque<int> model;
    std::mt19937 random(7);
    for (int step = 0; step < 20'000; step++) {
        switch (random() % 8) {
            case 0:
            case 1:
            case 2:
                fifo.push_back(step);
                model.push_back(step);
                break;
            case 3:
                fifo.push_front(step);
                model.push_front(step);
                break;
            case 4:
                if (random() % 64 == 0) {
                    const auto is_odd = [](int each) { return each % 2 != 0; };
                    EXPECT_EQ(fifo.erase_if(is_odd), std::erase_if(model, is_odd));
                }
                break;
            default:
                if (model.empty()) break;
                fifo.pop_front();
                model.pop_front();
        }
        ASSERT_EQ(fifo.size(), model.size());
        if (model.empty()) continue;
        ASSERT_EQ(fifo.front(), model.front());
        ASSERT_EQ(fifo.back(), model.back());
        const std::size_t place = random() % model.size();
        ASSERT_EQ(fifo[place], model[place]);
    }
}

TEST(Fifo, NeedsNoMoreThanWasReserved) {
    Fifo<int> fifo;
    fifo.reserve(100);
    const std::size_t before = fifo.capacity();
    EXPECT_GE(before, 100u);
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 100; i++) fifo.push_back(i);
        for (int i = 0; i < 100; i++) {
            EXPECT_EQ(fifo.front(), i);
            fifo.pop_front();
        }
    }
    EXPECT_EQ(fifo.capacity(), before);
}

}  // namespace
}  // namespace verbena
