#include "rdmacm/id_numbers.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>
#include <vector>

#include "rdmacm/channel_testing.h"

namespace verbena::rdmacm {
namespace {

using host::Command;

class IdNumbersTest : public ChannelFixture {
   protected:
    rdma_cm_id* create_in(rdma_port_space space) {
        rdma_cm_id* id = nullptr;
        return rdma_create_id(channel, &id, nullptr, space) == 0 ? id : nullptr;
    }
    host::CreateIdRequest last() const { return daemon.last<host::CreateIdRequest>(Command::create_id); }
};

TEST_F(IdNumbersTest, FewOfManyIdsWaitForTheDaemon) {
    std::vector<rdma_cm_id*> ids;
    std::set<cm::IdNumber> given;
    unsigned asked = 0;
    cm::IdNumber told = 0;
    for (unsigned i = 0; i < 1000; i++) {
        ids.push_back(create());
        EXPECT_TRUE(given.insert(numbers.at(ids.back())).second);
        if (last().id == 0) {
            asked++;
            EXPECT_LE(last().reserve, host::kMostReserved);
            continue;
        }
        EXPECT_GT(last().id, told);
        told = last().id;
    }
    EXPECT_LE(asked, 7u + 1000 / host::kMostReserved);
    for (rdma_cm_id* id : ids) EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(IdNumbersTest, AProgramWithOneIdTakesOneNumber) {
    rdma_cm_id* id = create();
    EXPECT_EQ(last().id, 0u);
    EXPECT_EQ(last().reserve, 0u);
    EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(IdNumbersTest, AnEarlierDaemonsReserveIsGone) {
    rdma_cm_id* first = create();
    rdma_cm_id* second = create();  // and has one in reserve
    daemon.generation++;
    rdma_event_channel* anew = rdma_create_event_channel();
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(anew, &id, nullptr, RDMA_PS_TCP), 0);
    EXPECT_EQ(last().id, 0u);
    for (rdma_cm_id* each : {first, second, id}) EXPECT_EQ(rdma_destroy_id(each), 0);
    rdma_destroy_event_channel(anew);
}

TEST_F(IdNumbersTest, AnIdThatMayBeRefusedIsAskedFor) {
    std::vector<rdma_cm_id*> ids{create(), create()};
    unsigned asked = 0;
    daemon.answers[Command::create_id] = [&](const void*, void*) { return asked++, EINVAL; };
    EXPECT_EQ(create_in(RDMA_PS_IB), nullptr);
    EXPECT_EQ(asked, 1u);
    daemon.answers.clear();
    ids.push_back(create_in(RDMA_PS_UDP));
    for (rdma_cm_id* id : ids) EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(IdNumbersTest, ThreadsTellNumbersInOrder) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; t++)
        threads.emplace_back([this] {
            for (unsigned i = 0; i < 200; i++) EXPECT_EQ(rdma_destroy_id(create_in(RDMA_PS_TCP)), 0);
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(daemon.told_in_order);
}

TEST_F(IdNumbersTest, ARefusalLeavesNothing) {
    daemon.answers[Command::create_id] = [](const void*, void*) { return EMFILE; };
    rdma_cm_id* id = nullptr;
    errno = 0;
    EXPECT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), -1);
    EXPECT_EQ(errno, EMFILE);
}

}  // namespace
}  // namespace verbena::rdmacm
