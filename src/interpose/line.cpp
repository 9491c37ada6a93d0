#include "interpose/line.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interpose/fork_lock.h"

namespace verbena::interpose {
namespace {

constexpr std::size_t kFirstCapacity = 2048;
constexpr std::size_t kKeptCapacity = 65536;  // larger ones are not kept in the pool

constinit ForkLock pool_lock;
Line::Buffer* pool = nullptr;

// How many bytes of a character of UTF-8 stand here; 0 if what stands here is none.
std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const std::size_t length = byte(0) < 0x80                       ? 1
                               : byte(0) >= 0xc2 && byte(0) < 0xe0  ? 2
                               : (byte(0) & 0xf0) == 0xe0           ? 3
                               : byte(0) >= 0xf0 && byte(0) <= 0xf4 ? 4
                                                                    : 0;
    if (length == 0 || length > text.size()) return 0;
    for (std::size_t at = 1; at < length; at++)
        if ((byte(at) & 0xc0) != 0x80) return 0;
    if (length == 3 && ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) >= 0xa0)))
        return 0;
    if (length == 4 && ((byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90)))
        return 0;
    return length;
}

}  // namespace

void Line::take() {
    {
        Locked locked(pool_lock);
        buffer_ = pool;
        if (buffer_) pool = buffer_->next;
    }
    if (!buffer_) {
        buffer_ = static_cast<Buffer*>(std::malloc(sizeof(Buffer)));
        if (!buffer_) std::abort();
        *buffer_ = {static_cast<char*>(std::malloc(kFirstCapacity)), 0, kFirstCapacity, nullptr};
        if (!buffer_->data) std::abort();
    }
    buffer_->size = 0;
}

void Line::give_back() {
    if (!buffer_) return;
    if (buffer_->capacity > kKeptCapacity) {
        std::free(buffer_->data);
        std::free(buffer_);
    } else {
        Locked locked(pool_lock);
        buffer_->next = pool;
        pool = buffer_;
    }
    buffer_ = nullptr;
}

char* Line::room(std::size_t more) {
    Buffer& b = *buffer_;
    if (b.size + more > b.capacity) {
        const std::size_t capacity = (b.size + more) * 2;
        char* larger = static_cast<char*>(std::realloc(b.data, capacity));
        if (!larger) std::abort();
        b.data = larger;
        b.capacity = capacity;
    }
    return b.data + b.size;
}

void Line::raw(std::string_view piece) {
    std::memcpy(room(piece.size()), piece.data(), piece.size());
    buffer_->size += piece.size();
}

void Line::format(const char* format, ...) {
    char piece[256];
    std::va_list arguments;
    va_start(arguments, format);
    const int size = std::vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (size > 0) raw({piece, std::min(static_cast<std::size_t>(size), sizeof piece - 1)});
}

void Line::comma() {
    const std::string_view before = view();
    if (!before.empty() && before.back() != '{' && before.back() != '[' && before.back() != ':') raw(",");
}

Line& Line::key(const char* name) {
    text(name);
    raw(":");
    return *this;
}

void Line::open(char bracket) {
    comma();
    raw({&bracket, 1});
}

void Line::close(char bracket) { raw({&bracket, 1}); }

void Line::begin_text() {
    comma();
    raw("\"");
}

void Line::end_text() { raw("\""); }

void Line::text(std::string_view value) {
    begin_text();
    while (!value.empty()) {
        const std::size_t length = utf8_length(value);
        const char c = value[0];
        if (c == '"' || c == '\\')
            format("\\%c", c);
        else if (length == 1 && static_cast<unsigned char>(c) < 0x20)
            format("\\u%04x", static_cast<unsigned>(c));
        else
            raw(length ? value.substr(0, length) : "\xef\xbf\xbd");
        value.remove_prefix(length ? length : 1);
    }
    end_text();
}

void Line::number(std::int64_t value) {
    comma();
    format("%" PRId64, value);
}

void Line::unsigned_number(std::uint64_t value) {
    comma();
    format("%" PRIu64, value);
}

void Line::hex(std::uint64_t value) {
    comma();
    format("\"0x%" PRIx64 "\"", value);
}

void Line::null() {
    comma();
    raw("null");
}

}  // namespace verbena::interpose
