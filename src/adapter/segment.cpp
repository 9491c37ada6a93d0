#include "adapter/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/reason.h"
#include "base/sealed_file.h"

namespace verbena::adapter {
namespace {

constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t size) { return (size + kPage - 1) / kPage * kPage; }

struct Offsets {
    std::size_t regions, queue_pairs, busy, objects, total;
};

Offsets offsets_of(const Segment::Sizes& sizes) {
    Offsets o;
    o.regions = round_up(sizeof(SegmentHeader));
    o.queue_pairs = o.regions + round_up(sizes.regions * sizeof(memory::RegionRecord));
    o.busy = o.queue_pairs + round_up(sizes.queue_pairs * sizeof(QpRecord));
    o.objects = o.busy + round_up(sizes.queue_pairs * sizeof(transport::BusyCounters));
    o.total = o.objects + round_up(sizes.objects * sizeof(ObjectRecord));
    return o;
}

void read_command(std::array<char, 16>& out) {
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t size = read(fd, out.data(), out.size() - 1);
    for (char& c : out)
        if (c == '\n') c = 0;
    if (size < 0) out = {};
    close(fd);
}

}  // namespace

std::size_t Segment::bytes_for(const Sizes& sizes) { return offsets_of(sizes).total; }

std::unique_ptr<Segment> Segment::create_shared(const Sizes& sizes, Time started) {
    const std::size_t size = bytes_for(sizes);
    Descriptor fd(create_sized_file("verbena", size));
    void* const memory =
        fd ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0)
           : MAP_FAILED;
    if (memory == MAP_FAILED) {
        const int error = errno;
        return fail_null(error, "making the process's tables (memfd_create, %zu bytes, sparse): %s", size,
                         std::strerror(error));
    }
    close_to_writers(fd.get());
    return of(memory, size, std::move(fd), sizes, started);
}

std::unique_ptr<Segment> Segment::create_on_heap(const Sizes& sizes) {
    const std::size_t size = bytes_for(sizes);
    void* memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return fail_null(errno, "no memory for the process's tables (%zu bytes)", size);
    return of(memory, size, {}, sizes, 0);
}

std::unique_ptr<Segment> Segment::of(void* memory, std::size_t size, Descriptor fd, const Sizes& sizes,
                                     Time started) {
    std::unique_ptr<Segment> segment(new (std::nothrow) Segment(memory, size, std::move(fd), sizes, started));
    if (segment) return segment;
    munmap(memory, size);
    return fail_null(ENOMEM, "no memory for the process's tables");
}

// The memory is zero, which is a valid start for every record.
Segment::Segment(void* memory, std::size_t size, Descriptor fd, const Sizes& sizes, Time started)
    : header_(static_cast<SegmentHeader*>(memory)), size_(size), fd_(std::move(fd)) {
    const Offsets offsets = offsets_of(sizes);
    SegmentHeader& h = *header_;
    h.version = kSegmentVersion;
    h.header_size = sizeof(SegmentHeader);
    h.total_size = size;
    h.region_offset = offsets.regions;
    h.region_count = sizes.regions;
    h.qp_offset = offsets.queue_pairs;
    h.qp_count = sizes.queue_pairs;
    h.busy_offset = offsets.busy;
    h.object_offset = offsets.objects;
    h.object_count = sizes.objects;
    h.started = static_cast<std::uint64_t>(started);
    if (fd_) {
        h.pid = static_cast<std::uint32_t>(getpid());
        read_command(h.command);
        if (getrandom(h.nonce, sizeof h.nonce, 0) != sizeof h.nonce) h.nonce[0] = h.nonce[1] = 0;
    }
    h.generation.store(1, std::memory_order_relaxed);
    std::atomic_ref(h.magic).store(kSegmentMagic,
                                   std::memory_order_release);  // last: readers look at it first
}

Segment::~Segment() {
    header_->generation.fetch_add(1);
    munmap(header_, size_);
}

std::span<memory::RegionRecord> Segment::regions() {
    auto* bytes = reinterpret_cast<std::uint8_t*>(header_) + header_->region_offset;
    return {reinterpret_cast<memory::RegionRecord*>(bytes), header_->region_count};
}

std::span<QpRecord> Segment::queue_pairs() {
    auto* bytes = reinterpret_cast<std::uint8_t*>(header_) + header_->qp_offset;
    return {reinterpret_cast<QpRecord*>(bytes), header_->qp_count};
}

transport::BusyCounters& Segment::busy_counters_of(const QpRecord& queue_pair) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(header_) + header_->busy_offset;
    return reinterpret_cast<transport::BusyCounters*>(bytes)[&queue_pair - queue_pairs().data()];
}

std::span<ObjectRecord> Segment::objects() {
    auto* bytes = reinterpret_cast<std::uint8_t*>(header_) + header_->object_offset;
    return {reinterpret_cast<ObjectRecord*>(bytes), header_->object_count};
}

PortTotals& Segment::totals_of(std::uint32_t device) {
    for (DeviceTotals& each : header_->totals) {
        const std::uint32_t known = each.device.load(std::memory_order_relaxed);
        if (known != 0 && known != device + 1) continue;
        each.device.store(device + 1, std::memory_order_relaxed);
        return each.totals;
    }
    return header_->totals.back().totals;
}

}  // namespace verbena::adapter
