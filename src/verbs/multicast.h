// Queue pairs in multicast groups.
#pragma once

namespace verbena::verbs {

struct QueuePair;

// EBUSY with a reason while the queue pair is attached to a group.
int check_detached(QueuePair& qp);

// Ends all attachments of a queue pair that goes without being asked.
void detach_all(QueuePair& qp);

}  // namespace verbena::verbs
