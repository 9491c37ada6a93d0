#include "rspreload/words.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "rspreload/real.h"

namespace verbena::rspreload {
namespace {

constexpr std::array<std::uint8_t, 8> kCome{0xf6, 'v', 'b', 'c', 'o', 'm', 'e', 0x9c};

// A connection hardly tears a word to pieces, but it may: the rest is not far then.
constexpr int kRestMs = 100;

bool may_become(std::span<const std::uint8_t> begin, std::span<const std::uint8_t> word) {
    return std::equal(begin.begin(),
                      begin.begin() + static_cast<std::ptrdiff_t>(std::min(begin.size(), word.size())),
                      word.begin());
}

Heard meaning_of(std::span<const std::uint8_t> bytes) {
    constexpr std::array<std::uint8_t, sizeof kOldCome> kZeros{};
    if (std::ranges::equal(bytes, kZeros)) return {Said::old_come, {}};
    const bool come = may_become(bytes, kCome), stay = may_become(bytes, kStay);
    if (!come && !stay) return {Said::other, {}};
    Heard heard;
    if (bytes.size() < heard.word.size()) return heard;
    std::copy_n(bytes.begin(), heard.word.size(), heard.word.begin());
    heard.what = come ? Said::come : Said::stay;
    return heard;
}

// The stream's first bytes. A program may ask to be woken by many at once (SO_RCVLOWAT), so poll() does not
// say whether there are any. An error is the program's to take: a look at the data would take it.
ssize_t peek(int fd, Word& bytes) {
    pollfd look{fd, 0, 0};
    if (real().poll(&look, 1, 0) < 0) return -1;
    if (look.revents & (POLLERR | POLLNVAL)) {
        errno = EIO;
        return -1;
    }
    return real().recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
}

bool is_nothing(ssize_t size) { return size < 0 && (errno == EAGAIN || errno == EINTR); }

bool has_ended(int fd) {
    pollfd look{fd, POLLRDHUP, 0};
    return real().poll(&look, 1, 0) != 0;
}

}  // namespace

Word come_with(std::uint64_t number) {
    Word word;
    std::memcpy(word.data(), kCome.data(), kCome.size());
    std::memcpy(word.data() + kCome.size(), &number, sizeof number);
    return word;
}

bool is_silent(int fd) {
    Word bytes;
    return is_nothing(peek(fd, bytes));
}

// What stays the beginning of a word is data: the peer waits for an answer to them.
Heard hear(int fd) {
    constexpr timespec kMoment{0, 1'000'000};
    for (int i = 0;; i++) {
        Word bytes;
        const ssize_t size = peek(fd, bytes);
        if (is_nothing(size)) return {};
        if (size <= 0) return {Said::other, {}};
        const Heard heard = meaning_of({bytes.data(), static_cast<std::size_t>(size)});
        if (heard.what != Said::nothing) return heard;
        if (i == kRestMs || has_ended(fd)) return {Said::other, {}};
        nanosleep(&kMoment, nullptr);
    }
}

void skip(int fd, std::size_t size) {
    Word ignored;
    [[maybe_unused]] const auto taken =
        real().recv(fd, ignored.data(), std::min(size, ignored.size()), MSG_DONTWAIT);
}

bool say(int fd, const void* word, std::size_t size) {
    return real().send(fd, word, size, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
}

}  // namespace verbena::rspreload
