// One call on its way through: told before it blocks, timed, told when it has returned.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "interpose/line.h"
#include "interpose/next.h"
#include "interpose/planned_failures.h"
#include "interpose/show.h"
#include "interpose/strict.h"

#undef ibv_reg_mr  // the headers' macros around functions of these names
#undef ibv_reg_mr_iova
#undef ibv_query_port

namespace verbena::interpose {

// How a call says that it failed.
enum class Answer : std::uint8_t {
    error,      // not 0: the errno, or -1 with errno
    minus_one,  // -1 with errno
    null,       // NULL with errno
    negative,   // negative: the errno, or -1 with errno
    rereg,      // not 0: enum ibv_rereg_mr_err_code, errno
    nothing,
};

enum Flags : unsigned {
    kBlocks = 1,    // may block: told before, too
    kFetches = 2,   // reports what has happened: stands on the time line where it returns
    kData = 4,      // not told without data
    kDestroys = 8,  // the object that is its first argument
};

struct CallInfo {
    Library library;
    Answer answer;
    unsigned flags;
    const char* name;
    const char* parameters[7];
};

// A type for each call, calls::ibv_modify_qp ...
namespace calls {
#define CALL(library, answer, flags, result, name, declaration, arguments, ...)                        \
    struct name {                                                                                      \
        static constexpr CallInfo info{Library::library, Answer::answer, flags, #name, {__VA_ARGS__}}; \
    };
#define NAMED_SLOT(table, answer, flags, name, shown, member, ...)                                   \
    struct name {                                                                                    \
        static constexpr CallInfo info{Library::verbs, Answer::answer, flags, shown, {__VA_ARGS__}}; \
    };
#include "interpose/arity.h"
#include "interpose/calls.def"
#undef CALL
#undef NAMED_SLOT
// ibv_wr_complete(), ibv_start_poll() and ibv_next_poll() are called through the objects' own pointers.
struct ibv_wr_complete {
    static constexpr CallInfo info{Library::verbs, Answer::error, kData, "ibv_wr_complete", {"qp"}};
};
struct ibv_start_poll {
    static constexpr CallInfo info{
        Library::verbs, Answer::error, kData | kFetches, "ibv_start_poll", {"cq", "attr"}};
};
struct ibv_next_poll {
    static constexpr CallInfo info{Library::verbs, Answer::error, kData | kFetches, "ibv_next_poll", {"cq"}};
};
}  // namespace calls

// What is known of a call while it is under way. No destructor: line.h says why.
struct Call {
    const CallInfo* info;
    std::uint64_t time = 0, began = 0;  // wall clock, steady clock
    int depth = 0;
    int error = 0;     // its errno when it has failed
    int planned = 0;   // the errno with which it fails without having been made
    bool told = true;  // hooks may decide otherwise
    bool may_block = false;
    std::uint64_t note = 0;           // a hook's, from before() to after()
    const void* destroyed = nullptr;  // what kDestroys is about
    Known known{};                    // what it was
    std::uint64_t leaving = 0;        // strict mode's, of that
    Line line{};
};

// Whether anybody looks; if not, calls are passed on.
bool watching();

// The parts of forward() that are the same for all calls.
void begin_call(Call& call);
void end_arguments(Call& call);  // tells of a call that may block
void end_call(Call& call);

// 0, or the errno with which a call failed that has answered so; `error` is errno.
template <class Result>
int error_of(Answer answer, Result result, int error) {
    if (error == 0) error = EIO;  // it has failed all the same
    if constexpr (std::is_pointer_v<Result>) {
        return answer == Answer::null && !result ? error : 0;
    } else {
        const auto value = static_cast<std::int64_t>(result);
        switch (answer) {
            case Answer::error:
                return value == -1 ? error : static_cast<int>(value);
            case Answer::minus_one:
                return value == -1 ? error : 0;
            case Answer::negative:
                return value == -1 ? error : value < 0 ? static_cast<int>(-value) : 0;
            case Answer::rereg:
                return value ? error : 0;
            default:
                return 0;
        }
    }
}

// The answer of a call that fails.
template <class Result>
Result failure(Answer answer, int error) {
    errno = error;
    if constexpr (std::is_pointer_v<Result>) {
        return nullptr;
    } else if constexpr (!std::is_void_v<Result>) {
        switch (answer) {
            case Answer::error:
                return static_cast<Result>(error);
            case Answer::negative:
                return static_cast<Result>(-error);
            case Answer::rereg:
                return IBV_REREG_MR_ERR_CMD;
            default:
                return -1;
        }
    }
}

// What is particular about a call; hooks.h specializes it.
template <class Which>
struct Hook;

struct PlainHook {
    // Whether the call is not to be made, but answered with success.
    template <class... Arguments>
    static bool is_done(Arguments...) {
        return false;
    }
    // The call is not made, but fails: what it would have left undone, and said of it by its arguments.
    template <class... Arguments>
    static void refused(Arguments...) {}
    // Looks at the arguments before the call.
    template <class... Arguments>
    static void before(Call&, Arguments...) {}
    // What follows gets the result first, if there is one, and need not keep errno. Objects that the call
    // destroyed are gone. First, what there is to note of a result, and whether it is told:
    template <class... Arguments>
    static void result(Call&, Arguments...) {}
    // Writes fields of "out", unless the call failed.
    template <class... Arguments>
    static void out(Line&, Arguments...) {}
    // At the end, when the call has been told: other events.
    template <class... Arguments>
    static void after(Call&, Arguments...) {}
};

template <class... Arguments>
void show_arguments(Line& line, const CallInfo& info, Arguments... arguments) {
    [[maybe_unused]] int at = 0;
    [[maybe_unused]] const auto one = [&](auto value) {
        const char* name = info.parameters[at++];
        if (!name || (name[0] == 'o' && name[1] == 'u' && name[2] == 't' && name[3] == '_')) return;
        show_argument(line.key(name), name, value);
    };
    (one(arguments), ...);
}

// An object's address may be another's before the call that destroys it has returned.
template <class Object, class... More>
void take_away(Call& call, Object* object, More...) {
    call.destroyed = object;
    call.known = take_object(object);
    call.leaving = strict_mode::leaves(object);
}

template <class Result>
void note_new_object([[maybe_unused]] Result result, [[maybe_unused]] int depth) {
    if constexpr (std::is_pointer_v<Result>) {
        constexpr Kind kind = kKind<std::remove_pointer_t<Result>>;
        if constexpr (kind == Kind::qp)
            add_object(kind, result, result ? result->qp_num : 0);
        else if constexpr (kind != Kind::count)
            add_object(kind, result);
        if constexpr (kind != Kind::count) strict_mode::made(kind, result, depth);
    }
}

template <class Which, class... Arguments>
void begin(Call& call, Arguments... arguments) {
    begin_call(call);
    if (call.line.taken()) {
        call.line.key("args").open('{');
        if constexpr (requires { Hook<Which>::show(call.line, arguments...); })
            Hook<Which>::show(call.line, arguments...);
        else
            show_arguments(call.line, *call.info, arguments...);
        call.line.close('}');
    }
    Hook<Which>::before(call, arguments...);
    if constexpr ((Which::info.flags & kDestroys) != 0) take_away(call, arguments...);
    end_arguments(call);
}

template <class Which, class... Results>
void show_results(Call& call, Results... results) {
    const std::size_t before = call.line.size();
    call.line.key("out").open('{');
    const std::size_t empty = call.line.size();
    Hook<Which>::out(call.line, results...);
    if (call.line.size() == empty)
        call.line.cut(before);
    else
        call.line.close('}');
}

// Calls `next` as if we were not there.
template <class Which, class Result, class... Arguments>
Result forward(Result (*next)(Arguments...), Arguments... arguments) {
    if (!watching()) return next(arguments...);
    if (Hook<Which>::is_done(arguments...)) return Result();
    const int errno_before = errno;
    Call call{&Which::info};
    begin<Which>(call, arguments...);
    errno = errno_before;
    if constexpr (std::is_void_v<Result>) {
        next(arguments...);
        const int errno_after = errno;
        Hook<Which>::result(call, arguments...);
        end_call(call);
        Hook<Which>::after(call, arguments...);
        errno = errno_after;
    } else {
        call.planned = planned_failure(Which::info.name);
        if (call.planned) Hook<Which>::refused(arguments...);
        const Result result =
            call.planned ? failure<Result>(Which::info.answer, call.planned) : next(arguments...);
        const int errno_after = errno;
        call.error = error_of(Which::info.answer, result, errno_after);
        note_new_object(result, call.depth);
        Hook<Which>::result(call, result, arguments...);
        if (call.line.taken() && call.told) {
            if (!call.error) show_results<Which>(call, result, arguments...);
            show_argument(call.line.key("ret"), "ret", result);
        }
        end_call(call);
        Hook<Which>::after(call, result, arguments...);
        errno = errno_after;
        return result;
    }
}

// The definition behind ours of an exported function, called: pass<calls::ibv_modify_qp>(ibv_modify_qp)(qp
// ...).
template <class Which, class Result, class... Arguments>
auto pass(Result (*)(Arguments...)) {
    return [](Arguments... arguments) -> Result {
        static constinit std::atomic<void*> known{nullptr};
        void* found = known.load(std::memory_order_acquire);
        if (!found) [[unlikely]] {
            found = definition(Which::info.library, Which::info.name);
            if (!found) return failure<Result>(Which::info.answer, ENOSYS);
            known.store(found, std::memory_order_release);
        }
        return forward<Which>(reinterpret_cast<Result (*)(Arguments...)>(found), arguments...);
    };
}

}  // namespace verbena::interpose
