// The objects behind the public structures. Each begins with its public structure, so that the pointer that a
// program holds is the pointer to ours.
//
// Reference counts say who still uses an object; destroying one in use answers EBUSY, as the kernel does.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "adapter/segment.h"
#include "base/dense_memory.h"
#include "completion/completion_queue.h"
#include "host/device_table.h"
#include "transport/queue_pair.h"
#include "verbs/abi/verbs_context_ex.h"
#include "verbs/event_queue.h"
#include "verbs/port_view.h"
#include "verbs/work_builder.h"

namespace verbena::verbs {

class Process;
struct Context;

// One slot of the device list. Programs compare these pointers, so they live as long as the process.
struct Device {
    ibv_device base{};
    // The direct-verbs libraries of vendors look for their own operations table here to recognise their
    // devices.
    void* vendor_operations[8] = {};
    unsigned slot = 0;            // in the daemon's table
    std::uint32_t index = 0;      // host::Device::index
    std::uint64_t node_guid = 0;  // network byte order

    static Device* of(ibv_device* device) { return reinterpret_cast<Device*>(device); }
};
static_assert(offsetof(Device, vendor_operations) == 664, "libmlx5 and libefa look at this offset");

struct AsyncEvent {
    ibv_async_event event;
};

struct Context {
    abi::VerbsContextEx shown{};  // ends with the struct ibv_context that programs see
    Device* device = nullptr;
    Process* process = nullptr;
    FileIdentity command_file;  // that of cmd_fd
    FilesAge files;
    EventQueue<AsyncEvent> async_events;
    std::atomic<bool> failed{false};  // its device is gone, or failed by a plan of faults: for good
    PortView seen;                    // the port as the program has been told; the process's, under its lock
    bool foreign = false;             // imported from another process
    std::atomic<bool> of_library{false};      // librdmacm has opened it, for ids
    Context* next_of_file = this;             // import.h
    bool closed = false;                      // likewise
    adapter::ObjectRecord* record = nullptr;  // what tools are shown; may be missing

    std::mutex objects_lock;
    std::set<struct QueuePair*> queue_pairs;  // what close destroys if the program did not
    std::set<struct Region*> regions;
    std::set<struct Window*> windows;
    std::set<struct DeviceMemory*> device_memories;
    std::set<struct Srq*> shared_queues;
    std::set<struct Xrcd*> xrc_domains;

    // With the lock: for those of what there is, as many as can be expected to wait.
    void make_room_for_events() {
        constexpr std::size_t kOfPort = 16, kOfEach = 4;
        async_events.make_room_for(kOfPort + kOfEach * (queue_pairs.size() + shared_queues.size()));
    }

    ibv_context* base() { return &shown.base.context; }
    static Context* of(ibv_context* context) { return reinterpret_cast<Context*>(abi::context_ex(context)); }
};

struct ThreadDomain {
    ibv_td base{};
    std::atomic<std::uint32_t> users{0};

    static ThreadDomain* of(ibv_td* td) { return reinterpret_cast<ThreadDomain*>(td); }
};

struct Pd {
    using Users = std::atomic<std::uint32_t>;
    explicit Pd(std::shared_ptr<Users> shared) : shared_users(std::move(shared)), users(*shared_users) {}

    ibv_pd base{};
    memory::PdNumber number = 0;  // a parent domain has its parent's
    const std::shared_ptr<Users> shared_users;
    Users& users;          // objects in it; an imported one counts with the original
    Pd* parent = nullptr;  // this is a parent domain, and that the domain that it stands for
    ThreadDomain* thread_domain = nullptr;
    adapter::ObjectRecord* record = nullptr;

    // Of each object that is made in it, and of its end. They keep it: an imported one's handle may go before
    // them (ibv_unimport_pd(3)).
    void enter() {
        users++;
        references_++;
    }
    void leave() {
        users--;
        release();
    }
    void release() {  // the handle's end
        if (--references_ == 0) delete this;
    }

    static Pd* of(ibv_pd* pd) { return reinterpret_cast<Pd*>(pd); }

   private:
    std::atomic<std::uint32_t> references_{1};
};

enum class RegionKind : std::uint8_t { users_memory, other_memory, imported };

struct Region {
    ibv_mr base{};
    memory::Access access = 0;
    RegionKind kind = RegionKind::users_memory;
    void* mapping = nullptr;  // ours, to be unmapped with the region
    std::size_t mapping_length = 0;
    struct DeviceMemory* device_memory = nullptr;

    static Region* of(ibv_mr* mr) { return reinterpret_cast<Region*>(mr); }
};

// Memory that stands for the device's own. Objects that import it share it.
struct DeviceMemory {
    struct Bytes {
        explicit Bytes(std::size_t length);
        ~Bytes();
        Bytes(const Bytes&) = delete;
        Bytes& operator=(const Bytes&) = delete;

        std::uint8_t* address;  // nullptr: there was no memory
        const std::size_t length;
    };
    ibv_dm base{};
    std::shared_ptr<Bytes> bytes;
    std::atomic<std::uint32_t> users{0};  // regions

