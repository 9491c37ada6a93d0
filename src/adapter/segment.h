// The process's exported tables: regions, queue pairs, completion queues, and the counters of the whole
// adapter. In a program they lie in a memfd that the local link's peers, the tools and a post-mortem read; in
// the simulator, and with VERBENA_DISABLE=memfd, on the heap. Memory is touched only as far as it is used.
//
// Readers in other processes trust nothing: the file is sealed against resizing, they check magic and
// version, copy a record and range-check each field once. A record is in use if its number (or a region's
// tag) says so; the counters are written without locks and may be torn.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "adapter/port_totals.h"
#include "base/descriptor.h"
#include "base/gid.h"
#include "memory/regions.h"
#include "memory/sections.h"
#include "transport/queue_pair.h"
#include "transport/shown_receives.h"

namespace verbena::adapter {

inline constexpr std::uint64_t kSegmentMagic = 0x31474553'42524556;  // "VERBSEG1" in memory order
inline constexpr std::uint32_t kSegmentVersion =
    10;  // changes whenever a structure here, or RegionRecord, does

// What the adapter does with packets before a queue pair sees them.
struct AdapterCounters {
    std::atomic<std::uint64_t> received;       // datagrams
    std::atomic<std::uint64_t> runts;          // too short for BTH and ICRC
    std::atomic<std::uint64_t> bad_icrc;       // dropped
    std::atomic<std::uint64_t> malformed;      // ICRC good, but wire::parse refused
    std::atomic<std::uint64_t> no_queue_pair;  // our number, but nobody has it
    std::atomic<std::uint64_t> strays;         // another process's, passed on
    std::atomic<std::uint64_t> strays_received;
    std::atomic<std::uint64_t> reserved[9];
};

// Records are taken in order and reused; the first whose `created` is 0 was never used, nor was any behind
// it.
struct alignas(64) QpRecord {
    std::atomic<std::uint32_t> number;  // 0: free
    std::atomic<std::uint32_t> state;   // transport::QpState
    std::uint32_t service;              // transport::Service
    std::uint32_t pd;
    Gid local, peer;
    std::uint32_t peer_qp;
    std::uint32_t path_mtu;
    std::uint64_t created;  // adapter::now()
    std::uint32_t access;   // memory::Access of the queue pair
    std::uint32_t max_destination_rd_atomic;
    // For tools: as a query would answer when the state last changed, and the objects' numbers.
    std::uint32_t rq_psn, sq_psn;
    std::uint32_t device;       // host::Device::index
    std::uint32_t peer_device;  // likewise, of the peer's address on this host; kNoDevice otherwise
    std::uint32_t send_cq, receive_cq;
    // On lines of their own: the queue pair writes here, peers read the above.
    alignas(64) transport::RareCounters counters;
    alignas(64) transport::ShownReceives shown;
};

// What only tools want to know of. Taken in order and reused, as queue pairs are; `kind` never_used ends the
// table.
enum class ObjectKind : std::uint32_t {
    never_used,
    free,
    context,
    protection_domain,
    completion_queue,
    shared_queue
};
struct ObjectRecord {
    std::atomic<ObjectKind> kind;
    std::uint32_t number;   // as tools name it, among its kind in the process
    std::uint32_t device;   // host::Device::index
    std::uint32_t context;  // the number of the context that it belongs to
    std::uint32_t pd;       // of a shared queue
    std::uint32_t cq;       // of a shared XRC queue; 0: none
    std::uint32_t size;     // completions, or receive requests, that it holds
    std::uint32_t reserved;
};

// What the queue pairs of a device have counted that are gone.
struct DeviceTotals {
    std::atomic<std::uint32_t> device;  // host::Device::index + 1; 0: free, as are those behind it
    std::uint32_t reserved;
    PortTotals totals;
};
inline constexpr std::size_t kMaxDeviceTotals = 64;

struct SegmentHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t header_size;
    std::uint64_t total_size;  // bytes
    std::uint32_t pid;         // as the process itself sees it
    // Not 0: who stands in for the program while it does not poll has to share its processor. For peers.
    std::atomic<std::uint32_t> crowded;
    std::atomic<std::uint64_t> generation;  // odd while the process lives; changes when it ends in order
    std::uint64_t nonce[2];                 // random; a peer reads it back through process_vm_readv
    std::uint64_t started;                  // adapter::now()
    std::array<char, 16> command;           // the program's name
    std::uint64_t region_offset, qp_offset, object_offset;
    std::uint64_t busy_offset;  // BusyCounters of the queue pairs, in the order of these, and close together
    std::uint32_t region_count, qp_count, object_count;
    std::atomic<std::uint32_t> present;    // presence.h
    alignas(64) AdapterCounters counters;  // written all the time, where peers read the above
    memory::Sections sections;
    // Odd while a queue pair's counters move to the totals: who sums both looks before and after.
    std::atomic<std::uint64_t> retirements;
    std::array<DeviceTotals, kMaxDeviceTotals> totals;
};

class Segment {
   public:
    struct Sizes {
        std::uint32_t regions = 1u << 18;
        std::uint32_t queue_pairs = 1u << 16;
        std::uint32_t objects = 1u << 17;
    };
    // In a sealed memfd; nullptr with errno and a reason. `started`: the time now.
    static std::unique_ptr<Segment> create_shared(const Sizes& sizes, Time started);
    static std::unique_ptr<Segment> create_on_heap(const Sizes& sizes);
    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

    int fd() const { return fd_.get(); }  // -1 on the heap
    SegmentHeader& header() { return *header_; }
    AdapterCounters& counters() { return header_->counters; }
    memory::Sections& sections() { return header_->sections; }
    std::span<memory::RegionRecord> regions();
    std::span<QpRecord> queue_pairs();
    transport::BusyCounters& busy_counters_of(const QpRecord& queue_pair);
    transport::QpCounters counters_of(const QpRecord& queue_pair) {
        return {busy_counters_of(queue_pair), queue_pair.counters};
    }
    std::span<ObjectRecord> objects();
    // The totals of a device; those of the last one if there are too many. The adapter's table lock is held.
    PortTotals& totals_of(std::uint32_t device);

    // How large a file must be for these tables; for readers, who check it against the file's real size.
    static std::size_t bytes_for(const Sizes& sizes);

   private:
    Segment(void* memory, std::size_t size, Descriptor fd, const Sizes& sizes, Time started);
    // Of what was mapped, which is given back if there is no memory for more.
    static std::unique_ptr<Segment> of(void* memory, std::size_t size, Descriptor fd, const Sizes& sizes,
                                       Time started);

    SegmentHeader* header_;
    const std::size_t size_;
    const Descriptor fd_;
};

}  // namespace verbena::adapter
