// A channel with ids and the fake daemon behind it, for the tests of channels.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <map>

#include "rdmacm/fake_daemon.h"

namespace verbena::rdmacm {

class ChannelFixture : public testing::Test {
   protected:
    void SetUp() override {
        channel = rdma_create_event_channel();
        ASSERT_TRUE(channel);
        file = daemon.last_file;
    }
    void TearDown() override {
        if (channel) rdma_destroy_event_channel(channel);
    }

    rdma_cm_id* create(void* context = nullptr) {
        rdma_cm_id* id = nullptr;
        EXPECT_EQ(rdma_create_id(channel, &id, context, RDMA_PS_TCP), 0);
        numbers[id] = daemon.last_id;
        handles[id] = daemon.last<host::CreateIdRequest>(host::Command::create_id).user_handle;
        return id;
    }
    cm::Event event_for(rdma_cm_id* id, int status, cm::EventType type = cm::EventType::addr_error) {
        cm::Event event;
        event.type = type;
        event.status = status;
        event.id = numbers.at(id);
        event.user_handle = handles.at(id);
        return event;
    }
    // What a listener's channel is sent when a peer asks for a connection; `number`: the daemon's for the
    // child.
    cm::Event request_for(rdma_cm_id* listener, cm::IdNumber number) {
        cm::Event request = event_for(listener, 0, cm::EventType::connect_request);
        request.listen_id = numbers.at(listener);
        request.id = number;
        return request;
    }
    void deliver(rdma_cm_id* id, int status) { daemon.deliver(file, event_for(id, status)); }
    static bool readable(const rdma_event_channel* which) {
        pollfd waiting{which->fd, POLLIN, 0};
        return poll(&waiting, 1, 0) == 1;
    }
    // The status of the next event, acknowledged.
    static int next_status(rdma_event_channel* from) {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(from, &event) != 0) return -1;
        int status = event->status;
        EXPECT_EQ(rdma_ack_cm_event(event), 0);
        return status;
    }

    FakeDaemon daemon;
    rdma_event_channel* channel = nullptr;
    cm::FileNumber file = 0;
    std::map<rdma_cm_id*, cm::IdNumber> numbers;
    std::map<rdma_cm_id*, std::uint64_t> handles;
};

}  // namespace verbena::rdmacm
