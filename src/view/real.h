// What the functions that this library puts itself in front of have in common: the next definition of each,
// and a path as the next one shall see it.
#pragma once

#include <limits.h>

#include <atomic>

namespace verbena::view {

// The address of the next definition behind ours, or of a function that fails with ENOSYS.
void* next_definition(const char* name);

template <class Function>
class Next;

// The next definition of a function, looked up on its first call. Constant-initialized: programs call before
// any constructor of ours has run.
template <class Result, class... Arguments>
class Next<Result(Arguments...)> {
   public:
    constexpr explicit Next(const char* name) : name_(name) {}
    Result operator()(Arguments... arguments) {
        void* known = address_.load(std::memory_order_relaxed);
        if (!known) [[unlikely]] {
            known = next_definition(name_);
            address_.store(known, std::memory_order_relaxed);
        }
        return reinterpret_cast<Result (*)(Arguments...)>(known)(arguments...);
    }

   private:
    const char* name_;
    std::atomic<void*> address_{nullptr};
};

// A path as the next definition shall see it: in the tree if it is one of ours, else as it is. Keeps errno.
class Seen {
   public:
    explicit Seen(const char* path) : path_(path) {
        // Most paths are neither in /sys nor in /dev.
        if (path && path[0] == '/' && (path[1] == 's' || path[1] == 'd' || path[1] == '/')) translate();
    }
    operator const char*() const { return path_; }
    // Whether it lies in the tree.
    bool moved() const { return path_ == buffer_; }
    // Whether it is an attribute, which nobody can write, not even root: its file is everybody's. A call that
    // wants to fails with EACCES, as it does where a kernel shows the attribute.
    bool is_attribute() const;

   private:
    void translate();

    const char* path_;
    char buffer_[PATH_MAX];  // not initialized
};

}  // namespace verbena::view
