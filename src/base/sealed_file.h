// Memory files, which processes share by handing over descriptors. Whoever gets one need not trust its maker
// that reading it will always work: nobody can make it shorter.
//
// Thread safety: all calls.
#pragma once

#include <cerrno>
#include <cstddef>
#include <optional>

namespace verbena {

// An empty one that can be sealed, for its own user: who got a descriptor for reading must not open it for
// writing by /proc. It cannot be executed, which some systems insist on (sysctl vm.memfd_noexec); closed by
// exec(). -1 with errno.
int create_memory_file(const char* name);

// Why there are no such files, or none of that size: the kernel does not know them, a filter on system calls
// forbids them, or ulimit -f does.
inline bool forbids_memory_files(int error) {
    return error == ENOSYS || error == EPERM || error == EACCES || error == EFBIG;
}

// Whether a file of this process may have so many bytes (ulimit -f). EFBIG if not: writing them would end the
// program by SIGXFSZ.
bool may_be_as_large(std::size_t size);

// So many zero bytes for good; likewise. EFBIG: no file of the process may be that large (ulimit -f).
int create_sealed_file(const char* name, std::size_t size);

// The same, for a file that its maker maps before close_to_writers().
int create_sized_file(const char* name, std::size_t size);
// From now on nobody writes to it but by the mappings that there are: whoever gets its descriptor may read.
// Kernels before Linux 5.1 do not know that.
void close_to_writers(int fd);

// The bytes of somebody else's. Nothing: it is none, it could become shorter, or it consists of huge pages,
// which can still be punched out, and not be there any more when they are wanted.
std::optional<std::size_t> sealed_length(int fd);

}  // namespace verbena
