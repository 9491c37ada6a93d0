// How two processes of one host get to know each other: greetings to the inboxes of their blocks
// (named_inbox.h).
//
//     question   "I own block `from` and want to reach `to`; write to me here" (the descriptors)
//     answer     the same from the other side, with the question's cookie
//     known      the asker is known already under another block; no descriptors
//     refusal    no memory is shared with you; or: your ring was another's, ask with a new one; or: I do not
//                know what this answers
//
// A greeting carries what lets its receiver write to its sender: it leaves for a process of our own user
// only, and comes from one. Who that is the kernel says. A process that we cannot see (pid 0) is a stranger,
// and so is one of another PID namespace, though we may see it: it does not see us.
//
// Thread safety: no state.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "link/named_inbox.h"

namespace verbena::link {

// Closes its descriptors that nobody took.
struct Greeting {
    enum class Kind : std::uint32_t { question = 1, answer, known, refusal };
    struct Text {
        std::uint32_t mark = 0;
        Kind kind = Kind::question;
        std::uint32_t from = 0, to = 0;                // blocks
        std::uint64_t cookie = 0;                      // the asker's; an answer repeats it
        std::uint64_t segment_address = 0, nonce = 0;  // where its tables lie, and their name
        std::uint64_t pid_namespace = 0;               // the sender's; send_greeting() fills it in
    } text;
    // A ring to write to, an eventfd that wakes its reader, the exported tables, and a sign of life
    // (life_sign.h), which may be missing; or none.
    using Descriptors = std::array<int, 4>;
    static constexpr Descriptors kNone{-1, -1, -1, -1};
    Descriptors fds = kNone;
    // Of a greeting received.
    pid_t pid = 0;
    bool stranger = true;

    Greeting() = default;
    ~Greeting();
    Greeting(const Greeting&) = delete;
    Greeting& operator=(const Greeting&) = delete;
    bool has_descriptors() const { return fds[2] >= 0; }
    int take(unsigned index);
};

// That of a block of ours; nullptr with errno.
std::unique_ptr<NamedInbox> open_inbox(const std::string& fabric, std::uint32_t block);

// To the owner of block text.to. 0 or errno: ECONNREFUSED if nobody is there, or another user, EAGAIN if too
// many wait there. The descriptors stay the caller's.
int send_greeting(const std::string& fabric, const Greeting::Text& text, const Greeting::Descriptors& fds);

// Whether the owner of a block still has his.
bool inbox_exists(const std::string& fabric, std::uint32_t block);

enum class Received : std::uint8_t { nothing, nonsense, greeting };
Received receive_greeting(NamedInbox& inbox, Greeting& greeting);

}  // namespace verbena::link
