// The exported tables of another process of this host (adapter/segment.h), as ForeignMemory reads them: a
// file of any size and contents. They are this process's own, so that a READ may go wherever they say.
//
//     byte 0: bit 0: the header is right, and the rest of the input the tables; else the rest is the file
//             bit 1: the file is not sealed

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "adapter/foreign_memory.h"

using namespace verbena;

namespace {

constexpr std::uint32_t kOurs = 0x5123, kTheirs = 0x6456, kIova = 0x1000;
constexpr std::size_t kTables = (sizeof(adapter::SegmentHeader) + 63) / 64 * 64;
constexpr std::uint32_t kRegions = 4, kQueuePairs = 4;
constexpr std::size_t kQpTable = kTables + kRegions * sizeof(memory::RegionRecord);
constexpr std::size_t kBusyTable = kQpTable + kQueuePairs * sizeof(adapter::QpRecord);

template <class T>
void put(std::vector<std::uint8_t>& file, std::size_t at, const T& value) {
    if (at + sizeof value <= file.size()) std::memcpy(file.data() + at, &value, sizeof value);
}

// A header, the input as tables behind it, and in them what an input would hardly find.
std::vector<std::uint8_t> tables(const std::uint8_t* data, std::size_t size) {
    using adapter::SegmentHeader;
    std::vector<std::uint8_t> file(kTables);
    file.insert(file.end(), data, data + size);
    file.resize(kBusyTable + kQueuePairs * sizeof(transport::BusyCounters));
    put(file, offsetof(SegmentHeader, magic), adapter::kSegmentMagic);
    put(file, offsetof(SegmentHeader, version), adapter::kSegmentVersion);
    put(file, offsetof(SegmentHeader, nonce), std::uint64_t{1});
    put(file, offsetof(SegmentHeader, region_offset), std::uint64_t{kTables});
    put(file, offsetof(SegmentHeader, qp_offset), std::uint64_t{kQpTable});
    put(file, offsetof(SegmentHeader, busy_offset), std::uint64_t{kBusyTable});
    put(file, offsetof(SegmentHeader, region_count), kRegions);
    put(file, offsetof(SegmentHeader, qp_count), kQueuePairs);
    put(file, kQpTable + offsetof(adapter::QpRecord, number), kTheirs);
    put(file, kQpTable + offsetof(adapter::QpRecord, peer_qp), kOurs);
    put(file, kQpTable + offsetof(adapter::QpRecord, created), std::uint64_t{1});
    put(file, kTables + sizeof(memory::RegionRecord) + offsetof(memory::RegionRecord, tag), std::uint32_t{2});
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::vector<std::uint8_t> file =
        data[0] & 1 ? tables(data + 1, size - 1) : std::vector<std::uint8_t>(data + 1, data + size);
    const int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(file.size())) != 0 ||
        pwrite(fd, file.data(), file.size(), 0) != static_cast<ssize_t>(file.size()))
        std::abort();
    if (!(data[0] & 2) && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        std::abort();
    const auto memory =
        adapter::ForeignMemory::open(getpid(), fd, reinterpret_cast<std::uintptr_t>(file.data()));
    if (memory && (data[0] & 2)) std::abort();  // whose file may shrink under our eyes
    if (memory) {
        std::array<std::uint8_t, 64> buffer;
        const iovec piece{buffer.data(), buffer.size()};
        const wire::Path path;
        for (std::uint32_t index = 0; index <= kRegions; index++)
            memory->transfer({path, kOurs, kTheirs, index << 8 | 3, kIova, buffer.size(), 0, 1, 0},
                             {&piece, 1}, false);
        static_cast<void>(memory->shown(kTheirs));
        const auto ring = link::LocalRing::create();
        if (!ring) std::abort();
        for (std::uint32_t index = 0; index <= kRegions; index++) {
            link::LocalMark mark(*ring, {.qp = kTheirs});
            // Nothing of any length, since the tables are the input's.
            memory->store({kTheirs, std::uint64_t{1} << 32 | index << 8 | 2, kIova}, -1, {}, mark);
        }
    }
    close(fd);
    return 0;
}
