#include "transport/particulars.h"

#include <array>
#include <cstdio>

#include "transport/copy.h"

namespace verbena::transport {
namespace {

std::string range_of(const char* name, std::uint32_t key, const char* doubt, std::uint64_t address,
                     std::uint64_t length, const char* more) {
    std::array<char, 256> text;
    std::snprintf(text.data(), text.size(), " (%s 0x%x%s, address 0x%llx, %llu bytes%s)", name, key, doubt,
                  static_cast<unsigned long long>(address), static_cast<unsigned long long>(length), more);
    return text.data();
}

}  // namespace

std::string refused_element(const memory::RegionTable& regions, memory::PdNumber pd,
                            std::span<const Sge> sges, memory::Access need) {
    for (const Sge& sge : sges)
        if (check(regions, pd, {&sge, 1}, need) != memory::LookupError::none)
            return range_of("lkey", sge.lkey, memory::looks_like_lkey(sge.lkey) ? "" : ", which is an rkey",
                            sge.address, sge.length, regions.describe(sge.lkey).data());
    return {};
}

std::string refused_range(const memory::RegionTable& regions, std::uint32_t rkey, std::uint64_t address,
                          std::uint64_t length) {
    // A common slip. The key's lowest bit alone does not tell: the owner of a window chooses all eight.
    const bool is_lkey = static_cast<bool>(regions.local(rkey, 0, address, 0, 0));
    return range_of("rkey", rkey, is_lkey ? ", which is an lkey; VERBENA_KEYS=either takes it" : "", address,
                    length, regions.describe(rkey).data());
}

std::string remote_range(std::uint32_t rkey, std::uint64_t address, std::uint64_t length) {
    return range_of("rkey", rkey, "", address, length, "");
}

}  // namespace verbena::transport
