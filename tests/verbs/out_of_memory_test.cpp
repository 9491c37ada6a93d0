// Where there is no memory for what is to be made, the call says so and the program goes on.
#include <malloc.h>
#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <new>
#include <utility>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

// For what is made while it lives there is little more address space than is in use.
class Shortage {
   public:
    Shortage() {
        malloc_trim(0);  // or what other tests have left would do
        getrlimit(RLIMIT_AS, &before_);
        std::size_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        const rlimit low{pages * 4096 + kLeft, before_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_AS, &low), 0);
    }
    ~Shortage() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }
    Shortage(const Shortage&) = delete;
    Shortage& operator=(const Shortage&) = delete;

   private:
    static constexpr rlim_t kLeft = 2 << 20;  // bytes
    rlimit before_{};
};

struct OutOfMemory : testing::Test {
    Side side{{.connect = false}};
};

TEST_F(OutOfMemory, CompletionQueues) {
    const Shortage shortage;
    EXPECT_TRUE(
        refused_null(ENOMEM, [&] { return ibv_create_cq(side.context, 1 << 22, nullptr, nullptr, 0); }));
    EXPECT_TRUE(refused(ENOMEM, [&] { return ibv_resize_cq(side.send_cq, 1 << 22); }));
}

TEST_F(OutOfMemory, QueuePairs) {
    ibv_qp_init_attr_ex attributes{};
    attributes.send_cq = attributes.recv_cq = side.send_cq;
    attributes.cap = {32768, 1, 32, 1, 0};
    attributes.qp_type = IBV_QPT_RC;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
    attributes.pd = side.pd;
    {
        const Shortage shortage;
        EXPECT_TRUE(refused_null(ENOMEM, [&] { return ibv_create_qp_ex(side.context, &attributes); }));
        attributes.cap = {1, 32768, 1, 32, 0};
        EXPECT_TRUE(refused_null(ENOMEM, [&] { return ibv_create_qp_ex(side.context, &attributes); }));
    }
    ibv_qp* qp = ibv_create_qp_ex(side.context, &attributes);
    ASSERT_TRUE(qp);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(OutOfMemory, SharedReceiveQueues) {
    ibv_srq_init_attr wanted{nullptr, {4, 32, 0}};
    ibv_srq* srq = ibv_create_srq(side.pd, &wanted);
    ASSERT_TRUE(srq);
    wanted.attr.max_wr = 32768;
    {
        const Shortage shortage;
        EXPECT_TRUE(refused_null(ENOMEM, [&] { return ibv_create_srq(side.pd, &wanted); }));
        EXPECT_TRUE(refused(ENOMEM, [&] { return ibv_modify_srq(srq, &wanted.attr, IBV_SRQ_MAX_WR); }));
    }
    ibv_srq_attr now{};
    ASSERT_EQ(ibv_query_srq(srq, &now), 0);
    EXPECT_EQ(now.max_wr, 4u) << "as it was";
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

// Nor for anything else: what a call needs for itself is little.
TEST_F(OutOfMemory, WhereThereIsNoneAtAll) {
    struct Link {
        Link* next;
    };
    constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE;
    Link* all = nullptr;
    std::array<int, 4> errors{};
    const auto refused_by = [&](std::size_t which, auto make) {
        errno = 0;
        const auto* made = make();
        errors[which] = made ? -1 : errno;
    };
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    const rlimit none{1, before.rlim_max};
    setrlimit(RLIMIT_AS, &none);
    const auto take_all_of = [&all](std::size_t size) {
        while (void* const taken = std::malloc(size)) all = new (taken) Link{all};
    };
    // What was freed last is kept for others of the same size (glibc, up to 1 KiB).
    for (std::size_t size = 1 << 20; size > 1024; size /= 2) take_all_of(size);
    for (std::size_t size = 1040; size >= 16; size -= 16) take_all_of(size);
    refused_by(0, [&] { return ibv_alloc_pd(side.context); });
    refused_by(1, [&] { return ibv_reg_mr(side.pd, &errors, sizeof errors, kWritable); });
    refused_by(2, [&] { return ibv_create_comp_channel(side.context); });
    refused_by(3, [&] { return ibv_create_cq(side.context, 10, nullptr, nullptr, 0); });
    for (Link* each = all; each;) std::free(std::exchange(each, each->next));
    setrlimit(RLIMIT_AS, &before);
    for (const int error : errors) EXPECT_EQ(error, ENOMEM);
    ibv_mr* region = ibv_reg_mr(side.pd, &errors, sizeof errors, kWritable);
    ASSERT_TRUE(region) << "memory is there again";
    EXPECT_EQ(ibv_dereg_mr(region), 0);
}

}  // namespace
}  // namespace verbena::verbs_test
