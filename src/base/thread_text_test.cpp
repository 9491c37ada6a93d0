#include "base/thread_text.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace verbena {
namespace {

TEST(ThreadTextTest, EachThreadHasItsOwnAndEachKindToo) {
    std::strcpy(thread_text(ThreadText::reason), "ours");
    std::thread([] {
        EXPECT_STREQ(thread_text_so_far(ThreadText::reason), "");
        errno = ERANGE;
        std::strcpy(thread_text(ThreadText::reason), "theirs");
        EXPECT_EQ(errno, ERANGE);
        EXPECT_STREQ(thread_text_so_far(ThreadText::reason), "theirs");
    }).join();
    EXPECT_STREQ(thread_text_so_far(ThreadText::reason), "ours");
    EXPECT_STREQ(thread_text_so_far(ThreadText::event), "");
}

}  // namespace
}  // namespace verbena
