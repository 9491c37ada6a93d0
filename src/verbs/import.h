// The descriptor that stands for a context (ibv_context::cmd_fd), which ibv_import_device(3) makes a second
// context of: it says which device of which process it is.
#pragma once

#include <cstdint>

namespace verbena::verbs {

struct CommandFile {
    std::uint64_t magic;
    std::uint32_t pid;    // as that process sees itself
    std::uint32_t index;  // host::Device::index
    std::uint64_t node_guid;
};

// A new descriptor, or -1 with errno and a reason.
int make_command_file(std::uint32_t index, std::uint64_t node_guid);

// 0, or EINVAL with a reason: the descriptor is none of ours.
int read_command_file(int fd, CommandFile& out);

}  // namespace verbena::verbs
