// What a process has besides queue pairs and regions, for tools: records in the exported tables.
//
// Thread safety: all calls.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>

#include "adapter/segment.h"
#include "base/free_list.h"

namespace verbena::adapter {

class ObjectTable {
   public:
    explicit ObjectTable(std::span<ObjectRecord> records) : records_(records) {}

    struct Object {
        ObjectKind kind = ObjectKind::context;
        std::uint32_t number = 0;  // 0: one that no other object has
        std::uint32_t device = 0, context = 0, pd = 0, cq = 0, size = 0;
    };
    // nullptr if the table is full, or there is no memory: the object is not shown then.
    ObjectRecord* add(const Object& object) noexcept;
    void remove(ObjectRecord* record);  // nullptr: nothing

   private:
    ObjectRecord* take_record();

    std::mutex lock_;
    const std::span<ObjectRecord> records_;
    FreeList<ObjectRecord*> free_;
    std::size_t used_ = 0;
    std::uint32_t last_number_ = 0;
};

}  // namespace verbena::adapter
