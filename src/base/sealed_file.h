// Memory files, which processes share by handing over descriptors. Whoever gets one need not trust its maker
// that reading it will always work: nobody can make it shorter.
//
// Thread safety: all calls.
#pragma once

#include <cstddef>
#include <optional>

namespace verbena {

// An empty one that can be sealed. It cannot be executed, which some systems insist on (sysctl
// vm.memfd_noexec); closed by exec(). -1 with errno (ENOSYS: this kernel has no such files).
int create_memory_file(const char* name);

// So many zero bytes for good; likewise. EFBIG: no file of the process may be that large (ulimit -f).
int create_sealed_file(const char* name, std::size_t size);

// The bytes of somebody else's. Nothing: it is none, it could become shorter, or it consists of huge pages,
// which can still be punched out, and not be there any more when they are wanted.
std::optional<std::size_t> sealed_length(int fd);

}  // namespace verbena
