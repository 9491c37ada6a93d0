// Any file as a process's exported tables: what is read is bounded by the file, and nothing falls over.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "observe/tables.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using verbena::adapter::SegmentHeader;
    static const int file = memfd_create("tables", MFD_CLOEXEC);
    constexpr std::size_t kRecords = 4096;  // bytes behind the header
    // The header's numbers come first; its tables are far behind them, so the rest of the input is records.
    constexpr std::size_t kNumbers = offsetof(SegmentHeader, counters);
    alignas(SegmentHeader) static std::uint8_t bytes[sizeof(SegmentHeader) + kRecords];
    std::memset(bytes, 0, sizeof bytes);
    std::memcpy(bytes, data, std::min(size, kNumbers));
    if (size > kNumbers)
        std::memcpy(bytes + sizeof(SegmentHeader), data + kNumbers, std::min(size - kNumbers, kRecords));
    auto put = [](std::size_t at, auto value) { std::memcpy(bytes + at, &value, sizeof value); };
    put(offsetof(SegmentHeader, magic), verbena::adapter::kSegmentMagic);
    put(offsetof(SegmentHeader, version), verbena::adapter::kSegmentVersion);
    if (pwrite(file, bytes, sizeof bytes, 0) != sizeof bytes) return 0;
    verbena::observe::Tables tables;
    verbena::observe::read_tables(file, verbena::observe::Depth::everything, tables);
    verbena::observe::Ports ports;
    tables.add_to(ports);
    return 0;
}
