// Where a plan and its counters lie: one page of shared memory per plan, mapped by every program that the
// plan is for, by the daemon (for the CM messages) and by the tool that shows or adds to it. So "the third
// SEND" is the third of all these programs together, and a counter is read while they run.
//
// The tool writes rules, whoever meets one of them counts. A rule is never taken off the board: one that was
// cleared keeps its counters.
//
// Thread safety: all calls, between processes, too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "faults/rule.h"

namespace verbena::faults {

inline constexpr unsigned kMaxRules = 64;

class Board {
   public:
    // A new one, readable and writable by its user: a file of that name, or with an empty name one in memory.
    // nullptr with errno and a reason.
    static std::unique_ptr<Board> create(const std::string& path);
    // One that exists; it must be this user's. nullptr with errno and a reason.
    static std::unique_ptr<Board> open(const std::string& path);
    // The same; `fd` stays the caller's.
    static std::unique_ptr<Board> from(int fd);
    ~Board();
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    int fd() const { return fd_; }
    // Whether both are the same plan.
    bool is_same_as(const Board& other) const;

    // False: the board is full.
    bool add(const Rule& rule, std::string_view text);
    // Of all rules: nothing happens any more. What is held back leaves.
    void clear();

    // Rules are numbered in the order in which they were added, from 0.
    unsigned count() const;
    bool active(unsigned index) const;
    const Rule& rule(unsigned index) const { return slots()[index].rule; }
    const char* text(unsigned index) const { return slots()[index].text.data(); }
    std::uint64_t seen(unsigned index) const { return slots()[index].seen.load(std::memory_order_relaxed); }
    std::uint64_t fired(unsigned index) const { return slots()[index].fired.load(std::memory_order_relaxed); }

    // Something that the rule is about happens: whether the rule fires. Counts.
    bool meets(unsigned index);

   private:
    static constexpr std::size_t kMaxText = 200;
    enum State : std::uint32_t { empty, active_rule, cleared };
    struct Slot {
        std::atomic<std::uint32_t> state;
        Rule rule;
        std::array<char, kMaxText> text;
        std::atomic<std::uint64_t> seen, fired;
    };
    struct Content {
        std::uint64_t magic;
        std::atomic<std::uint32_t> reserved;  // slots that somebody writes or has written
        std::array<Slot, kMaxRules> slots;
    };

    Board(int fd, Content* content) : fd_(fd), content_(content) {}
    static std::unique_ptr<Board> map(int fd, bool fresh);
    std::array<Slot, kMaxRules>& slots() { return content_->slots; }
    const std::array<Slot, kMaxRules>& slots() const { return content_->slots; }

    const int fd_;
    Content* const content_;
};

// What decides where a chance decides: the same for the same seed and count, on every machine.
bool chance_hits(const Rule& rule, unsigned index, std::uint64_t count);

}  // namespace verbena::faults
