// Starting the daemon: finds the verbenad that belongs to these libraries, runs it detached from the program,
// waits until it serves.
//
// The daemon becomes no child of the program: two clone() calls without an exit signal, so the program gets
// no SIGCHLD and its wait() sees nothing. It inherits no descriptor, no terminal, no working directory and no
// signal mask.
#pragma once

#include <string>

namespace verbena::host {

// VERBENA_DAEMON, or beside the library: ../bin/verbenad, ../../bin/verbenad, ../libexec/verbena/verbenad,
// verbenad. 0, or ENOENT with a reason that names the places.
int find_daemon(std::string& path);

// 0 when a daemon for this user and fabric serves (this one or another that was faster), else an errno with a
// reason. Call it while holding the start lock.
int launch_daemon(const std::string& fabric);

// `path` as it is seen from elsewhere.
std::string absolute_path(const std::string& path);

}  // namespace verbena::host
