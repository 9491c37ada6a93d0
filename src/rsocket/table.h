// The sockets of this process by their descriptors. A forked child begins with none: queue pairs and buffers
// are the parent's.
//
// Thread safety: all calls.
#pragma once

#include <memory>
#include <vector>

#include "rsocket/socket.h"

namespace verbena::rsocket {

// nullptr with errno EBADF and a reason if the descriptor is none of ours.
std::shared_ptr<Socket> socket_of(int fd);
// The same, quietly.
std::shared_ptr<Socket> find_socket(int fd);

// For one with this descriptor. Throws std::bad_alloc.
void make_room_for(int fd);
void insert_socket(std::shared_ptr<Socket> socket);  // there is room for it
std::shared_ptr<Socket> take_socket(int fd);
std::vector<std::shared_ptr<Socket>> all_sockets();

}  // namespace verbena::rsocket
