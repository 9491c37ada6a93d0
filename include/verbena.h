/*
 * verbena.h - why an RDMA call, a completion or an event failed, in a sentence.
 *
 * Standard RDMA calls answer with a number: EINVAL, status 12, REJECTED 28. Under Verbena a program can also
 * ask which check failed, with the values:
 *
 *     #include <verbena.h>
 *
 *     if (ibv_modify_qp(qp, &attr, mask)) {
 *         perror("ibv_modify_qp");
 *         fprintf(stderr, "%s\n", verbena_last_reason());
 *     }
 *
 * Nothing needs to be linked beyond -lrdmacm -libverbs of whatever implementation: the functions look for
 * Verbena's when they are called. The same binary runs over other implementations, where they return "".
 *
 * Every function
 *   - returns a sentence in English, without a newline at its end, and never NULL; "" if nothing is known;
 *   - may be called from any thread, and leaves errno alone;
 *   - returns memory that belongs to the calling thread: it is valid until this thread calls the same
 *     function again (verbena_last_reason: until its next call that fails), and ends with the thread.
 * Sentences are for people; their words may change from release to release. Programs decide by errno, status,
 * vendor_err and the events, whose numbers do not change (`verbena explain`, docs/errors.md).
 *
 * `verbena run -- cc ...` finds this header; elsewhere it is in PREFIX/lib/verbena/include. C libraries older
 * than glibc 2.34 want -ldl.
 */
#ifndef VERBENA_H
#define VERBENA_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_async_event;
struct ibv_wc;
struct rdma_cm_event;

/* Calls Verbena's function of that name if it is loaded. Looked up at each call: these are paths of failure,
 * and a reference that the linker resolves would tie the binary to Verbena's symbol versions. */
#define VERBENA_CALL(parameters, name, arguments)                                  \
    do {                                                                           \
        const char*(*verbena_function)parameters;                                  \
        void* verbena_found = dlsym(NULL /* RTLD_DEFAULT */, name);                \
        if (!verbena_found) return "";                                             \
        __builtin_memcpy(&verbena_function, &verbena_found, sizeof verbena_found); \
        return verbena_function arguments;                                         \
    } while (0)

/* Of this thread's last call of libibverbs or librdmacm that failed. A call that succeeds leaves it alone, as
 * it leaves errno. */
static inline const char* verbena_last_reason(void) { VERBENA_CALL((void), "verbena_last_reason", ()); }

/* Of a completion from ibv_poll_cq: what was wrong with this request; for a flushed one, what took its queue
 * pair to the error state. "" if it succeeded. Ask before the queue pair is destroyed. The last 256 failures
 * of the process are known with their values; of older ones the meaning of vendor_err is told. */
static inline const char* verbena_wc_reason(const struct ibv_wc* completion) {
    VERBENA_CALL((const struct ibv_wc*), "verbena_wc_reason", (completion));
}

/* The same for completions of struct ibv_cq_ex: its wr_id and status, ibv_wc_read_qp_num() and
 * ibv_wc_read_vendor_err(). */
static inline const char* verbena_completion_reason(uint32_t qp_num, uint64_t wr_id, int status,
                                                    uint32_t vendor_err) {
    VERBENA_CALL((uint32_t, uint64_t, int, uint32_t), "verbena_completion_reason",
                 (qp_num, wr_id, status, vendor_err));
}

/* Of an event from ibv_get_async_event, before it is acknowledged. "" if it reports no failure. */
static inline const char* verbena_async_event_reason(const struct ibv_async_event* event) {
    VERBENA_CALL((const struct ibv_async_event*), "verbena_async_event_reason", (event));
}

/* Of an event from rdma_get_cm_event, before it is acknowledged: REJECTED, UNREACHABLE, ADDR_ERROR ... "" if
 * it reports no failure. */
static inline const char* verbena_cm_event_reason(const struct rdma_cm_event* event) {
    VERBENA_CALL((const struct rdma_cm_event*), "verbena_cm_event_reason", (event));
}

#undef VERBENA_CALL

#ifdef __cplusplus
}
#endif
#endif
