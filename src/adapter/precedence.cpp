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
    if (errno != 0) return;
    for (int wish = std::max(before - kPrecedence, kLeast); wish < before; wish++)
        if (setpriority(PRIO_PROCESS, self, wish) == 0) return;  // else the limit may allow less
}

}  // namespace verbena::adapter
