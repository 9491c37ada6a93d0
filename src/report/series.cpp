#include "report/series.h"

#include <algorithm>

namespace verbena::report {
namespace {
constexpr std::size_t kSteps = 120;
}

Series make_series(const Recording& recording, const std::vector<ViewedPacket>& views) {
    Series series;
    // Only while data moved: programs may wait for minutes before and after.
    std::uint64_t first = UINT64_MAX, last = 0;
    auto widen = [&](std::uint64_t time) {
        first = std::min(first, time);
        last = std::max(last, time);
    };
    for (std::size_t i = 0; i < views.size(); i++)
        if (views[i].valid && !views[i].cm) widen(recording.packets[i].captured.nanoseconds);
    for (const Completion& completion : recording.completions) widen(completion.time);
    if (first > last) return series;
    series.start = first;
    series.step = std::max<std::uint64_t>((last - first) / kSteps + 1, 1000);
    const std::size_t steps = (last - first) / series.step + 1;
    series.bytes.resize(steps);
    for (auto* counts :
         {&series.packets, &series.messages, &series.completions, &series.failed, &series.repeated})
        counts->resize(steps);
    for (std::size_t i = 0; i < views.size(); i++) {
        if (!views[i].valid || views[i].cm) continue;
        const std::size_t at = (recording.packets[i].captured.nanoseconds - first) / series.step;
        const wire::OpcodeInfo& opcode = wire::info(views[i].parsed.headers.bth.opcode);
        series.packets[at]++;
        series.bytes[at] += views[i].parsed.payload.size();
        series.messages[at] += opcode.operation != wire::Operation::acknowledge &&
                               opcode.operation != wire::Operation::read_request && opcode.ends_message();
        series.repeated[at] += views[i].repeated || views[i].refusal || recording.packets[i].lost;
    }
    for (const Completion& completion : recording.completions) {
        const std::size_t at = (completion.time - first) / series.step;
        (completion.failed() ? series.failed : series.completions)[at]++;
    }
    return series;
}

}  // namespace verbena::report
