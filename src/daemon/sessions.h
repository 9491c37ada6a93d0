// The connected programs: accepts them, reads their requests, notices their end. One session is one process;
// a forked child makes its own.
//
// A process is gone when its socket is at its end or its pidfd says so: a forked child may keep the socket
// open, so either alone is not enough.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/capture.h"
#include "base/descriptor.h"
#include "daemon/files.h"
#include "daemon/loop.h"
#include "daemon/requests.h"
#include "faults/board.h"
#include "host/unix_socket.h"

namespace verbena::daemon {

struct Session {
    SessionNumber number = 0;
    pid_t pid = 0;  // 0: in another pid namespace
    uid_t user = 0;
    bool low_ports = false;
    Descriptor socket;
    Descriptor process;   // pidfd
    Descriptor lifeline;  // the write end that the process never sees; it ends when the session does, and a
                          // byte in it says that the device table has changed
    Descriptor tables;    // the process's, to be read; kept until it has ended, for its counters
    std::vector<std::uint32_t> queues;
    std::shared_ptr<faults::Board> plan;  // of faults; null: none
    adapter::AskedCapture capture;        // the file that its packets go to (VERBENA_CAPTURE), if any
    bool knows_captures = false;          // has asked since the last one began or ended
};

class Sessions {
   public:
    // What the daemon does with them.
    struct Handler {
        virtual ~Handler() = default;
        // Answers a well-formed request: 0 or an errno with a reason; `reply` has the command's size.
        // Descriptors put into `to_send` go along and stay the callee's.
        virtual int request(Session& session, const Request& request, host::Received& received,
                            std::span<std::uint8_t> reply, std::vector<int>& to_send) = 0;
        // The last thing that is heard of it; once more if it throws.
        virtual void ended(Session& session) = 0;
    };
    // `all_users`: a service; otherwise only processes of the daemon's own user are let in.
    Sessions(Loop& loop, Handler& handler, bool all_users)
        : loop_(loop), handler_(handler), all_users_(all_users) {}
    ~Sessions();

    // Starts accepting; takes the listening socket over. 0 or an errno.
    int serve(Descriptor listener);
    // Refuses newcomers from now on (the name is free again).
    void stop_listening();
    // Lets those in that have connected already. Returns whether there were any.
    bool accept_waiting();

    // To every program: the device table has changed, or what it is to show or suffer.
    void tell_news();

    // Takes what a program has sent until now, before something of it ends.
    void hear_out(SessionNumber number);

    std::size_t count() const { return sessions_.size(); }
    // The one with the next higher number; nullptr if there is none.
    const Session* next(SessionNumber after) const {
        const auto found = sessions_.upper_bound(after);
        return found == sessions_.end() ? nullptr : &found->second;
    }
    template <class Each>
    void for_each(Each each) {
        for (auto& [number, session] : sessions_) each(session);
    }
    const Session* find(SessionNumber number) const {
        const auto found = sessions_.find(number);
        return found == sessions_.end() ? nullptr : &found->second;
    }

   private:
    bool accept_one();
    void refuse_newcomer(int error);
    bool take_datagrams(SessionNumber number);
    bool take_datagram(Session& session, std::span<const std::uint8_t> rest, host::Received& received);
    void refuse(Session& session, const host::RequestHeader& request, int error, std::string_view reason);
    void answer(Session& session, const Request& request, host::Received& received);
    void end(SessionNumber number, const char* why);

    Loop& loop_;
    Handler& handler_;
    const bool all_users_;
    Descriptor listener_;
    Descriptor reserve_;  // given up to get rid of a connection when descriptors run out
    SessionNumber next_number_ = 1;
    std::map<SessionNumber, Session> sessions_;
    host::Datagrams inbox_{kMaxRequestSize};  // of whom the loop calls for
};

}  // namespace verbena::daemon
