// How the accepting side of a connection knows that the peer waits for a word (words.h), before it has said
// one: to others it would be garbage in the stream. The connecting side does the handshake of TCP with a type
// of service that nobody else uses, one of those for experiments; the kernel keeps that of the handshake's
// last packet. A network that does not leave it alone costs the rsocket, and nothing else.
#pragma once

namespace verbena::rspreload {

struct Entry;

// Before connect(), and when it is known what becomes of the connection.
void set_mark(int fd, Entry& entry);
void clear_mark(int fd, Entry& entry);
// Of a connection that was accepted.
bool is_marked(int fd, int domain);
// Of one that another program made: the mark is still set. The entry clears it.
bool has_mark(int fd, Entry& entry);

}  // namespace verbena::rspreload
