// Which paths are shown differently.

#include "view/path.h"

#include <gtest/gtest.h>

namespace verbena::view {
namespace {

TEST(Path, OursAreTheFoldersAndWhatIsInThem) {
    for (const char* path :
         {"/sys/class/infiniband", "/sys/class/infiniband/", "/sys/class/infiniband/x/ports/1/state",
          "/sys//class///infiniband//x", "//sys/class/infiniband", "/sys/class/infiniband_verbs/uverbs0",
          "/sys/devices/virtual/infiniband/x", "/dev/infiniband", "/dev/infiniband/rdma_cm",
          "/sys/class/misc/rdma_cm/abi_version"})
        EXPECT_TRUE(is_shown(path)) << path;
}

TEST(Path, OthersAreNot) {
    for (const char* path :
         {"", "/", "/sys", "/sys/class", "/sys/class/infinibandage", "/sys/class/net/infiniband",
          "/sys/class/infiniban", "/dev", "/dev/null", "/dev/infiniband2", "sys/class/infiniband",
          "/home/sys/class/infiniband", "/sys/class/infiniband_mad"})
        EXPECT_FALSE(is_shown(path)) << path;
}

TEST(Path, NamesComeBack) {
    EXPECT_STREQ(known_as("/run/u/verbena-view-0/view-0123456789abcdef/sys/class/infiniband"),
                 "/sys/class/infiniband");
    EXPECT_STREQ(known_as("/verbena-view-1000/view-0123456789abcdef/dev"), "/dev");
    for (const char* path :
         {"/run/verbena-view-0/view-0123456789abcde/sys", "/run/verbena-view-0/view-0123456789abcdef0/sys",
          "/run/verbena-view-0/view-0123456789abcdef", "/run/verbena-view-0/new-0123456789abcdef/sys",
          "/run/verbena-view-0", "/run/my-verbena-view-0/view-0123456789abcdef/sys",
          "verbena-view-0/view-0123456789abcdef/sys", "/sys/class/infiniband", "/", ""})
        EXPECT_EQ(known_as(path), nullptr) << path;
}

TEST(Path, Counters) {
    for (const char* path :
         {"/sys/class/infiniband/x/ports/1/counters/port_xmit_data",
          "/sys/class/infiniband/x/ports/1/counters", "/t/x/ports/1//hw_counters/sent_pkts"})
        EXPECT_TRUE(is_counter(path)) << path;
    for (const char* path :
         {"/sys/class/infiniband/x/ports/1/state", "/sys/class/infiniband/counters",
          "/sys/class/infiniband/x/ports/1/counters2/x", "/sys/class/infiniband/x/ports/1"})
        EXPECT_FALSE(is_counter(path)) << path;
}

}  // namespace
}  // namespace verbena::view
