#include "daemon/table_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "base/reason.h"
#include "base/sealed_file.h"

namespace verbena::daemon {

TableFile::~TableFile() {
    if (table_) munmap(table_, sizeof *table_);
}

int TableFile::create(bool memfd) {
    Descriptor file;
    if (memfd) file.reset(create_sized_file("verbena-devices", sizeof(host::DeviceTable)));
    for (const char* folder : {"/dev/shm", "/tmp"}) {
        if (file) break;
        file.reset(open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
        if (file && ftruncate(file.get(), sizeof(host::DeviceTable)) != 0) file.reset();
    }
    if (!file) return fail(errno, "no memory for the device table: %s", std::strerror(errno));
    void* address =
        mmap(nullptr, sizeof(host::DeviceTable), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED)
        return fail(errno, "the device table cannot be mapped: %s", std::strerror(errno));
    table_ = new (address) host::DeviceTable{};
    if (memfd) close_to_writers(file.get());
    readable_.reset(open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
    if (!readable_) readable_ = std::move(file);  // no /proc
    return 0;
}

}  // namespace verbena::daemon
