#include "daemon/captures.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "adapter/capture.h"
#include "base/reason.h"
#include "daemon/proc.h"

namespace verbena::daemon {

void Captures::name_file(Session& session, const std::string& path) {
    session.capture = {path, 0666 & ~umask_of(session.pid)};
    write_named();
}

void Captures::ended(Session& session) {
    if (!session.capture.path.empty()) {
        session.capture.path.clear();
        write_named();
    }
    if (std::erase_if(shared_, [&](const Shared& each) { return each.session == session.number; })) share();
}

// Those that somebody names now, each once.
void Captures::write_named() {
    std::vector<adapter::AskedCapture> files;
    sessions_.for_each([&](const Session& each) {
        const auto& path = each.capture.path;
        if (!path.empty() && std::ranges::find(files, path, &adapter::AskedCapture::path) == files.end())
            files.push_back(each.capture);
    });
    adapter::capture_for_others(files, "verbenad");
}

int Captures::ask(Session& asking, std::uint32_t index, host::Received& received, host::CaptureReply& out,
                  std::vector<int>& to_send) {
    if (Descriptor given(received.take(0)); given) {
        if (shared_.size() >= host::kMaxCaptures)
            return fail(EBUSY, "%u captures are running", host::kMaxCaptures);
        if (asking.user != geteuid())
            return fail(EPERM, "this verbenad is user %u's, and so are the packets of its connection manager",
                        geteuid());
        shared_.push_back({std::move(given), asking.number, asking.user});
        share();
    }
    const Shared* asked = nullptr;
    for (const Shared& each : shared_)
        if (each.user == asking.user && out.count++ == index) asked = &each;
    if (index + 1 >= out.count) asking.knows_captures = true;
    sessions_.for_each([&](const Session& each) {
        if (out.count && each.tables && each.user == asking.user && !each.knows_captures) out.waiting++;
    });
    if (asked) to_send.push_back(asked->file.get());
    return 0;
}

// With those that there are now.
void Captures::share() {
    std::vector<int> files;
    for (const Shared& each : shared_) files.push_back(fcntl(each.file.get(), F_DUPFD_CLOEXEC, 3));
    adapter::share_captures(files, is_local_);
    sessions_.for_each([](Session& each) { each.knows_captures = false; });
    sessions_.tell_news();
}

}  // namespace verbena::daemon
