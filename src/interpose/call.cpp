#include "interpose/call.h"

#include <cstring>

#include "interpose/events.h"
#include "interpose/planned_failures.h"
#include "interpose/strict.h"
#include "interpose/words.h"

namespace verbena::interpose {
namespace {

thread_local int depth = 0;
thread_local std::uint64_t empty = 0;  // polls and the like that found nothing since the last one told

void finish(Call& call) {
    Line& line = call.line;
    line.key("d").unsigned_number(steady_clock() - call.began);
    if (call.error) {
        show_named(line.key("errno"), error_name(call.error), call.error);
        const char* reason = call.planned ? reason_of_planned_failure() : reason_of_last_call(call.error);
        if (*reason) line.key("reason").text(reason);
    }
    if ((call.info->flags & kFetches) && empty) {
        line.key("empty").unsigned_number(empty);
        empty = 0;
    }
    write_event(line);
}

}  // namespace

bool watching() { return tracing() || strict() || plans_failures(); }

void begin_call(Call& call) {
    call.may_block = (call.info->flags & kBlocks) != 0;
    call.depth = depth++;
    call.told = tracing() && (tracing_data() || !(call.info->flags & kData));
    if (!call.told) return;
    call.time = wall_clock();
    call.began = steady_clock();
    call.line.take();
    begin_event(call.line, "begin", call.time);
    call.line.key("depth").number(call.depth);
    call.line.key("call").text(call.info->name);
}

void end_arguments(Call& call) {
    if (!call.line.taken()) return;
    constexpr std::string_view kBegin = "{\"k\":\"begin\"", kCall = "{\"k\":\"call\" ";
    static_assert(kBegin.size() == kCall.size());
    if (call.may_block) {
        Line told;
        told.take();
        told.raw(call.line.view());
        write_event(told);
        told.give_back();
    }
    std::memcpy(call.line.data(), kCall.data(), kCall.size());
}

void end_call(Call& call) {
    depth--;
    if (call.destroyed && call.error) put_back(call.destroyed, call.known);
    if (call.destroyed) strict_mode::left(call.destroyed, call.leaving, !call.error);
    if (!call.line.taken()) return;
    if (call.error == EAGAIN && (call.info->flags & kFetches)) call.told = false;
    if (call.told)
        finish(call);
    else if (call.info->flags & kFetches)
        empty++;
    call.line.give_back();
}

}  // namespace verbena::interpose
