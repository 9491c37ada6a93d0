#include "rsocket/defaults.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>

#include "rsocket/wire.h"

namespace verbena::rsocket {
namespace {

// The number in a file of the folder, or `otherwise`.
std::uint32_t setting(const char* name, std::uint32_t otherwise, std::uint32_t most = UINT32_MAX) {
    const std::string path = std::string("/etc/rdma/rsocket/") + name;
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (!file) return otherwise;
    char text[32]{};
    const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    std::uint32_t number = 0;
    const auto result = std::from_chars(text, text + size, number);
    return result.ec == std::errc() && number <= most ? number : otherwise;
}

Defaults read_all() {
    Defaults read;
    auto small = [](const char* name, std::uint16_t otherwise) {
        return static_cast<std::uint16_t>(setting(name, otherwise, UINT16_MAX));
    };
    read.receive_buffer = std::max(setting("mem_default", read.receive_buffer), 2u);
    read.send_buffer = std::max(setting("wmem_default", read.send_buffer), 4096u);
    read.send_queue = small("sqsize_default", read.send_queue);
    read.receive_queue = small("rqsize_default", read.receive_queue);
    read.inline_data = std::min(small("inline_default", read.inline_data), kMostInline);
    read.map_entries = static_cast<std::uint16_t>(map_entries(map_scale(small("iomap_size", 0))));
    read.polling_time = setting("polling_time", 10) * kMicrosecond;
    return read;
}

}  // namespace

const Defaults& defaults() {
    static const Defaults values = read_all();
    return values;
}

}  // namespace verbena::rsocket
