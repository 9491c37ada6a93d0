#include "daemon/table_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "base/reason.h"
#include "base/sealed_file.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace verbena::daemon {

TableFile::~TableFile() {
    if (table_) munmap(table_, sizeof *table_);
}

int TableFile::create(bool memfd) {
    Descriptor file;
    if (memfd) file.reset(create_memory_file("verbena-devices"));
    const bool sealable = static_cast<bool>(file);
    for (const char* folder : {"/dev/shm", "/tmp"})
        if (!file) file.reset(open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file || ftruncate(file.get(), sizeof(host::DeviceTable)) != 0)
        return fail(errno, "no memory for the device table: %s", std::strerror(errno));
    void* address =
        mmap(nullptr, sizeof(host::DeviceTable), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED)
        return fail(errno, "the device table cannot be mapped: %s", std::strerror(errno));
    table_ = new (address) host::DeviceTable{};
    if (sealable) {
        // Old kernels do not know the last seal; a descriptor for reading only protects the table there.
        const int sizes = F_SEAL_SHRINK | F_SEAL_GROW;
        if (fcntl(file.get(), F_ADD_SEALS, sizes | F_SEAL_FUTURE_WRITE) != 0)
            fcntl(file.get(), F_ADD_SEALS, sizes);
    }
    readable_.reset(open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
    if (!readable_) readable_ = std::move(file);  // no /proc
    return 0;
}

}  // namespace verbena::daemon
