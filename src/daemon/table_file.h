// The device table's memory: a file that programs map read-only and nobody can resize.
#pragma once

#include "base/descriptor.h"
#include "host/device_table.h"

namespace verbena::daemon {

class TableFile {
   public:
    ~TableFile();
    // `memfd` off: an unlinked file in /dev/shm instead. 0 or an errno with a reason.
    int create(bool memfd);
    host::DeviceTable& table() { return *table_; }
    // What programs get: opened for reading only.
    int descriptor() const { return readable_.get(); }

   private:
    Descriptor readable_;
    host::DeviceTable* table_ = nullptr;
};

}  // namespace verbena::daemon
