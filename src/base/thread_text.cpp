#include "base/thread_text.h"

#include <pthread.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>

namespace verbena {
namespace {

struct Texts {
    char text[4][kThreadText];
};

constinit thread_local Texts* own = nullptr;
constinit Texts everybodys{};
constinit std::mutex lock;
constinit bool has_key = false;
pthread_key_t key;

void thread_ends(void* texts) {
    own = nullptr;
    std::free(texts);
}

// Before the library is unloaded, with thread_ends().
[[gnu::destructor]] void forget_key() {
    if (has_key) pthread_key_delete(key);
}

Texts* make() {
    auto* texts = static_cast<Texts*>(std::calloc(1, sizeof(Texts)));
    if (!texts) return nullptr;
    std::lock_guard guard(lock);
    if (!has_key) has_key = pthread_key_create(&key, thread_ends) == 0;
    if (has_key && pthread_setspecific(key, texts) == 0) return texts;
    std::free(texts);
    return nullptr;
}

}  // namespace

char* thread_text(ThreadText which) {
    if (!own) {
        const int before = errno;
        own = make();
        errno = before;
    }
    return (own ? *own : everybodys).text[static_cast<unsigned>(which)];
}

const char* thread_text_so_far(ThreadText which) {
    return own ? own->text[static_cast<unsigned>(which)] : "";
}

}  // namespace verbena
