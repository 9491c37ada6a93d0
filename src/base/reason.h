// Why a call failed, in words. Every failing path of the libraries, the adapter and the daemon goes through
// here, so that one mechanism serves the log (VERBENA_LOG), the per-thread reason and the tools.
//
//     return fail(EINVAL, "ah_attr.is_global is 0; RoCE needs a GRH (is_global=1, sgid_index)");
//
// The public entry point that is running is named by a Call object on its stack; the log line becomes
//     verbena: ibv_modify_qp(QP 0x010007): ah_attr.is_global is 0; ...
//
// librdmacm shares this with libibverbs (through a private version node), so that there is one reason per
// thread.
//
// Thread safety: everything here may be called from any thread. Nothing is written unless VERBENA_LOG asks
// for it.
#pragma once

#include <cstddef>

namespace verbena {

enum class LogLevel : int { none = 0, error = 1, warn = 2, info = 3, debug = 4 };

// VERBENA_LOG=level[,file=PATH], read once on first use; the default is none. Output goes to stderr or to the
// file.
[[gnu::visibility("default")]] LogLevel log_level();
inline bool log_enabled(LogLevel level) { return level <= log_level(); }
[[gnu::visibility("default"), gnu::format(printf, 2, 3)]] void log(LogLevel level, const char* format, ...);

// Records the reason for this thread, logs it at level warn, sets errno to `error` and returns it
// (a positive errno value, as most ibv_* calls do).
[[gnu::visibility("default"), gnu::format(printf, 2, 3)]] int fail(int error, const char* format, ...);
// The same for calls that return NULL or -1 and set errno.
[[gnu::visibility("default"), gnu::format(printf, 2, 3)]] std::nullptr_t fail_null(int error,
                                                                                   const char* format, ...);
[[gnu::visibility("default"), gnu::format(printf, 2, 3)]] int fail_minus_one(int error, const char* format,
                                                                             ...);

// The last reason recorded by this thread ("" if none). Valid until the thread's next failure.
[[gnu::visibility("default")]] const char* last_reason();

// Names the public call in progress for the log; cheap (three stores). `object` identifies what it
// works on, e.g. "QP" 0x10007; pass nullptr for none. Nested calls keep the outermost name.
struct CallRecord;
class [[gnu::visibility("default")]] Call {
   public:
    explicit Call(const char* name, const char* object = nullptr, unsigned long long number = 0);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallRecord* place_;  // this thread's; nullptr: another call is around this one
};

}  // namespace verbena
