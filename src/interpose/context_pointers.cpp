// The calls that headers make through a context's pointers (ibv_post_send, ibv_create_qp_ex ...).

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "interpose/hooks.h"
#include "interpose/originals.h"

namespace verbena::interpose {
namespace {

const ibv_context* context_of(const ibv_context* context) { return context; }
template <class Object>
const ibv_context* context_of(const Object* object) {
    return object->context;
}

const ibv_context_ops& ops_of(const ContextPointers& pointers) { return pointers.ops; }
const verbs_context& extended_of(const ContextPointers& pointers) { return pointers.table; }

// A function of a slot's type, and how it finds the one that stood there.
template <class Which, auto kTable, auto kMember, class Slot>
struct Replacement;

template <class Which, auto kTable, auto kMember, class Result, class First, class... Arguments>
struct Replacement<Which, kTable, kMember, Result (*)(First*, Arguments...)> {
    static Result call(First* object, Arguments... arguments) {
        return forward<Which>(kTable(pointers_of(context_of(object))).*kMember, object, arguments...);
    }
};

template <class Which, auto kTable, auto kMember, class Slot>
void replace(Slot& slot) {
    if (slot) slot = Replacement<Which, kTable, kMember, Slot>::call;
}

// How much of a verbs_context lies before a slot: the library's may begin behind it.
bool reaches(const verbs_context& table, std::size_t offset) {
    return table.sz >= sizeof(verbs_context) - offset;
}

void replace_ops(ibv_context_ops& ops) {
#define CALL(...)
#define NAMED_SLOT(table, answer, flags, name, shown, member, ...) NAMED_SLOT_##table(name, member)
#define NAMED_SLOT_ops(name, member) replace<calls::name, ops_of, &ibv_context_ops::member>(ops.member);
#define NAMED_SLOT_extended(name, member)
#include "interpose/arity.h"
#include "interpose/calls.def"
#undef NAMED_SLOT_ops
#undef NAMED_SLOT_extended
}

void replace_extended(verbs_context& context) {
#define NAMED_SLOT_ops(name, member)
#define NAMED_SLOT_extended(name, member)                  \
    if (reaches(context, offsetof(verbs_context, member))) \
        replace<calls::name, extended_of, &verbs_context::member>(context.member);
#include "interpose/calls.def"
#undef CALL
#undef NAMED_SLOT
}

}  // namespace

void watch_context(ibv_context* context) {
    using OurPoll = Replacement<calls::ibv_poll_cq, ops_of, &ibv_context_ops::poll_cq,
                                decltype(ibv_context_ops::poll_cq)>;
    if (!context || context->ops.poll_cq == OurPoll::call) return;
    auto pointers = std::make_unique<ContextPointers>();
    pointers->ops = context->ops;
    verbs_context* extended = verbs_get_ctx(context);
    if (extended) {
        // What lies before the library's own beginning is not ours to read.
        const std::size_t size = std::min(extended->sz, sizeof *extended);
        const std::size_t skipped = sizeof *extended - size;
        std::memset(&pointers->table, 0, sizeof pointers->table);
        std::memcpy(reinterpret_cast<char*>(&pointers->table) + skipped,
                    reinterpret_cast<char*>(extended) + skipped, size - sizeof *context);
    }
    keep(context, std::move(pointers));
    replace_ops(context->ops);
    if (extended) replace_extended(*extended);
}

}  // namespace verbena::interpose