    static DeviceMemory* of(ibv_dm* dm) { return reinterpret_cast<DeviceMemory*>(dm); }
};

struct Window {
    ibv_mw base{};

    static Window* of(ibv_mw* mw) { return reinterpret_cast<Window*>(mw); }
};

struct CompletionEvent {
    struct Cq* cq;
};

struct Channel {
    ibv_comp_channel base{};
    EventQueue<CompletionEvent> events;
    std::atomic<std::uint32_t> cqs{0};
    std::atomic<pid_t> reader{0};       // the thread that waited for events last
    std::atomic<unsigned> sleepers{0};  // threads that wait for one

    // For those of one completion queue more: of each, one that nobody has taken yet, and the next.
    void make_room_for_another() { events.make_room_for(2 * (cqs + std::size_t{1})); }
    static Channel* of(ibv_comp_channel* channel) { return reinterpret_cast<Channel*>(channel); }
};

struct Cq : completion::CompletionListener {
    // The public structure cannot come first here (this class has a table of virtual functions), so the
    // object that programs see is a member, and of() finds the way back.
    struct Public {
        ibv_cq_ex base{};
        Cq* self = nullptr;
    } shown;
    Channel* channel = nullptr;
    std::unique_ptr<completion::CompletionQueue> queue;
    std::atomic<std::uint32_t> users{0};
    std::uint32_t events_delivered = 0;        // taken by ibv_get_cq_event; under shown.base.mutex
    std::uint32_t async_events_delivered = 0;  // likewise
    // Extended queues (cq_ex.cpp).
    std::mutex poll_lock;  // from start_poll to end_poll
    bool single_threaded = false;
    Pd* domain = nullptr;  // the parent domain that it was created with
    adapter::ObjectRecord* record = nullptr;
    completion::Completion current;
    // The thread that polled last, or took an event (0: none), and whether it has not found the queue empty
    // since, so that it may be at work on a completion. For verbena_quiesce().
    std::atomic<pid_t> poller{0};
    std::atomic<bool> poller_at_work{false};
    std::atomic<std::uint32_t> polls_in_vain{0};  // about

    void polled_in_vain() {
        polls_in_vain.store(polls_in_vain.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        poller_at_work.store(false, std::memory_order_release);
    }
    ibv_cq* base() { return reinterpret_cast<ibv_cq*>(&shown.base); }
    static Cq* of(ibv_cq* cq) { return reinterpret_cast<Public*>(cq)->self; }

    void completion_event(completion::CompletionQueue& queue) override;
    void overrun(completion::CompletionQueue& queue) override;
};

struct Srq : transport::ReceiveQueueListener {
    struct Public {
        ibv_srq base{};
        Srq* self = nullptr;
    } shown;
    std::shared_ptr<transport::ReceiveQueue> queue;
    Context* context = nullptr;
    std::uint32_t number = 0;
    struct Xrcd* xrcd = nullptr;  // of an XRC queue
    Cq* cq = nullptr;             // likewise
    adapter::ObjectRecord* record = nullptr;
    std::atomic<std::uint32_t> users{0};
    std::uint32_t async_events_delivered = 0;  // under shown.base.mutex

    ibv_srq* base() { return &shown.base; }
    static Srq* of(ibv_srq* srq) { return reinterpret_cast<Public*>(srq)->self; }

    void limit_reached(transport::ReceiveQueue& queue) override;
};

// Of a queue pair to a multicast group.
struct Attachment {
    Gid group;
    std::uint32_t interface_index;

    friend bool operator==(const Attachment&, const Attachment&) = default;
};
class XrcTarget;

// What a post needs, in the cache line in front of the public structure.
struct alignas(64) QueuePairHead : transport::QpListener {
    transport::QueuePair* qp = nullptr;
    transport::ReceiveQueue* own_receives = nullptr;  // nullptr: there is none, or a shared one
    Context* context = nullptr;
};
struct alignas(64) PublicQueuePair {
    abi::QpEx ex{};
};

struct QueuePair : Dense, QueuePairHead, PublicQueuePair {
    ibv_qp_init_attr created{};    // as ibv_query_qp returns it
    ibv_ah_attr address_vector{};  // as modify set it
    std::uint32_t async_events_delivered = 0;
    std::vector<Attachment> groups;        // under the context's objects_lock
    std::shared_ptr<XrcTarget> target;     // XRC_RECV: what all handles of it share
    struct Xrcd* xrcd = nullptr;           // likewise
    std::unique_ptr<WorkBuilder> builder;  // created with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS

    ibv_qp* base() { return &ex.base.qp_base; }
    static QueuePair* of(ibv_qp* qp) {
        return static_cast<QueuePair*>(reinterpret_cast<PublicQueuePair*>(qp));
    }

    void qp_event(transport::QueuePair& qp, transport::QpEvent event) override;
};

struct AddressHandle {
    ibv_ah base{};
    wire::Path path;

    static AddressHandle* of(ibv_ah* ah) { return reinterpret_cast<AddressHandle*>(ah); }
};

}  // namespace verbena::verbs
