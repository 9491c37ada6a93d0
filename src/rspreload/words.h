// What the two ends of a connection that may become a rsocket say to each other on the kernel's connection,
// before anything of the program's.
//
// rdma-core's library has one word, four zero bytes, by which the accepting side says that it listens. It
// cannot be taken back, and a program's data may begin in the same way. So peers of this library know each
// other by a mark (mark.h), and speak with longer words:
//
//     come (with a number)   the accepting side listens with a rsocket; who comes says the number there
//     stay                   it does not, or no more: what follows are the program's data
//
// The connecting side says nothing here. If it has given up waiting, the program's data are its answer, and
// the accepting side says no more: a word that is not read when the program closes would make the kernel drop
// what it has not sent yet. So after `come` there is `stay` for a side that is still silent; or the
// connection's end: the rsocket has taken over; or the program's data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::rspreload {

using Word = std::array<std::uint8_t, 16>;

Word come_with(std::uint64_t number);
inline constexpr Word kStay{0xf6, 'v',  'e',  'r',  'b',  'e',  'n',  'a',
                            0x9d, 0x41, 0xc2, 0x07, 0xee, 0x58, 0x83, 0xfa};
inline constexpr std::uint32_t kOldCome = 0;

enum class Said {
    nothing,  // so far
    come,
    old_come,  // rdma-core's, or data
    stay,
    other,  // the program's data, the stream's end or an error
};
struct Heard {
    Said what = Said::nothing;
    Word word{};
};

// What the stream begins with; it stays there. Does not wait, but a tenth of a second for the rest of a word.
Heard hear(int fd);
// Whether nothing has come so far: no byte, no end, and no error.
bool is_silent(int fd);
// Takes so many bytes of the stream.
void skip(int fd, std::size_t size);
// A word of one's own; false: the connection takes none.
bool say(int fd, const void* word, std::size_t size);
inline bool say(int fd, const Word& word) { return say(fd, word.data(), word.size()); }

}  // namespace verbena::rspreload
