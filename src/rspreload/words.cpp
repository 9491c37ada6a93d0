#include "rspreload/words.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "rspreload/real.h"

namespace verbena::rspreload {
namespace {

constexpr std::array<std::uint8_t, 8> kCome{0xf6, 'v', 'b', 'c', 'o', 'm', 'e', 0x9c};

// A connection hardly tears a word to pieces, but it may.
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

}  // namespace

Word come_with(std::uint64_t number) {
    Word word;
    std::memcpy(word.data(), kCome.data(), kCome.size());
    std::memcpy(word.data() + kCome.size(), &number, sizeof number);
    return word;
}

Heard hear(int fd) {
    pollfd look{fd, POLLIN, 0};
    if (real().poll(&look, 1, 0) <= 0) return {};
    // An error is the program's to take: a look at the data would take it.
    if (!(look.revents & POLLIN) || look.revents & POLLERR) return {Said::other, {}};
    Word bytes;
    const ssize_t size = real().recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (size <= 0) return {Said::other, {}};
    return meaning_of({bytes.data(), static_cast<std::size_t>(size)});
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
