#include "interpose/strict_place.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace verbena::interpose {

namespace {

// Ours, and those that call on the program's behalf.
bool is_library(const char* path) {
    const char* slash = std::strrchr(path, '/');
    const char* name = slash ? slash + 1 : path;
    for (const char* library : {"libverbena-interpose.so", "libibverbs.so.1", "librdmacm.so.1"})
        if (std::strncmp(name, library, std::strlen(library)) == 0) return true;
    return false;
}

}  // namespace

bool called_by_rdmacm() {
    void* frames[16];
    const int count = backtrace(frames, static_cast<int>(std::size(frames)));
    for (int i = 0; i < count; i++) {
        Dl_info info;
        if (!dladdr(frames[i], &info)) return false;
        if (std::strstr(info.dli_fname, "libverbena-interpose.so")) continue;
        return std::strstr(info.dli_fname, "librdmacm.so") != nullptr;
    }
    return false;
}

Inventory::Place place_of_call() {
    void* frames[Inventory::kFrames + 12];
    const int count = backtrace(frames, static_cast<int>(std::size(frames)));
    Inventory::Place place{};
    std::size_t kept = 0;
    for (int i = 0; i < count && kept < place.size(); i++) {
        Dl_info info;
        if (kept == 0 && dladdr(frames[i], &info) && is_library(info.dli_fname)) continue;
        place[kept++] = frames[i];
    }
    return place;
}

void show_place(Line& line, const Inventory::Place& place) {
    line.key("from").open('[');
    for (const void* address : place) {
        Dl_info info;
        if (!address) break;
        if (!dladdr(address, &info)) continue;
        line.open('{');
        line.key("file").text(info.dli_fname);
        // The call, not where it returns to.
        line.key("offset").unsigned_number(static_cast<std::uint64_t>(
            static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase) - 1));
        if (info.dli_sname) line.key("function").text(info.dli_sname);
        line.close('}');
    }
    line.close(']');
}

std::string where(const Inventory::Place& place) {
    Dl_info info;
    if (!place[0] || !dladdr(place[0], &info)) return {};
    const char* slash = std::strrchr(info.dli_fname, '/');
    char text[256];
    if (info.dli_sname)
        std::snprintf(text, sizeof text, " (%s, %s+0x%lx)", slash ? slash + 1 : info.dli_fname,
                      info.dli_sname,
                      static_cast<unsigned long>(static_cast<const char*>(place[0]) -
                                                 static_cast<char*>(info.dli_saddr)));
    else
        std::snprintf(text, sizeof text, " (%s+0x%lx)", slash ? slash + 1 : info.dli_fname,
                      static_cast<unsigned long>(static_cast<const char*>(place[0]) -
                                                 static_cast<char*>(info.dli_fbase)));
    return text;
}

}  // namespace verbena::interpose
