#include "base/thread_text.h"

#include <cerrno>
#include <cstdlib>

#include "base/thread_end.h"

namespace verbena {
namespace {

struct Texts {
    char text[kThreadTexts][kThreadText];
};

constinit thread_local Texts* own = nullptr;
constinit Texts everybodys{};

Texts* make() {
    constinit static ThreadEnd thread_end{[](void* texts) {
        own = nullptr;
        std::free(texts);
    }};
    auto* texts = static_cast<Texts*>(std::calloc(1, sizeof(Texts)));
    if (texts && thread_end.await(texts)) return texts;
    std::free(texts);
    return &everybodys;
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
