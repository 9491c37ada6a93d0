// fork() (ibv_fork_init(3)): registered memory is ordinary memory, so nothing has to be kept from the child.
// What a child may not do is use the parent's objects; process.h says how that is caught.

#include <infiniband/verbs.h>

#include "verbs/abi/public.h"

extern "C" {

int ibv_fork_init() { return 0; }

enum ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

int ibv_dontfork_range(void*, size_t) { return 0; }

int ibv_dofork_range(void*, size_t) { return 0; }

}  // extern "C"
