#include "observe/tables.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/printable.h"

namespace verbena::observe {
namespace {

using adapter::ObjectKind;
using adapter::ObjectRecord;
using adapter::QpRecord;
using adapter::SegmentHeader;
using memory::RegionRecord;
using transport::BusyCounters;

constexpr std::uint32_t kMostRecords = 1 << 20;  // of a table; more is nonsense
constexpr unsigned kAttemptsAtTables = 16;       // while queue pairs come and go

bool read_at(int fd, void* into, std::size_t size, std::uint64_t offset) {
    return pread(fd, into, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

bool retirements(int fd, std::uint64_t& out) {
    return read_at(fd, &out, sizeof out, offsetof(SegmentHeader, retirements));
}

// The records of a table, a few at a time, until `each` answers false.
template <class Record, class Each>
bool for_each(int fd, std::uint64_t offset, std::uint32_t count, std::uint64_t file_size, Each each) {
    constexpr std::uint32_t kAtOnce = 64;
    if (count > kMostRecords || offset > file_size || count > (file_size - offset) / sizeof(Record))
        return false;
    struct Batch {
        std::array<Record, kAtOnce> records;
    };
    const auto batch = std::make_unique<Batch>();
    for (std::uint32_t first = 0; first < count; first += kAtOnce) {
        const std::uint32_t here = std::min(kAtOnce, count - first);
        if (!read_at(fd, static_cast<void*>(batch.get()), here * sizeof(Record),
                     offset + std::uint64_t{first} * sizeof(Record)))
            return false;
        for (std::uint32_t i = 0; i < here; i++)
            if (!each(batch->records[i], first + i)) return true;
    }
    return true;
}

bool read_queue_pairs(int fd, const SegmentHeader& header, std::uint64_t size, Tables& out) {
    std::vector<std::uint32_t> places;  // in the table
    const auto read_record = [&](const QpRecord& r, std::uint32_t index) {
        if (r.created == 0) return false;
        const std::uint32_t number = r.number.load(std::memory_order_relaxed);
        if (number == 0) return true;
        const transport::QpCounters counters{{}, r.counters};
        out.queue_pairs.push_back({number, r.state.load(std::memory_order_relaxed), r.service, r.pd, r.local,
                                   r.peer, r.peer_qp, r.path_mtu, r.rq_psn, r.sq_psn, r.device, r.peer_device,
                                   r.send_cq, r.receive_cq, counters});
        places.push_back(index);
        return true;
    };
    std::size_t known = 0;
    const auto read_busy = [&](const BusyCounters& counters, std::uint32_t index) {
        if (known < places.size() && places[known] == index)
            static_cast<BusyCounters&>(out.queue_pairs[known++].counters) = counters;
        return known < places.size();
    };
    return for_each<QpRecord>(fd, header.qp_offset, header.qp_count, size, read_record) &&
           for_each<BusyCounters>(fd, header.busy_offset, header.qp_count, size, read_busy);
}

bool read_regions(int fd, const SegmentHeader& header, std::uint64_t size, Tables& out) {
    return for_each<RegionRecord>(
        fd, header.region_offset, header.region_count, size, [&](const RegionRecord& r, std::uint32_t index) {
            const std::uint32_t tag = r.tag.load(std::memory_order_relaxed);
            if (index == 0) return true;
            if (tag == 0) return false;  // never used
            const auto kind = r.kind.load(std::memory_order_relaxed);
            if (tag == memory::kDead ||
                (kind != memory::RecordKind::region && kind != memory::RecordKind::null_region))
                return true;
            const std::uint32_t lkey = index << 8 | (tag & 0xfe);
            out.regions.push_back({index, lkey, lkey | 1, r.access.load(std::memory_order_relaxed),
                                   r.pd.load(std::memory_order_relaxed),
                                   r.iova.load(std::memory_order_relaxed),
                                   r.length.load(std::memory_order_relaxed)});
            return true;
        });
}

bool read_objects(int fd, const SegmentHeader& header, std::uint64_t size, Tables& out) {
    return for_each<ObjectRecord>(
        fd, header.object_offset, header.object_count, size, [&](const ObjectRecord& r, auto) {
            const ObjectKind kind = r.kind.load(std::memory_order_relaxed);
            if (kind == ObjectKind::never_used) return false;
            if (kind != ObjectKind::free)
                out.objects.push_back({kind, r.number, r.device, r.context, r.pd, r.cq, r.size});
            return true;
        });
}

void read_totals(const SegmentHeader& header, Tables& out) {
    for (const adapter::DeviceTotals& each : header.totals) {
        const std::uint32_t device = each.device.load(std::memory_order_relaxed);
        if (device == 0) return;
        out.ended[device - 1] += each.totals;
    }
}

}  // namespace

void Tables::add_to(Ports& ports) const {
    for (const auto& [device, totals] : ended) ports[device] += totals;
    for (const QueuePair& qp : queue_pairs) {
        ports[qp.device].own += qp.counters;
        if (qp.peer_device != adapter::kNoDevice) ports[qp.peer_device].add_mirrored(qp.counters);
    }
}

transport::QpCounters Tables::total() const {
    transport::QpCounters sum{};
    for (const auto& [device, totals] : ended) sum += totals.own;
    for (const QueuePair& qp : queue_pairs) sum += qp.counters;
    return sum;
}

bool read_tables(int fd, Depth depth, Tables& out) {
    struct stat status;
    if (fstat(fd, &status) != 0) return false;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    const auto header = std::make_unique<SegmentHeader>();
    std::uint64_t before = 0, after = 1;
    for (unsigned attempt = 0; attempt < kAttemptsAtTables && (before != after || before % 2 != 0);
         attempt++) {
        out = {};
        if (!retirements(fd, before) || !read_at(fd, header.get(), sizeof *header, 0)) return false;
        if (header->magic != adapter::kSegmentMagic || header->version != adapter::kSegmentVersion)
            return false;
        read_totals(*header, out);
        if (!read_queue_pairs(fd, *header, size, out) || !retirements(fd, after)) return false;
    }
    out.pid = header->pid;
    out.started = header->started;
    header->command.back() = '\0';
    out.command = printable(header->command.data());  // whatever the program calls itself
    if (depth == Depth::counters) return true;
    return read_regions(fd, *header, size, out) && read_objects(fd, *header, size, out);
}

}  // namespace verbena::observe
