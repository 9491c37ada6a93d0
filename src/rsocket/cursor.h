// A position in a program's array of buffers.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>
#include <span>

namespace verbena::rsocket {

class Cursor {
   public:
    explicit Cursor(std::span<const iovec> pieces) : pieces_(pieces) {
        for (const iovec& piece : pieces) left_ += piece.iov_len;
    }
    std::size_t left() const { return left_; }

    void copy_out(void* to, std::size_t length) {
        walk(length, [&](char* from, std::size_t size) {
            to = static_cast<char*>(std::memcpy(to, from, size)) + size;
        });
    }
    void copy_in(const void* from, std::size_t length) {
        walk(length, [&](char* to, std::size_t size) {
            std::memcpy(to, from, size);
            from = static_cast<const char*>(from) + size;
        });
    }
    void skip(std::size_t length) {
        walk(length, [](char*, std::size_t) {});
    }

   private:
    template <class Visit>
    void walk(std::size_t length, Visit visit) {
        left_ -= length;
        while (length > 0) {
            const iovec& piece = pieces_.front();
            const std::size_t size = std::min(length, piece.iov_len - offset_);
            if (size > 0) visit(static_cast<char*>(piece.iov_base) + offset_, size);
            offset_ += size;
            length -= size;
            if (offset_ == piece.iov_len) {
                pieces_ = pieces_.subspan(1);
                offset_ = 0;
            }
        }
    }

    std::span<const iovec> pieces_;
    std::size_t offset_ = 0;
    std::size_t left_ = 0;
};

}  // namespace verbena::rsocket
