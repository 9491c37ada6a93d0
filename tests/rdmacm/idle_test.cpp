// A connected pair that has nothing to do wakes nobody up: neither the program's threads nor the helper.
#include <dirent.h>
#include <gtest/gtest.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

// Context switches of every thread of this process, by thread id; the caller's own is left out.
std::map<std::string, unsigned long> switches_of_others() {
    std::map<std::string, unsigned long> counts;
    DIR* tasks = opendir("/proc/self/task");
    while (dirent* entry = readdir(tasks)) {
        std::string thread = entry->d_name;
        if (thread[0] == '.' || thread == std::to_string(gettid())) continue;
        std::ifstream status("/proc/self/task/" + thread + "/status");
        for (std::string word; status >> word;)
            if (unsigned long count;
                word.find("voluntary_ctxt_switches:") != std::string::npos && status >> count)
                counts[thread] += count;
    }
    closedir(tasks);
    return counts;
}

// Both ends of the connection are in this process, so its helper thread serves both queue pairs.
TEST(Idle, AConnectedPairMakesNoContextSwitch) {
#ifdef VERBENA_THREAD_SANITIZER
    GTEST_SKIP() << "ThreadSanitizer has a thread of its own, which looks around ten times a second";
#endif
    Pair pair;
    ASSERT_TRUE(pair.passive);
    static char buffer[64];
    ibv_mr* region = rdma_reg_msgs(pair.active, buffer, sizeof buffer);
    ASSERT_TRUE(region);
    ASSERT_EQ(rdma_post_recv(pair.passive, nullptr, buffer, 8, region), 0);
    ASSERT_EQ(rdma_post_send(pair.active, nullptr, buffer, 8, region, IBV_SEND_SIGNALED), 0);
    ibv_wc completion;
    ASSERT_EQ(rdma_get_send_comp(pair.active, &completion), 1);
    ASSERT_EQ(rdma_get_recv_comp(pair.passive, &completion), 1);
    sleep(1);  // the last acknowledgement and its timers
    auto before = switches_of_others();
    ASSERT_FALSE(before.empty()) << "there is a helper thread to watch";
    sleep(10);
    EXPECT_EQ(switches_of_others(), before);
    rdma_dereg_mr(region);
}

}  // namespace
}  // namespace verbena::rdmacm_test
