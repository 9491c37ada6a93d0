// For tests: two engines, each with an endpoint, joined by real packets on loopback.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "adapter/clock.h"
#include "adapter/engine.h"
#include "adapter/test_endpoint.h"
#include "link/steering.h"
#include "link/udp_link.h"

namespace verbena::adapter::testing {

// The daemon's part: a group of three sockets, of which queue 0 is nobody's.
class EngineTest : public ::testing::Test {
   protected:
    struct Process {
        std::unique_ptr<link::UdpLink> link;
        std::unique_ptr<Endpoint> endpoint;
        std::unique_ptr<Engine> engine;
    };

    Engine::Wait wait(int fd, Time deadline = kNever) {
        Awaited awaited(fd);
        return engine().wait_readable(awaited, deadline);
    }

    void SetUp() override { set_up(true, {}); }
    void set_up(bool steered, const std::string& fabric) {
        queue_zero_ = link::open_group_socket(0, true);
        ASSERT_GE(queue_zero_, 0);
        const std::uint16_t port = link::bound_port(queue_zero_);
        for (std::uint32_t i = 0; i < 2; i++) {
            Process& process = processes_[i];
            const std::uint32_t block = i + 1;
            const int queue = link::open_group_socket(port, true);
            ASSERT_GE(queue, 0);
            process.link = link::UdpLink::create({.port = port, .fabric = fabric});
            ASSERT_EQ(process.link->add_queue(queue, block), 0);
            process.endpoint = std::make_unique<Endpoint>(*process.link, block << link::kBlockBits,
                                                          Gid::from_ipv4(0x7f000001));
            process.engine = std::make_unique<Engine>(*process.endpoint->adapter, *process.link);
            ASSERT_EQ(process.engine->start(), 0);
        }
        if (steered) {
            ASSERT_EQ(link::attach_steering(queue_zero_, 3), 0);
        } else {  // only the two processes' sockets remain for the kernel to choose from
            close(queue_zero_);
            queue_zero_ = -1;
        }
        near().connect(far(), now());
        far().connect(near(), now());
    }
    void TearDown() override {
        for (Process& process : processes_) process.engine.reset();
        if (queue_zero_ >= 0) close(queue_zero_);
    }

    Endpoint& near() { return *processes_[0].endpoint; }
    Endpoint& far() { return *processes_[1].endpoint; }
    Engine& engine() { return *processes_[0].engine; }
    Engine& far_engine() { return *processes_[1].engine; }

    int read_from_far(std::uint32_t length) {
        const int error = near().post(transport::Operation::rdma_read, 0, length, now(),
                                      far().address_of(8192), far().keys.rkey);
        engine().posted();
        return error;
    }
    // Polls like a program; the time it took, or -1 after ten seconds.
    Duration poll_near(std::size_t count) {
        const Time start = now();
        while (now() - start < 10 * kSecond) {
            for (const auto& completion : near().poll()) {
                EXPECT_EQ(completion.status, completion::Status::success);
                count--;
            }
            if (count == 0) return now() - start;
            engine().poll_progress();
        }
        return -1;
    }

    int queue_zero_ = -1;
    Process processes_[2];
};

}  // namespace verbena::adapter::testing
