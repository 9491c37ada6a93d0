// The program's environment, as far as it is meant for the rdma libraries. They read it when they are first
// used, which for connections of programs that fork is late: by then a server may have thrown it away
// (nginx's workers have), and would find itself in another fabric than its clients.
#pragma once

namespace verbena::rspreload {

// Before the first use of an rdma library in a process: what is missing of that with which the program began.
void restore_settings();

}  // namespace verbena::rspreload
