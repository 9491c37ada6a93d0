// For the tests that make a network namespace of their own. Without root there is nothing to test.
#pragma once

#include <arpa/inet.h>
#include <sched.h>

#include <cstdlib>
#include <map>

#include "daemon/testing.h"

namespace verbena::daemon::testing {

inline constexpr uid_t kNobody = 65534;

inline void shell(const std::string& command) { EXPECT_EQ(std::system(command.c_str()), 0) << command; }

class NetworkTest : public FabricTest {
   protected:
    void SetUp() override {
        if (geteuid() != 0) GTEST_SKIP() << "needs root to make a network namespace";
        FabricTest::SetUp();
        share_daemon();
        unsetenv("VERBENA_FABRIC");
        unsetenv("VERBENA_PORT_PATIENCE_MS");
        setenv("VERBENA_IDLE_MS", "60000", 1);
        // The test process itself moves: each test has its own namespace, made anew.
        ASSERT_EQ(unshare(CLONE_NEWNET), 0);
        shell("ip link set lo up");
    }
    void TearDown() override {
        FabricTest::TearDown();
        for (std::uint32_t pid : daemons_) end_process(static_cast<pid_t>(pid));
    }

    static void become(uid_t user) { ASSERT_EQ(setresuid(user, user, user), 0); }

    struct Opened {
        int fd = -1;
        host::OpenQueueReply queue;
    };
    // Opens a device, as far as the daemon is concerned.
    static Opened open_device() {
        Opened opened;
        EXPECT_EQ(
            host::call(host::Command::open_queue, host::OpenQueueRequest{}, opened.queue, -1, &opened.fd), 0)
            << last_reason();
        return opened;
    }
    static host::HelloReply hello() {
        return ask<host::HelloReply>(host::Command::hello, host::HelloRequest{});
    }

    // Told by programs, so that none is left behind.
    void remember(std::int64_t daemon) { daemons_.push_back(static_cast<std::uint32_t>(daemon)); }

    std::vector<std::uint32_t> daemons_;
};

// The table that programs read, by netdev.
inline std::map<std::string, host::Device> devices_by_netdev() {
    std::map<std::string, host::Device> found;
    const host::DeviceTable* table = host::devices();
    host::Device device;
    for (unsigned slot = 0; table && slot < host::kMaxDevices; slot++)
        if (host::read_device(*table, slot, device)) found[device.netdev.data()] = device;
    return found;
}

}  // namespace verbena::daemon::testing
