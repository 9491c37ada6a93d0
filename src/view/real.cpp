#include "view/real.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "view/counters.h"
#include "view/current.h"
#include "view/path.h"

namespace verbena::view {
namespace {

// Nothing that the view needs itself (a log, a daemon's file) may be looked for in the view.
thread_local bool looking = false;

const char* root() {
    if (looking) return nullptr;
    looking = true;
    const char* found = current_root();
    looking = false;
    return found;
}

// A counter's file is written anew when it is named.
void refresh_if_counter(const char* tree, const char* path) {
    if (looking || !is_counter(path)) return;
    looking = true;
    write_counters(tree, path);
    looking = false;
}

int absent() {
    errno = ENOSYS;
    return -1;
}

}  // namespace

void* next_definition(const char* name) {
    void* found = dlsym(RTLD_NEXT, name);
    return found ? found : reinterpret_cast<void*>(absent);
}

bool Seen::is_attribute() const {
    const char* name = moved() ? known_as(path_) : nullptr;
    return name && std::strncmp(name, "/sys/", 5) == 0;
}

void Seen::translate() {
    if (!is_shown(path_)) return;
    const int before = errno;
    const std::size_t size = std::strlen(path_);
    const char* tree = root();
    const std::size_t root_size = tree ? std::strlen(tree) : 0;
    if (tree && root_size + size < sizeof buffer_) {
        std::memcpy(buffer_, tree, root_size);
        std::memcpy(buffer_ + root_size, path_, size + 1);
        path_ = buffer_;
        refresh_if_counter(tree, path_);
    }
    errno = before;
}

}  // namespace verbena::view
