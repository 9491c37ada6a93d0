#include "adapter/object_table.h"

#include <gtest/gtest.h>

#include <array>

namespace verbena::adapter {
namespace {

TEST(ObjectTableTest, RecordsAreReusedAndNumbersAreNot) {
    std::array<ObjectRecord, 2> records{};
    ObjectTable table(records);
    ObjectRecord* first = table.add({.kind = ObjectKind::context, .device = 7});
    ObjectRecord* second = table.add({.kind = ObjectKind::shared_queue, .number = 99, .size = 4});
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(first->number, 1u);
    EXPECT_EQ(first->device, 7u);
    EXPECT_EQ(second->number, 99u);
    EXPECT_EQ(table.add({}), nullptr);
    table.remove(first);
    table.remove(nullptr);
    EXPECT_EQ(records[0].kind, ObjectKind::free);
    ObjectRecord* third = table.add({.kind = ObjectKind::completion_queue});
    EXPECT_EQ(third, first);
    EXPECT_EQ(third->number, 2u);
}

}  // namespace
}  // namespace verbena::adapter
