// For the unit tests of this room: a daemon in the same process. It answers host::call from a script of
// functions and writes events into the channels' sockets, so that every order of events can be made on
// purpose.
//
// Thread safety: all calls; `answers` are set before other threads call.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "base/shared_page.h"
#include "host/backlog.h"
#include "host/client.h"
#include "host/program_page.h"

namespace verbena::rdmacm {

class FakeDaemon {
   public:
    FakeDaemon();
    ~FakeDaemon();

    // Answers instead of the default (0, and a reply of zeros or the next free number).
    std::map<host::Command, std::function<int(const void* request, void* reply)>> answers;
    unsigned count(host::Command command) const;
    std::size_t calls() const;
    template <class Request>
    Request last(host::Command command) const {
        Request out{};
        std::lock_guard lock(mutex_);
        for (const Seen& one : seen_)
            if (one.command == command) std::memcpy(static_cast<void*>(&out), one.request.data(), sizeof out);
        return out;
    }

    void deliver(cm::FileNumber file, const cm::Event& event);
    void die();  // closes every file, as the kernel does when a daemon ends; all calls answer EIO from now on

    int call(host::Command command, std::span<const std::uint8_t> request, std::span<std::uint8_t> reply,
             int send_fd, int* received_fd);
    void note(host::Command command, std::span<const std::uint8_t> request);

    bool is_dead() const { return dead_; }

    std::atomic<bool> has_put_off = false;  // since something was told or asked

    // The page of the last listener that brought one: what it has read, and whether it is to tell.
    host::Backlog& backlog() const { return backlog_.as<host::Backlog>(); }

    // The page of the program, once it has shared one.
    host::ProgramPage& page() const { return page_.as<host::ProgramPage>(); }
    bool has_page() const { return bool(page_); }

    static host::DeviceTable& devices();  // of all fake daemons

    std::uint32_t generation;
    cm::FileNumber last_file = 0;
    cm::IdNumber last_id = 0;
    bool told_in_order = true;  // of the numbers of ids that it did not give out just then

   private:
    struct Seen {
        host::Command command;
        std::vector<std::uint8_t> request;
    };
    int answer(host::Command command, const void* request, void* reply, int send_fd);  // locked
    mutable std::mutex mutex_;
    std::vector<Seen> seen_;
    SharedPage backlog_, page_;
    std::map<cm::FileNumber, int> files_;
    std::map<cm::IdNumber, std::uint64_t> delivered_;
    cm::IdNumber next_id_ = 1, last_told_ = 0;
    std::atomic<bool> dead_ = false;
};

}  // namespace verbena::rdmacm
