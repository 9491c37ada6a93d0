// Does to the connection manager's messages what rules with cm= say. They are the daemon's, so all plans of
// its programs count, and a rule is about the messages of every program of the fabric.
//
// No I/O, no clock: what leaves and arrives goes through the two functions, time is an argument. Not
// thread-safe.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "faults/board.h"
#include "wire/mad.h"
#include "wire/path.h"

namespace verbena::faults {

using MadBytes = std::span<const std::uint8_t, wire::kMadLength>;

// What becomes of a message on its way out; `note` for captures, null if no rule is at work.
struct Mark {
    bool lost = false, damaged = false;
    const char* note = nullptr;
};

class CmFaults {
   public:
    struct Setup {
        std::function<void(const wire::Path&, std::uint32_t destination_qp, MadBytes, const Mark&)> send;
        std::function<void(const wire::Path&, std::uint32_t source_qp, MadBytes, Time now)> deliver;
    };
    explicit CmFaults(Setup setup) : setup_(std::move(setup)) {}

    // The plan in that file, for as long as somebody else keeps it; the same object for the same file.
    // nullptr with errno and a reason.
    std::shared_ptr<Board> board_of(int fd);
    std::shared_ptr<Board> board_of(const std::string& path);

    // One of ours wants to leave. Never delivers anything at once.
    void send(const wire::Path& path, std::uint32_t destination_qp, MadBytes mad, Time now);
    // One has arrived.
    void arrived(const wire::Path& sender_view, std::uint32_t source_qp, MadBytes mad, Time now);

    Time next_deadline() const;
    void advance(Time now);

   private:
    struct Fired {
        std::shared_ptr<Board> board;
        unsigned index = 0;
        explicit operator bool() const { return board != nullptr; }
        const Rule& rule() const { return board->rule(index); }
        const char* note() const { return board->text(index); }
    };
    struct Held {
        bool leaves = false;
        Time due = 0;
        wire::Path path;
        std::uint32_t qp = 0;
        std::array<std::uint8_t, wire::kMadLength> mad{};
        std::shared_ptr<Board> board;  // has the note
        const char* note = nullptr;
    };

    std::shared_ptr<Board> adopt(std::unique_ptr<Board> board);
    Fired decide(Direction direction, MadBytes mad);
    void hold(bool leaves, Time due, const wire::Path& path, std::uint32_t qp, MadBytes mad,
              const Fired& fired);

    const Setup setup_;
    std::vector<std::weak_ptr<Board>> boards_;
    std::list<Held> held_;
};

// The REJ that answers a REQ (IBA 12.6.7); all zeros if it is none.
std::array<std::uint8_t, wire::kMadLength> reject_of(MadBytes req, std::int32_t reason);

}  // namespace verbena::faults
