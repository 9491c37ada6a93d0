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
#include "adapter/object_table.h"
#include "adapter/segment.h"
#include "base/descriptor.h"
#include "faults/rule.h"
#include "host/device_table.h"
#include "link/udp_link.h"

namespace verbena::adapter {
class MemoryAccess;
}
namespace verbena::host {
struct OpenQueueReply;
}
namespace verbena::link {
class LocalLink;
}

namespace verbena::verbs {

struct Context;

class Process {
   public:
    // This process's, made if need be; nullptr with errno and a reason.
    static Process* open();
    static Process* current_one();  // nullptr: none was opened yet
    // See private.h. For the life of the program.
    static void when_daemon_ends(void (*ended)(std::uint32_t generation));
    ~Process();

    adapter::Adapter& adapter() { return *adapter_; }
    adapter::Engine& engine() { return *engine_; }

    bool usable() const { return state_.load(std::memory_order_relaxed) == State::alive; }
    // Inherited by a fork: nothing of it may be touched, its tables are the parent's.
    bool forked() const { return state_.load(std::memory_order_relaxed) == State::forked; }
    // The daemon's table of them; nullptr with errno and a reason if there is none.
    const host::DeviceTable* devices() const;
    int refuse() const;  // if !usable(): EIO with the reason

    bool add(Context* context);  // false: its device is gone
    void remove(Context* context);
    // Under a lock that opening and closing devices take.
    template <class Each>
    void for_each_context(Each each) {
        std::lock_guard lock(contexts_lock_);
        for (Context* context : contexts_) each(*context);
    }

    // What packets by that path take, or an errno with a reason: whoever posts has nobody to tell.
    int provide_for(const wire::Path& path) { return link_->provide_for(path); }

    // Before packets leave to the queue pair: a peer on this host gets to know us first, so that none of them
    // has to be overtaken. Waits some milliseconds at most.
    void meet(const Gid& destination, std::uint32_t qp_number);

    // With a further receive queue and its block of numbers from the daemon when the numbers run out.
    transport::QueuePair* create_qp(const transport::QpSetup& setup);

    // Objects that tools are shown (adapter/object_table.h); nullptr if there is no room.
    adapter::ObjectRecord* show(const adapter::ObjectTable::Object& object) { return objects_->add(object); }
    // The same, of an object that belongs to this context.
    adapter::ObjectRecord* show(const Context& owner, adapter::ObjectTable::Object object);
    void hide(adapter::ObjectRecord* record) {
        if (!forked()) objects_->remove(record);  // a child's tables are the parent's
    }

    // By a plan of faults: the link goes down, or the devices that are open fail. Takes as long as the link
    // is down.
    void fail_port(const faults::Rule& rule);

   private:
    enum class State : std::uint8_t { alive, forked, daemon_died, files_closed };

    Process();
    int start();
    void start_local(const char* fabric);
    // A receive queue with a block of numbers: the first of all makes the adapter.
    int open_queue();
    int use_queue(const host::OpenQueueReply& queue, Descriptor& socket);
    int make_adapter(const host::OpenQueueReply& queue);
    bool lifeline_ready(int lifeline);
    void daemon_died();
    void files_closed();
    void end_contexts(const char* why);
    void look_at_devices();
    static void after_fork_in_child();

    std::unique_ptr<adapter::Segment> segment_;
    std::unique_ptr<adapter::ObjectTable> objects_;
    std::unique_ptr<link::UdpLink> link_;
    // To peers of this host; none with VERBENA_LINK=wire.
    std::unique_ptr<link::LocalLink> local_;
    std::unique_ptr<adapter::MemoryAccess> memory_access_;
    std::unique_ptr<adapter::Adapter> adapter_;
    std::unique_ptr<adapter::Engine> engine_;
    std::atomic<State> state_{State::alive};
    const pid_t pid_;
    std::uint32_t generation_ = 0;  // of the daemon, as host::generation() counts them

    std::mutex queues_lock_;
    std::mutex contexts_lock_;
    std::set<Context*> contexts_;
};

// Whether the context is of use for anything but destroying what there is. Otherwise EIO, with the reason.
bool is_usable(const Context& context);

}  // namespace verbena::verbs
