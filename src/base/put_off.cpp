#include "base/put_off.h"

#include <algorithm>

namespace verbena {

VERBENA_QUICK_THREAD_LOCAL constinit PutOff::OfThread PutOff::mine;

PutOff::Added PutOff::add(Wakening& wakening) noexcept {
    if (!mine.puts_off) return Added::now;
    const auto end = mine.wakenings.begin() + mine.count;
    if (std::find(mine.wakenings.begin(), end, &wakening) != end) return Added::again;
    if (mine.count == kMost) return Added::now;
    mine.wakenings[mine.count++] = &wakening;
    return Added::first;
}

void PutOff::make_good() {
    mine.woke = true;
    while (mine.count > 0) mine.wakenings[--mine.count]->wake();
}

}  // namespace verbena
