// What this process has of Verbena: the receive queue that the daemon gave it, its exported tables, the
// adapter and the engine that drives it. Made when the first device is opened.
//
// Objects made before a fork() belong to the parent: the child's calls on them fail with a reason, and what
// it opens anew works. Objects of a daemon that died fail likewise.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>

#include "adapter/adapter.h"
#include "adapter/engine.h"
#include "adapter/segment.h"
#include "link/udp_link.h"

namespace verbena::verbs {

struct Context;

class Process {
   public:
    // This process's, made if need be; nullptr with errno and a reason.
    static Process* open();
    static Process* current_one();  // nullptr: none was opened yet
    ~Process();

    adapter::Adapter& adapter() { return *adapter_; }
    adapter::Engine& engine() { return *engine_; }

    bool usable() const { return state_.load(std::memory_order_relaxed) == State::alive; }
    // Inherited by a fork: nothing of it may be touched, its tables are the parent's.
    bool forked() const { return state_.load(std::memory_order_relaxed) == State::forked; }
    // If !usable(): EIO or ENODEV with the reason.
    int refuse() const;

    void add(Context* context);
    void remove(Context* context);

    // Another block of queue pair numbers from the daemon. 0 or errno with a reason.
    int open_queue();

   private:
    enum class State : std::uint8_t { alive, forked, daemon_died };

    Process() = default;
    int start();
    void daemon_died();
    static void after_fork_in_child();

    std::unique_ptr<adapter::Segment> segment_;
    std::unique_ptr<link::UdpLink> link_;
    std::unique_ptr<adapter::Adapter> adapter_;
    std::unique_ptr<adapter::Engine> engine_;
    std::atomic<State> state_{State::alive};

    std::mutex contexts_lock_;
    std::set<Context*> contexts_;
};

}  // namespace verbena::verbs
