#include "interpose/strict_place.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

// The name of an object's file by which others find it: the loader has the program by the first word of the
// command line, and libraries perhaps relative to the folder of that moment.
std::string file_of(const link_map& object, const Dl_info& info) {
    char path[PATH_MAX];
    if (!*object.l_name) {
        const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
        return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : info.dli_fname;
    }
    return realpath(object.l_name, path) ? path : object.l_name;
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
        link_map* object = nullptr;
        if (!dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) || !object) continue;
        line.open('{');
        line.key("file").text(file_of(*object, info));
        // As the file counts, also one that is at its own addresses (-no-pie); the call, not where it returns
        // to.
        line.key("offset").unsigned_number(reinterpret_cast<std::uint64_t>(address) - object->l_addr - 1);
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
