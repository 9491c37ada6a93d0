// The names by which the daemons of this network namespace are found: abstract unix sockets, which live
// exactly as long as the process that bound them and leave no file behind.
//
//     @verbena/1000/default         the daemon of user 1000
//     @verbena/1000/ci-7            of user 1000's fabric "ci-7" (VERBENA_FABRIC)
//     @verbena/1000/default/start   held by whoever is starting it
//     @verbena/service              a daemon that root runs for all users
//     @verbena/port-4791            the daemon that owns the wire, whoever's; asked to yield
//
// In a user namespace other than the machine's own (rootless containers) the user's number gets the
// namespace's behind it: there, user 0 is not root.
//
// Anybody can bind any of these names, so whoever connects looks at the peer's user (unix_socket.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::host {

inline constexpr std::size_t kMaxFabricName = 31;
inline constexpr std::string_view kDefaultFabric = "default";

// 1 to 31 letters, digits, '.', '_' or '-'.
bool is_fabric_name(std::string_view name);

// VERBENA_FABRIC, or "default". 0, or EINVAL with a reason if it is no name for a fabric.
int fabric_of_environment(std::string& name);

// Not the machine's own: its programs and those outside do not find each other's daemon.
bool in_user_namespace();

std::string daemon_address(uid_t user, std::string_view fabric);
std::string start_lock_address(uid_t user, std::string_view fabric);
std::string service_address();
std::string port_address(std::uint16_t port);

}  // namespace verbena::host
