// The definitions behind ours: those of whatever libibverbs and librdmacm the program has.
#pragma once

#include <atomic>
#include <cstdint>

struct ibv_async_event;
struct ibv_qp;
struct ibv_qp_ex;
struct rdma_cm_event;

namespace verbena::interpose {

enum class Library : std::uint8_t { verbs, cm };

// nullptr if that library has no such function. Looked up by the library, not by RTLD_NEXT, which does not
// see those that the program has loaded itself (a Python module's).
void* definition(Library library, const char* name);

// ibv_qp_to_qp_ex(), which this library does not link.
ibv_qp_ex* extended_form(ibv_qp* qp);

// The sentences of include/verbena.h, "" where nothing is known. `error`: the errno of the call.
const char* reason_of_last_call(int error);
const char* reason_of_completion(std::uint32_t qp_num, std::uint64_t wr_id, int status,
                                 std::uint32_t vendor_err);
const char* reason_of_async_event(const ibv_async_event* event);
const char* reason_of_cm_event(const rdma_cm_event* event);

}  // namespace verbena::interpose
