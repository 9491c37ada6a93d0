// ibv_start_poll() and ibv_next_poll(), which are called through the completion queue's own pointers; and, in
// strict mode, the ibv_wc_read_*() calls, whose answers are poisoned where they are not defined.

#include <memory>
#include <type_traits>
#include <utility>

#include "interpose/hooks.h"
#include "interpose/strict.h"

namespace verbena::interpose {
namespace {

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) {
    return forward<calls::ibv_start_poll>(pointers_of(cq).functions.start_poll, cq, attributes);
}

int next_poll(ibv_cq_ex* cq) {
    return forward<calls::ibv_next_poll>(pointers_of(cq).functions.next_poll, cq);
}

// One field of the completion as the program may see it: the one that `Function` reads.
template <auto Function, auto Field>
auto read_field(ibv_cq_ex* cq) {
    const ibv_cq_ex& f = pointers_of(cq).functions;
    const auto read = (f.*Function)(cq);
    ibv_wc wc{};
    wc.status = cq->status;
    if (wc.status == IBV_WC_SUCCESS) {
        wc.opcode = f.read_opcode(cq);
        wc.wc_flags = f.read_wc_flags ? f.read_wc_flags(cq) : unsigned{IBV_WC_WITH_IMM};
    }
    wc.*Field = static_cast<std::remove_reference_t<decltype(wc.*Field)>>(read);
    strict_mode::poison(wc);
    return static_cast<std::remove_const_t<decltype(read)>>(wc.*Field);
}

// Those that the queue was made with.
template <auto Function, auto Field>
void watch_field(ibv_cq_ex* cq) {
    if (cq->*Function) cq->*Function = read_field<Function, Field>;
}

}  // namespace

void watch_completion_queue(ibv_cq_ex* cq) {
    if (!cq || cq->start_poll == start_poll) return;
    auto pointers = std::make_unique<CompletionQueuePointers>();
    pointers->functions = *cq;
    keep(cq, std::move(pointers));
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    if (!strict()) return;
    watch_field<&ibv_cq_ex::read_opcode, &ibv_wc::opcode>(cq);
    watch_field<&ibv_cq_ex::read_byte_len, &ibv_wc::byte_len>(cq);
    watch_field<&ibv_cq_ex::read_imm_data, &ibv_wc::imm_data>(cq);
    watch_field<&ibv_cq_ex::read_src_qp, &ibv_wc::src_qp>(cq);
    watch_field<&ibv_cq_ex::read_wc_flags, &ibv_wc::wc_flags>(cq);
    watch_field<&ibv_cq_ex::read_slid, &ibv_wc::slid>(cq);
    watch_field<&ibv_cq_ex::read_sl, &ibv_wc::sl>(cq);
    watch_field<&ibv_cq_ex::read_dlid_path_bits, &ibv_wc::dlid_path_bits>(cq);
}

}  // namespace verbena::interpose
