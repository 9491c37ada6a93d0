// A buffer of ibv_alloc_buf: memory with the protection domain that it was allocated for.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

// Opaque to programs.
struct ibv_buf {
    ibv_pd* pd;  // compared only; may be gone
    void* address;
    std::size_t size;
};

namespace verbena::verbs {

void* alloc_buf(ibv_pd* pd, std::size_t size, ibv_buf** buffer);
void free_buf(ibv_buf* buffer);

// Whether `length` bytes at `address` are a part of the buffer, and `pd` is its protection domain. 0, or
// EINVAL with a reason.
int check_part(const ibv_buf& buffer, const ibv_pd* pd, const void* address, std::size_t length);

}  // namespace verbena::verbs
