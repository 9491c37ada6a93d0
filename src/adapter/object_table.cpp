#include "adapter/object_table.h"

#include <new>

namespace verbena::adapter {

ObjectRecord* ObjectTable::take_record() {
    ObjectRecord* record = nullptr;
    if (free_.take(record)) return record;
    if (used_ == records_.size()) return nullptr;
    try {
        free_.make_room_for(used_ + 1);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    return &records_[used_++];
}

ObjectRecord* ObjectTable::add(const Object& object) noexcept {
    std::lock_guard guard(lock_);
    ObjectRecord* const record = take_record();
    if (!record) return nullptr;
    record->number = object.number ? object.number : ++last_number_;
    record->device = object.device;
    record->context = object.context;
    record->pd = object.pd;
    record->cq = object.cq;
    record->size = object.size;
    record->kind.store(object.kind, std::memory_order_release);
    return record;
}

void ObjectTable::remove(ObjectRecord* record) {
    if (!record) return;
    std::lock_guard guard(lock_);
    record->kind.store(ObjectKind::free, std::memory_order_release);
    free_.give_back(record);
}

}  // namespace verbena::adapter
