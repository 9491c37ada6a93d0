// Zeroed pages and their registration. Untouched pages cost nothing.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbena::rsocket {

class RegisteredMemory {
   public:
    RegisteredMemory() = default;
    ~RegisteredMemory() { release(); }
    RegisteredMemory(const RegisteredMemory&) = delete;
    RegisteredMemory& operator=(const RegisteredMemory&) = delete;

    // Once. An errno.
    [[nodiscard]] int create(ibv_pd* pd, std::size_t size, int access);
    void release();

    std::uint8_t* data() const { return static_cast<std::uint8_t*>(pages_); }
    std::size_t size() const { return size_; }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(pages_); }
    std::uint32_t lkey() const { return mr_->lkey; }
    std::uint32_t rkey() const { return mr_->rkey; }

   private:
    void* pages_ = nullptr;
    std::size_t size_ = 0;
    ibv_mr* mr_ = nullptr;
};

}  // namespace verbena::rsocket
