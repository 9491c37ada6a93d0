// What librdmacm needs of libibverbs beyond the public calls; exported under the private version node
// VERBENA_1.
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

extern "C" {

// The daemon's number of the device, cm::Route::device.
[[gnu::visibility("default")]] uint32_t verbena_device_index(struct ibv_device* device);

// The device of that number, whether or not the program is to see it in its list; NULL with errno and a
// reason.
[[gnu::visibility("default")]] struct ibv_device* verbena_device(uint32_t index);

// The context is librdmacm's own, which the program has not opened itself.
[[gnu::visibility("default")]] void verbena_is_librarys(struct ibv_context* context);

// The queue pairs below may be gone already: programs destroy an id's queue pair by ibv_destroy_qp, while the
// id still names it. The functions notice that, also when it happens while they wait.

// Whether the context has this queue pair (still).
[[gnu::visibility("default")]] int verbena_has_qp(struct ibv_context* context, struct ibv_qp* qp);

// Every acknowledgement that this queue pair owes its peer leaves now, and those that the peer owes are
// waited for (100 ms at most), so that what has been delivered does not complete as flushed. Call it before a
// disconnect request, which travels on another socket and would overtake them.
[[gnu::visibility("default")]] void verbena_owe_nothing(struct ibv_context* context, struct ibv_qp* qp);

// Processes every packet that has arrived so far.
[[gnu::visibility("default")]] void verbena_settle(struct ibv_context* context);

// The same, and waits (half a second at most, but longer for a thread that gets no processor) until another
// thread that polls the queue pair's completion queues has taken what is there and come back to find them
// empty. Call it before a DISCONNECTED event is handed to the program: the data that the peer sent before it
// disconnected comes first, and programs destroy everything on that event, under the feet of a thread that
// still works on the last completion. A program that polls in the calling thread, or has no other, is not
// held up; one that leaves a queue with a channel alone is, once.
[[gnu::visibility("default")]] void verbena_quiesce(struct ibv_context* context, struct ibv_qp* qp);

// The caller turns to something else than polling: acknowledgements that waited for its next post or poll
// leave now, and the helper thread takes over at once instead of noticing later that nobody polls. Does
// nothing in a process that has opened no device.
[[gnu::visibility("default")]] void verbena_step_aside(void);

// The calling thread is the library's own, for as long as the process lives: it keeps none alive.
[[gnu::visibility("default")]] void verbena_own_thread(void);

// Blocks until the descriptor (not an O_NONBLOCK one) is readable, and drives the packets meanwhile, as
// ibv_get_cq_event does; with context NULL it only blocks. `deadline` is a CLOCK_MONOTONIC time in
// nanoseconds, INT64_MAX for none. 0, ETIMEDOUT, or EINTR: a signal came, and not every handler asks for
// restarts.
[[gnu::visibility("default")]] int verbena_wait_readable(struct ibv_context* context, int fd,
                                                         int64_t deadline);

// `ended` is called when the daemon that the devices belong to has died, with its generation (host/client.h):
// by the thread that notices, under any of libibverbs' locks, so that it may call nothing of it. There is one
// such function; it comes to be called while a device is open.
[[gnu::visibility("default")]] void verbena_when_daemon_ends(void (*ended)(uint32_t generation));

// "0.1.0 (protocol 1)": what a mixed installation is recognised by.
[[gnu::visibility("default")]] const char* verbena_build_id(void);
}
