#include "adapter/precedence.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/features.h"

namespace verbena::adapter {

void take_precedence() {
    constexpr int kLeast = -20;
    if (!features().precedence) return;
    const auto self = static_cast<id_t>(gettid());
    errno = 0;
    const int before = getpriority(PRIO_PROCESS, self);
    if (errno == 0) setpriority(PRIO_PROCESS, self, std::max(before - kPrecedence, kLeast));
}

}  // namespace verbena::adapter
