#include "verbs/port_view.h"

#include <gmock/gmock.h>

#include <vector>

namespace verbena::verbs {
namespace {

std::vector<ibv_event_type> between(const PortView& before, const PortView& now) {
    std::vector<ibv_event_type> events;
    events_between(before, now, [&](ibv_event_type type) { events.push_back(type); });
    return events;
}

TEST(PortView, Events) {
    using testing::ElementsAre;
    using testing::IsEmpty;
    const PortView up{true, true, 1, 10'000}, down{true, false, 1, 10'000};
    EXPECT_THAT(between(up, up), IsEmpty());
    EXPECT_THAT(between(up, down), ElementsAre(IBV_EVENT_PORT_ERR));
    EXPECT_THAT(between(down, up), ElementsAre(IBV_EVENT_PORT_ACTIVE));
    EXPECT_THAT(between(up, {true, true, 2, 10'000}), ElementsAre(IBV_EVENT_GID_CHANGE));
    EXPECT_THAT(between(up, {}), ElementsAre(IBV_EVENT_DEVICE_FATAL));
}

TEST(PortView, TheSpeedOfAPortThatIsUp) {
    using testing::ElementsAre;
    using testing::IsEmpty;
    const PortView fast{true, true, 1, 25'000}, slow{true, true, 1, 10'000};
    EXPECT_THAT(between(fast, slow), ElementsAre(kEventDeviceSpeedChange));
    EXPECT_THAT(between(slow, fast), ElementsAre(kEventDeviceSpeedChange));
    EXPECT_THAT(between({true, false, 1, 10'000}, fast), ElementsAre(IBV_EVENT_PORT_ACTIVE));
    EXPECT_THAT(between({true, false, 1, 10'000}, {true, false, 1, 25'000}), IsEmpty());
    EXPECT_THAT(between(fast, {true, true, 2, 10'000}),
                ElementsAre(IBV_EVENT_GID_CHANGE, kEventDeviceSpeedChange));
}

}  // namespace
}  // namespace verbena::verbs
