#include "trace/text.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/gid.h"
#include "base/printable.h"
#include "link/capture_reader.h"
#include "wire/describe.h"

namespace verbena::trace {
namespace {

// Texts of the program's own, which may have any form.
bool is_text(const std::string& name) { return name == "node" || name == "service"; }

// Programs give private data in buffers of full size: the zeros at the end are left out.
std::string private_data(const std::string& digits) {
    const std::size_t last = digits.find_last_not_of('0');
    const std::size_t bytes = last == std::string::npos ? 0 : last / 2 + 1;
    const std::string size = std::to_string(digits.size() / 2) + " bytes";
    return digits.size() == bytes * 2
               ? digits
               : digits.substr(0, bytes * 2) + (bytes ? "... (" : "zeros (") + size + ")";
}

std::string join(const Json& values, bool names) {
    std::string text;
    for (const auto& [name, value] : values.items()) {
        if (!text.empty()) text += ", ";
        // Two queues of a kind are told apart by their names.
        const bool itself = !object_kind(value).empty() &&
                            (name == "cq" || value.get_ref<const std::string&>().rfind("cq ", 0) != 0);
        if (names && !itself) text += name + "=";
        text += show_value(value, name);
    }
    return text;
}

std::string call_line(const Json& event, Part part) {
    const std::string name = event.value("call", "?");
    const std::string indent(static_cast<std::size_t>(std::max(0, event.value("depth", 0))) * 2, ' ');
    std::string text = indent;
    if (part == Part::resumed)
        text += "<... " + name + " resumed>";
    else
        text += name + "(" + (event.contains("args") ? join(event["args"], true) : "");
    if (part == Part::unfinished) return text + " <unfinished ...>";
    if (part == Part::whole) text += ")";
    if (event.contains("ret")) text += " = " + show_value(event["ret"]);
    if (event.contains("errno")) text += " " + show_value(event["errno"], "errno");
    // What an event says is told by its own line.
    if (event.contains("out") && name != "rdma_get_cm_event") text += " {" + join(event["out"], true) + "}";
    char took[64];
    std::snprintf(took, sizeof took, " <%.6f>",
                  static_cast<double>(event.value("d", std::uint64_t{0})) / 1e9);
    text += took;
    if (const auto empty = event.value("empty", std::uint64_t{0}))
        text += " after " + std::to_string(empty) + " that found nothing";
    if (event.contains("reason")) text += " (" + event.value("reason", "") + ")";
    return text;
}

// The fields that every event has are in front of the line.
std::string other_line(const Json& event, const char* mark, std::initializer_list<const char*> first) {
    std::string text = mark;
    for (const char* name : first)
        if (event.contains(name)) text += " " + show_value(event[name], name);
    for (const auto& field : event.items()) {
        const std::string& name = field.key();
        const Json& value = field.value();
        if (name == "k" || name == "t" || name == "pid" || name == "tid" || name == "reason") continue;
        if (std::find_if(first.begin(), first.end(), [&](const char* each) { return name == each; }) !=
            first.end())
            continue;
        text += " " + name + "=" + show_value(value, name);
    }
    if (event.contains("reason")) text += " (" + event.value("reason", "") + ")";
    return text;
}

std::string number(const char* format, std::uint64_t value) {
    char text[32];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

std::string body(const Json& event, Part part) {
    const std::string kind = event.value("k", "");
    if (kind == "call" || kind == "begin") return call_line(event, part);
    if (kind == "wc") {
        Json shown = event;
        if (shown.contains("qp"))
            shown["qp"] = "qp " + number("0x%" PRIx64, event.value("qp", std::uint64_t{0}));
        return other_line(shown, "* completion", {"cq", "qp", "status", "opcode"});
    }
    if (kind == "qp") {
        const std::string from = event.value("from", ""), to = event.value("to", "");
        return "* qp " + number("0x%" PRIx64, event.value("qp", std::uint64_t{0})) + " " +
               (from.empty() ? "new" : from) + " -> " + (to.empty() ? "gone" : to) +
               (event.contains("type") ? " " + event.value("type", "") : "");
    }
    if (kind == "cm_event") return other_line(event, "*", {"event", "id"});
    if (kind == "async_event") return other_line(event, "*", {"event", "element"});
    if (kind == "packet") {
        const std::string packet = show_packet(event.value("frame", ""));
        return packet.empty()              ? packet
               : event.contains("comment") ? "~ " + packet + " # " + event.value("comment", "")
                                           : "~ " + packet;
    }
    if (kind == "process") {
        std::string text = "* process " + std::to_string(event.value("pid", std::int64_t{0})) + ":";
        if (event.contains("argv"))
            for (const Json& word : event["argv"])
                text += " " + (word.is_string() ? word.get<std::string>() : "?");
        return text;
    }
    return {};
}

}  // namespace

std::string object_kind(const Json& value) {
    if (!value.is_string()) return {};
    const auto& text = value.get_ref<const std::string&>();
    const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
    const bool named = end != 0 && end != std::string::npos && text[end] == ' ' && end + 1 < text.size() &&
                       text.find_first_not_of("0123456789abcdefx", end + 1) == std::string::npos &&
                       text[end + 1] <= '9';
    return named ? text.substr(0, end) : std::string();
}

std::string show_value(const Json& value, const std::string& name) {
    if (value.is_object()) return "{" + join(value, true) + "}";
    if (value.is_array()) {
        std::string text;
        for (const Json& each : value) text += (text.empty() ? "" : ", ") + show_value(each, name);
        return "[" + text + "]";
    }
    if (value.is_null()) return "NULL";
    if (value.is_string() && name == "private_data") return private_data(value.get<std::string>());
    if (value.is_string()) return is_text(name) ? value.dump() : value.get<std::string>();
    return value.dump();
}

std::string show_packet(const std::string& frame) {
    const std::vector<std::uint8_t> bytes = from_base64(frame);
    link::CapturedPacket captured;
    wire::Packet packet;
    if (!link::read_ip_packet(bytes, captured)) return {};
    std::string text = to_string(captured.path.source) + " > " + to_string(captured.path.destination) + " ";
    if (wire::parse(captured.bytes, packet) != wire::ParseError::none) return text + "malformed";
    const wire::Headers& headers = packet.headers;
    if (headers.bth.destination_qp == wire::kQp1 && wire::info(headers.bth.opcode).has_deth &&
        packet.payload.size() == wire::kMadLength)  // around a MAD is always the same
        return text + "QP1 " + wire::describe_mad(packet.payload.first<wire::kMadLength>());
    return text + wire::describe(packet);
}

std::string Text::line(const Json& event, Part part) {
    const std::uint64_t began = event.value("t", std::uint64_t{0});
    const bool at_its_end =
        part == Part::resumed || (event.value("k", "") == "call" && fetches(event.value("call", "")));
    const std::uint64_t time = at_its_end ? began + event.value("d", std::uint64_t{0}) : began;
    std::string text = body(event, part);
    if (text.empty()) return text;
    // One line each, and a terminal obeys no program's words.
    text = printable(std::move(text));
    if (!first_) first_ = began;
    char front[64];
    const std::string thread =
        event.contains("tid") ? std::to_string(event.value("tid", std::int64_t{0})) : std::string("-");
    std::snprintf(front, sizeof front, "%11.6f %7s ",
                  (static_cast<double>(time) - static_cast<double>(first_)) / 1e9, thread.c_str());
    return front + text;
}

}  // namespace verbena::trace
