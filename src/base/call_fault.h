// The seam by which a plan of faults makes public calls fail (faults/call_faults.h). Off, it costs a load and
// a branch per call:
//
//     if (const Fault fault{"ibv_reg_mr"}) return fault.null();
//
// One for both libraries, as the reasons are; it lies in libibverbs (verbs/planned_faults.cpp). Thread
// safety: all calls; the source is set once.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace verbena {

class CallFaults {
   public:
    // 0: the call goes on. Otherwise the errno with which it fails; the reason is recorded.
    virtual int error_of(const char* call) = 0;

   protected:
    ~CallFaults() = default;
};

[[gnu::visibility("default")]] extern std::atomic<CallFaults*> call_faults;

// Whether any call may fail by a plan.
inline bool calls_may_fail() { return call_faults.load(std::memory_order_acquire) != nullptr; }

class Fault {
   public:
    explicit Fault(const char* call) {
        if (CallFaults* faults = call_faults.load(std::memory_order_acquire)) [[unlikely]]
            error_ = faults->error_of(call);
    }
    explicit operator bool() const { return error_ != 0; }

    // By the call's convention.
    int error() const { return errno = error_; }
    int minus_one() const { return errno = error_, -1; }
    std::nullptr_t null() const { return errno = error_, nullptr; }

   private:
    int error_ = 0;
};

}  // namespace verbena
