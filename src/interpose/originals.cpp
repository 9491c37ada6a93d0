#include "interpose/originals.h"

#include <unordered_map>
#include <utility>

#include "interpose/fork_lock.h"

namespace verbena::interpose {
namespace {

constinit ForkLock kept_lock;

template <class Pointers>
std::unordered_map<const void*, std::unique_ptr<Pointers>>& kept() {
    static auto& all = *new std::unordered_map<const void*, std::unique_ptr<Pointers>>;  // never destroyed
    return all;
}

template <class Pointers>
Pointers& find(const void* object) {
    Locked locked(kept_lock);
    return *kept<Pointers>().at(object);
}

template <class Pointers>
void put(const void* object, std::unique_ptr<Pointers>& pointers) {
    Locked locked(kept_lock);
    kept<Pointers>()[object] = std::move(pointers);
}

}  // namespace

ContextPointers& pointers_of(const ibv_context* context) { return find<ContextPointers>(context); }
QueuePairPointers& pointers_of(const ibv_qp_ex* qp) { return find<QueuePairPointers>(qp); }
CompletionQueuePointers& pointers_of(const ibv_cq_ex* cq) { return find<CompletionQueuePointers>(cq); }

void keep(const ibv_context* context, std::unique_ptr<ContextPointers> pointers) { put(context, pointers); }
void keep(const ibv_qp_ex* qp, std::unique_ptr<QueuePairPointers> pointers) { put(qp, pointers); }
void keep(const ibv_cq_ex* cq, std::unique_ptr<CompletionQueuePointers> pointers) { put(cq, pointers); }

}  // namespace verbena::interpose
