// The descriptor that stands for a context (ibv_context::cmd_fd), which ibv_import_device(3) makes a second
// context of: it says which device of which process it is.
#pragma once

#include <cstdint>

namespace verbena::verbs {

struct Context;

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

// A context and those that this process has imported from it are one file for a kernel, which keeps what they
// have made until the last of them is closed. So they are in a ring.

// The imported one, whose command_file is set, becomes one of those with the same.
void join_file(Context& imported);
// The context is closed; true: it was the last of its ring, which nobody joins any more.
bool leave_file(Context& context);

}  // namespace verbena::verbs
