// A line of the events file under construction: JSON, piece by piece, in memory that is taken from a pool.
//
// A Line has no destructor on purpose: lines are built around calls in which a thread may be cancelled, and a
// frame with clean-ups there would need an unwinder that the program may not have. Whoever made it calls
// give_back(); a thread that is cancelled in between leaks one buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena::interpose {

class Line {
   public:
    void take();       // begins an empty line
    void give_back();  // ends it

    // Inside of an object, each value follows a key(). Commas come by themselves.
    Line& key(const char* name);
    void open(char bracket);  // { or [
    void close(char bracket);
    void text(std::string_view value);  // a string; what is no UTF-8 becomes U+FFFD
    void number(std::int64_t value);
    void unsigned_number(std::uint64_t value);
    void hex(std::uint64_t value);  // a string "0x..."
    void null();
    // A string of pieces: begin_text(), raw() (which escapes nothing), end_text().
    void begin_text();
    void end_text();
    void raw(std::string_view piece);
    [[gnu::format(printf, 2, 3)]] void format(const char* format, ...);  // as raw()

    std::string_view view() const { return {buffer_->data, buffer_->size}; }
    char* data() { return buffer_->data; }
    std::size_t size() const { return buffer_->size; }
    void cut(std::size_t size) { buffer_->size = size; }  // to what it was
    bool taken() const { return buffer_ != nullptr; }

    struct Buffer {
        char* data;
        std::size_t size, capacity;
        Buffer* next;
    };

   private:
    void comma();
    char* room(std::size_t more);

    Buffer* buffer_ = nullptr;
};

}  // namespace verbena::interpose
