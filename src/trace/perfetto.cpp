#include "trace/perfetto.h"

#include <cinttypes>

#include "trace/text.h"

namespace verbena::trace {
namespace {

constexpr int kWire = 0;  // the "process" to which packets belong
constexpr double kPacketMicroseconds = 1;

std::string flow_key(const Json& event, const std::string& qp, const std::string& wr_id) {
    return std::to_string(event.value("pid", std::int64_t{0})) + " " + qp + " " + wr_id;
}

std::string call_key(const Json& event) {
    return std::to_string(event.value("tid", std::int64_t{0})) + " " +
           std::to_string(event.value("t", std::uint64_t{0}));
}

// What is left of an event when what its place and its name say is taken away.
Json details(const Json& event) {
    Json left = event;
    for (const char* name : {"k", "t", "d", "pid", "tid", "depth", "call"}) left.erase(name);
    return left;
}

Json base(const Json& event, const char* phase, double time, const std::string& name) {
    return {{"ph", phase},
            {"ts", time},
            {"pid", event.value("pid", std::int64_t{0})},
            {"tid", event.value("tid", std::int64_t{0})},
            {"name", name}};
}

Json flow(const Json& event, const char* phase, double time, std::uint64_t number) {
    Json arrow = base(event, phase, time, "request");
    arrow["cat"] = "request";
    arrow["id"] = number;
    if (*phase == 'f') arrow["bp"] = "e";
    return arrow;
}

}  // namespace

Perfetto::Perfetto(std::FILE* file) : file_(file) {
    std::fputs("[", file_);
    put({{"ph", "M"}, {"pid", kWire}, {"name", "process_name"}, {"args", {{"name", "packets"}}}});
}

void Perfetto::put(const Json& event) {
    std::fputs(first_ ? "\n" : ",\n", file_);
    std::fputs(event.dump(-1, ' ', false, Json::error_handler_t::replace).c_str(), file_);
    first_ = false;
}

double Perfetto::microseconds(const Json& event) {
    const std::uint64_t time = event.value("t", std::uint64_t{0});
    if (!origin_) origin_ = time;
    return (static_cast<double>(time) - static_cast<double>(origin_)) / 1e3;
}

void Perfetto::call(const Json& event, double time) {
    Json slice = base(event, "X", time, event.value("call", "?"));
    slice["dur"] = static_cast<double>(event.value("d", std::uint64_t{0})) / 1e3;
    slice["cat"] = event.contains("errno") ? "failed" : "call";
    slice["args"] = details(event);
    put(slice);
    const std::string name = event.value("call", "");
    if ((name != "ibv_post_send" && name != "ibv_wr_complete") || event.contains("errno") ||
        !event.contains("args"))
        return;
    const Json& arguments = event["args"];
    if (!arguments.contains("wr") || !arguments["wr"].is_array()) return;
    for (const Json& request : arguments["wr"]) {
        if (!request.is_object()) continue;
        const std::uint64_t number = ++flow_;
        flows_[flow_key(event, arguments.value("qp", ""), request.value("wr_id", ""))] = number;
        put(flow(event, "s", time, number));
    }
}

void Perfetto::instant(const Json& event, double time, const std::string& name) {
    Json mark = base(event, "i", time, name);
    mark["s"] = "t";
    mark["args"] = details(event);
    put(mark);
}

void Perfetto::completion(const Json& event, double time) {
    char qp[32];
    std::snprintf(qp, sizeof qp, "qp 0x%" PRIx64, event.value("qp", std::uint64_t{0}));
    const std::string status = event.value("status", "");
    // A slice, because an arrow ends in one.
    Json slice =
        base(event, "X", time, "completion " + (status == "success" ? event.value("opcode", "") : status));
    slice["dur"] = 1;
    slice["args"] = details(event);
    put(slice);
    const auto found = flows_.find(flow_key(event, qp, event.value("wr_id", "")));
    if (found == flows_.end() || event.value("opcode", "").rfind("IBV_WC_RECV", 0) == 0) return;
    put(flow(event, "f", time, found->second));
    flows_.erase(found);
}

void Perfetto::packet(const Json& event, double time) {
    const std::string text = show_packet(event.value("frame", ""));
    if (text.empty()) return;
    // "A > B opcode ...": a track for each direction.
    const std::size_t second = text.find(" > ");
    const std::size_t end = second == std::string::npos ? 0 : text.find(' ', second + 3);
    const std::string path = text.substr(0, end);
    const std::string what = end < text.size() ? text.substr(end + 1) : text;
    Json slice{{"ph", "X"},
               {"ts", time},
               {"dur", kPacketMicroseconds},
               {"pid", kWire},
               {"tid", std::hash<std::string>{}(path) % 1'000'000},
               {"cat", "packet"},
               {"name", what.substr(0, what.find(' '))}};
    slice["args"] = {{"path", path}, {"packet", what}};
    if (event.contains("comment")) slice["args"]["comment"] = event["comment"];
    put(slice);
}

void Perfetto::add(const Json& event, Part part) {
    const std::string kind = event.value("k", "");
    const double time = microseconds(event);
    if (kind == "call") {
        if (part == Part::resumed) unfinished_.erase(call_key(event));
        return call(event, time);
    }
    if (kind == "begin") {
        unfinished_[call_key(event)] = event;
        return;
    }
    if (kind == "wc") return completion(event, time);
    if (kind == "packet") return packet(event, time);
    if (kind == "process") {
        std::string name;
        if (event.contains("argv"))
            for (const Json& word : event["argv"])
                name += (name.empty() ? "" : " ") + (word.is_string() ? word.get<std::string>() : "?");
        return put({{"ph", "M"},
                    {"pid", event.value("pid", std::int64_t{0})},
                    {"name", "process_name"},
                    {"args", {{"name", name}}}});
    }
    const std::string line = Text{}.line(event, part);
    const std::size_t mark = line.find("* ");
    instant(event, time,
            mark == std::string::npos ? kind : line.substr(mark + 2, line.find(" (", mark) - mark - 2));
}

void Perfetto::end() {
    for (const auto& [key, event] : unfinished_)
        instant(event, microseconds(event), event.value("call", "?") + " <unfinished>");
    std::fputs("\n]\n", file_);
    std::fflush(file_);
}

}  // namespace verbena::trace
