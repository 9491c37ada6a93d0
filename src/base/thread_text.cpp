#include "base/thread_text.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace verbena {
namespace {

struct Texts {
    char text[kThreadTexts][kThreadText];
};

// The number of the key that frees a thread's texts at its end. No lock, which a child made by fork(2) might
// find taken.
enum : int { kNone = -1, kUnloaded = -2 };
constinit std::atomic<int> key{kNone};
constinit thread_local Texts* own = nullptr;
constinit Texts everybodys{};

void thread_ends(void* texts) {
    own = nullptr;
    std::free(texts);
}

// Negative: there is none.
int the_key() {
    int known = key.load(std::memory_order_acquire);
    pthread_key_t fresh;
    if (known != kNone || pthread_key_create(&fresh, thread_ends) != 0) return known;
    if (key.compare_exchange_strong(known, static_cast<int>(fresh))) return static_cast<int>(fresh);
    pthread_key_delete(fresh);
    return known;
}

Texts* make() {
    const int number = the_key();
    if (number < 0) return &everybodys;
    auto* texts = static_cast<Texts*>(std::calloc(1, sizeof(Texts)));
    if (texts && pthread_setspecific(static_cast<pthread_key_t>(number), texts) == 0) return texts;
    std::free(texts);
    return &everybodys;
}

// Before the library is unloaded, and thread_ends() with it.
[[gnu::destructor]] void forget_key() {
    const int number = key.exchange(kUnloaded);
    if (number < 0) return;
    std::free(pthread_getspecific(static_cast<pthread_key_t>(number)));
    own = nullptr;
    pthread_key_delete(static_cast<pthread_key_t>(number));
}

}  // namespace

char* thread_text(ThreadText which) {
    if (!own) {
        const int before = errno;
        own = make();
        errno = before;
    }
    return own->text[static_cast<unsigned>(which)];
}

const char* thread_text_so_far(ThreadText which) {
    return own ? own->text[static_cast<unsigned>(which)] : "";
}

}  // namespace verbena
