// The commands that are about ids: checks that the caller owns what it names, and calls the connection
// manager.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "cm/manager.h"
#include "daemon/files.h"
#include "daemon/program_pages.h"
#include "daemon/requests.h"

namespace verbena::daemon {

struct Caller {
    SessionNumber session = 0;
    bool low_ports = false;  // may bind ports below 1024
};

class CmCommands {
   public:
    CmCommands(cm::Manager& manager, Files& files) : manager_(manager), files_(files), pages_(manager) {}

    // Fills the command's reply structure. 0 or an errno with a reason; EOPNOTSUPP for a command that is none
    // of the connection manager's.
    // `given` came along, if something did.
    int run(const Request& request, const Caller& caller, Descriptor given, std::span<std::uint8_t> reply,
            Time now);

    // A file is gone with all its ids.
    void close_file(cm::FileNumber file, Time now);
    // A program is gone; its files were closed.
    void ended(SessionNumber session);
    // Of ids that programs left without a word: before one of them could matter to anybody. (To its own
    // program it cannot before run().)
    void hear_departures(Time now);

   private:
    struct Reserve {
        cm::IdNumber next = 0, end = 0;
    };

    bool owns(const Caller& caller, cm::IdNumber id) const;
    bool owns_file(const Caller& caller, cm::FileNumber file) const;
    int create(const host::CreateIdRequest& body, const Caller& caller, std::span<std::uint8_t> reply);
    int run_on_id(const Request& request, cm::IdNumber id, const Caller& caller,
                  std::span<std::uint8_t> reply, Time now);
    int bind(const host::BindRequest& body, const Caller& caller, std::span<std::uint8_t> reply, Time now);
    int resolve_address(const host::ResolveAddressRequest& body, const Caller& caller, Time now);
    template <class Bind>
    int with_port(std::uint16_t port, Time now, Bind bind);
    int listen(const host::ListenRequest& body, const Descriptor& page, std::span<std::uint8_t> reply);
    int migrate(const host::MigrateRequest& body, const Caller& caller, std::span<std::uint8_t> reply);

    void departed(SessionNumber session, cm::IdNumber id, Time now);

    cm::Manager& manager_;
    Files& files_;
    ProgramPages pages_;
    std::map<SessionNumber, Reserve> reserves_;  // numbers for ids
};

}  // namespace verbena::daemon
