// Who wants the packets of the connection manager, which are this process's: programs that name a file for
// their own packets (VERBENA_CAPTURE), of which there is one of ours then beside theirs; and the tools that
// watch all programs of the user (verbena capture, trace, record) with a file that all append to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/sessions.h"

namespace verbena::daemon {

class Captures {
   public:
    // `is_local`: whether that address is of this host.
    Captures(Sessions& sessions, std::function<bool(const Gid&)> is_local)
        : sessions_(sessions), is_local_(std::move(is_local)) {}

    // The session's packets go to that file, and so do ours until all who named it have gone.
    void name_file(Session& session, const std::string& path);
    // A tool's file, if one came along; the answer is the one of that index, of those of the user's. 0 or an
    // errno with a reason.
    int ask(Session& asking, std::uint32_t index, host::Received& received, host::CaptureReply& out,
            std::vector<int>& to_send);
    // Of a session that is none of `sessions` any more.
    void ended(Session& session);

   private:
    void write_named();
    void share();

    struct Shared {
        Descriptor file;
        SessionNumber session = 0;  // who asked for it
        uid_t user = 0;
    };
    Sessions& sessions_;
    const std::function<bool(const Gid&)> is_local_;
    std::vector<Shared> shared_;
};

}  // namespace verbena::daemon
