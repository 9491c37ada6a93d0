// A program without privileges and with the 8 MiB of locked memory that a container gives it: a region of
// 10 MiB registers (nothing is pinned), and data arrive in it.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr rlim_t kLimit = 8 << 20;
constexpr std::size_t kRegion = 10 << 20;
constexpr uid_t kNobody = 65534;
constexpr int kCannotRun = 77, kMayNotRead = 78;

// What the child runs; not a test by itself.
TEST(Unprivileged, DISABLED_ALargeRegion) {
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    ASSERT_EQ(limit.rlim_max, kLimit);
    ASSERT_NE(geteuid(), 0u);
    Pair pair;
    Memory from(pair.a.pd, kRegion), to(pair.b.pd, kRegion);
    from.fill(9);
    ibv_sge sge = from.sge(0, kRegion);
    ASSERT_EQ(Request(1, IBV_WR_RDMA_WRITE, &sge, 1).to(to).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    EXPECT_TRUE(to.holds(9, kRegion));
}

TEST(Unprivileged, ALargeRegionWithEightMebibytesOfLockedMemory) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const rlimit limit{kLimit, kLimit};
        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) _exit(kCannotRun);
        if (geteuid() == 0 &&
            (setresgid(kNobody, kNobody, kNobody) != 0 || setresuid(kNobody, kNobody, kNobody) != 0))
            _exit(kCannotRun);
        std::error_code error;
        const std::string program = std::filesystem::read_symlink("/proc/self/exe", error);
        const char* const daemon = std::getenv("VERBENA_DAEMON");
        for (const char* needed : {program.c_str(), daemon})
            if (needed && access(needed, X_OK) != 0) _exit(kMayNotRead);
        unsetenv("VERBENA_FABRIC");  // main() makes one for this user
        execl(program.c_str(), "verbs_calls_test", "--gtest_filter=Unprivileged.DISABLED_*",
              "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
        _exit(kCannotRun);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kCannotRun)
        GTEST_SKIP() << "this user cannot become one without privileges here";
    if (WEXITSTATUS(status) == kMayNotRead)
        GTEST_SKIP() << "the folder that it was built in is not for users without privileges";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace verbena::verbs_test
