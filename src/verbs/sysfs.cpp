// The questions that programs ask of sysfs through the library (ibv_read_sysfs_file): answered from memory,
// because no sysfs has our devices.

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/call_fault.h"
#include "base/reason.h"
#include "host/port.h"

using namespace verbena;

extern "C" {

const char* ibv_get_sysfs_path() {
    const char* path = std::getenv("SYSFS_PATH");
    return path && *path ? path : "/sys";
}

int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, size_t size) {
    if (const Fault fault{"ibv_read_sysfs_file"}) return fault.minus_one();
    Call call("ibv_read_sysfs_file");
    if (std::string_view(file) == "board_id" && std::strstr(directory, "/infiniband/verbena"))
        return std::snprintf(buffer, size, "%s", host::kBoardId);
    std::FILE* stream = nullptr;
    char path[512];
    if (std::snprintf(path, sizeof path, "%s/%s", directory, file) < static_cast<int>(sizeof path))
        stream = std::fopen(path, "re");
    if (!stream) return fail_minus_one(ENOENT, "there is no %s/%s", directory, file);
    std::size_t length = std::fread(buffer, 1, size, stream);
    std::fclose(stream);
    while (length && buffer[length - 1] == '\n') length--;
    if (length < size) buffer[length] = 0;
    return static_cast<int>(length);
}

}  // extern "C"
