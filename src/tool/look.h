// What the commands that look at a fabric share: taking a snapshot, and writing numbers for people.
#pragma once

#include <cstdint>
#include <string>

#include "observe/snapshot.h"

namespace verbena::tool {

// One conversation with the daemon of this user and fabric, which is started if there is none.
class Look {
   public:
    ~Look();
    Look() = default;
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;

    // 0 or an errno with a reason. May be called again and again.
    int take(observe::Depth depth, observe::Snapshot& out);
    // After take(). 0 or an errno with a reason.
    template <class Request, class Reply>
    int ask(host::Command command, const Request& request, Reply& reply, int send_fd, int* descriptor) {
        return host::ask(connection_, command, request, reply, send_fd, descriptor);
    }
    pid_t daemon() const { return connection_.daemon; }  // 0: in another namespace of processes
    const host::FabricInfo& fabric() const { return connection_.hello.fabric; }

   private:
    bool connected_ = false;
    host::Connection connection_;
};

// The same for a command that looks once; false when the reason was told.
bool look_once(observe::Depth depth, observe::Snapshot& out);

// On stderr; `pid`: of which one, or empty.
void tell_that_there_is_no_program(const std::string& pid);

std::string user_name(std::uint32_t user);  // or the number

// With a decimal prefix: "1.23M"; below 10000 as it is.
std::string short_number(double value);

// The name of a device; "-" if there is none of that index.
std::string device_name(const observe::Snapshot& snapshot, std::uint32_t index);

}  // namespace verbena::tool
