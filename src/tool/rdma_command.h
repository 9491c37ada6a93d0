// The answers of iproute2's `rdma` command for our devices: `verbena run` puts a link of that name to this
// program in front of PATH, because programs and scripts ask it for the network interface of a device.
#pragma once

#include <string_view>

namespace verbena::tool {

bool called_as_rdma(std::string_view program);

// `rdma dev`, `link`, `resource` and `statistic` (show, list) with -j, -p, -d, in iproute2's words. Anything
// else, and everything where there is no Verbena, is the system's `rdma`, which then takes this process's
// place. Returns the exit status.
int rdma_command(int argc, char** argv);

}  // namespace verbena::tool
