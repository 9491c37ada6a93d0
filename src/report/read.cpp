// A recording comes from another program, perhaps from another person: everything is checked, and what is
// wrong is named with its line. Unknown kinds and keys are ignored, so that newer recordings can be read.

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>

#include "report/capture_forms.h"
#include "report/recording.h"
#include "trace/tail.h"
#include "wire/packet.h"

namespace verbena::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 32;                   // of nested values
constexpr std::size_t kLongestLine = 1 << 24;  // far more than a call with a list of everything

struct Malformed : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// No whole line: whoever wrote it was interrupted, or its file took no more.
struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// nlohmann's sentences begin with its own numbering, "[json.exception.parse_error.101] parse error at ...",
// and quote what they stumbled over: a terminal shall not get it as it is.
std::string sentence_of(const char* what) {
    const char* end = std::strstr(what, "] ");
    std::string sentence = end && what[0] == '[' ? end + 2 : what;
    for (char& c : sentence)
        if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
    return sentence;
}

const Json* get(const Json& line, const char* key) {
    const auto found = line.find(key);
    return found == line.end() || found->is_null() ? nullptr : &*found;
}

const Json& need(const Json& line, const char* key) {
    if (const Json* found = get(line, key)) return *found;
    throw Malformed(std::string("there is no \"") + key + '"');
}

template <class T>
T whole(const Json& value, const char* key) {
    if (!value.is_number_integer()) throw Malformed(std::string("\"") + key + "\" is no whole number");
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                 : std::in_range<T>(value.get<std::int64_t>());
    if (!fits) throw Malformed(std::string("\"") + key + "\" is out of range");
    return value.get<T>();
}

template <class T>
T number(const Json& line, const char* key) {
    return whole<T>(need(line, key), key);
}

template <class T>
T number_or(const Json& line, const char* key, T otherwise) {
    const Json* found = get(line, key);
    return found ? whole<T>(*found, key) : otherwise;
}

// Any value as a person reads it: strings without quotes at the top.
std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string text(const Json& line, const char* key) {
    const Json& found = need(line, key);
    if (!found.is_string()) throw Malformed(std::string("\"") + key + "\" is no string");
    return found.get<std::string>();
}

std::string text_or(const Json& line, const char* key) {
    const Json* found = get(line, key);
    return found ? text_of(*found) : std::string();
}

Pairs pairs(const Json& line, const char* key) {
    Pairs all;
    const Json* found = get(line, key);
    if (!found) return all;
    if (!found->is_object()) throw Malformed(std::string("\"") + key + "\" is no object");
    for (const auto& [name, value] : found->items()) all.emplace_back(name, text_of(value));
    return all;
}

std::vector<std::uint8_t> frame_of(const std::string& text) {
    const std::size_t digits = std::min(text.find_last_not_of('=') + 1, text.size());
    std::vector<std::uint8_t> bytes = trace::from_base64(text);
    if (digits % 4 == 1 || text.size() - digits > 2 || bytes.size() != digits * 3 / 4)
        throw Malformed("\"frame\" is not base64");
    return bytes;
}

class Reader {
   public:
    Reader(Recording& recording, unsigned file) : recording_(recording), file_(file) {}

    void take(const std::string& line) {
        const Json value = parse(line);
        if (!value.is_object()) throw Malformed("no JSON object");
        const std::string kind = text(value, "k");
        if (kind == "process") return take_process(value);
        if (kind == "call" || kind == "begin") return take_call(value, kind == "call");
        if (kind == "wc") return take_completion(value);
        if (kind == "cm_event") return take_cm_event(value);
        if (kind == "async_event") return take_async_event(value);
        if (kind == "qp") return take_transition(value);
        if (kind == "packet") return take_packet(value);
        if (kind == "lost") return take_loss(value);
    }

    // Calls that began and did not return.
    void end() {
        for (auto& [key, call] : begun_) {
            call.finished = false;
            recording_.calls.push_back(std::move(call));
        }
    }

   private:
    static Json parse(const std::string& line) {
        try {
            return Json::parse(line, [](int depth, Json::parse_event_t, Json&) {
                if (depth > kDeepest) throw Malformed("values are nested too deeply");
                return true;
            });
        } catch (const Json::parse_error& error) {
            throw Broken(sentence_of(error.what()));
        }
    }

    std::size_t process(long pid) {
        const auto [place, fresh] = processes_.try_emplace(pid, recording_.processes.size());
        if (fresh) recording_.processes.push_back({file_, pid, {}, {}});
        return place->second;
    }

    void fill(Entry& entry, const Json& line) {
        entry.time = static_cast<std::uint64_t>(number<std::int64_t>(line, "t"));
        entry.process = process(number<long>(line, "pid"));
        entry.thread = number_or<long>(line, "tid", 0);
    }

    void take_process(const Json& line) {
        Process& found = recording_.processes[process(number<long>(line, "pid"))];
        found.host = text_or(line, "host");
        found.argv.clear();  // a process that executes another program says so again
        if (const Json* argv = get(line, "argv")) {
            if (!argv->is_array()) throw Malformed("\"argv\" is no list");
            for (const Json& word : *argv) found.argv.push_back(text_of(word));
        }
        if (found.argv.empty()) found.argv.push_back(text_or(line, "exe"));
    }

    void take_call(const Json& line, bool returned) {
        Call call;
        fill(call, line);
        call.depth = number_or(line, "depth", 0);
        call.name = text(line, "call");
        call.arguments = pairs(line, "args");
        const auto key = std::make_tuple(call.process, call.thread, call.time, call.name);
        if (!returned) {
            begun_[key] = std::move(call);
            return;
        }
        begun_.erase(key);
        call.duration = number_or<std::uint64_t>(line, "d", 0);
        call.out = pairs(line, "out");
        call.result = text_or(line, "ret");
        call.error = text_or(line, "errno");
        call.reason = text_or(line, "reason");
        call.empty = number_or<std::uint64_t>(line, "empty", 0);
        recording_.calls.push_back(std::move(call));
    }

    void take_completion(const Json& line) {
        Completion wc;
        fill(wc, line);
        wc.cq = text_or(line, "cq");
        wc.qp = number_or<std::uint32_t>(line, "qp", 0);
        wc.wr_id = text_or(line, "wr_id");
        wc.status = text(line, "status");
        wc.opcode = text_or(line, "opcode");
        wc.immediate = text_or(line, "imm");
        wc.bytes = number_or<std::uint64_t>(line, "byte_len", 0);
        wc.vendor_err = number_or<std::uint32_t>(line, "vendor_err", 0);
        wc.reason = text_or(line, "reason");
        recording_.completions.push_back(std::move(wc));
    }

    void take_cm_event(const Json& line) {
        CmEvent event;
        fill(event, line);
        event.id = text_or(line, "id");
        event.listen_id = text_or(line, "listen_id");
        event.event = text(line, "event");
        event.status = number_or(line, "status", 0);
        event.reason = text_or(line, "reason");
        event.parameters = pairs(line, "param");
        recording_.cm_events.push_back(std::move(event));
    }

    void take_async_event(const Json& line) {
        AsyncEvent event;
        fill(event, line);
        event.event = text(line, "event");
        event.element = text_or(line, "element");
        event.reason = text_or(line, "reason");
        recording_.async_events.push_back(std::move(event));
    }

    void take_transition(const Json& line) {
        Transition transition;
        fill(transition, line);
        transition.qp = number<std::uint32_t>(line, "qp");
        transition.from = text_or(line, "from");
        transition.to = text_or(line, "to");
        transition.type = text_or(line, "type");
        transition.attributes = pairs(line, "attr");
        recording_.transitions.push_back(std::move(transition));
    }

    void take_packet(const Json& line) {
        RecordedPacket packet;
        packet.file = file_;
        const auto bytes = frame_of(text(line, "frame"));
        if (!link::read_ip_packet(bytes, packet.captured))
            throw Malformed("\"frame\" is not an IP packet with RoCE v2 in it");
        packet.captured.nanoseconds = static_cast<std::uint64_t>(number<std::int64_t>(line, "t"));
        packet.captured.comment = text_or(line, "comment");
        const std::string direction = text_or(line, "dir");
        if (direction == "out") packet.captured.direction = link::Direction::outbound;
        if (direction == "in") packet.captured.direction = link::Direction::inbound;
        recording_.packets.push_back(std::move(packet));
    }

    void take_loss(const Json& line) {
        const Process& loser = recording_.processes[process(number<long>(line, "pid"))];
        recording_.remarks.push_back(recording_.files[file_] + ": " + loser.name() + " could not write " +
                                     std::to_string(number<std::uint64_t>(line, "count")) + " events (" +
                                     text_or(line, "errno") + "); they are missing");
    }

    Recording& recording_;
    const unsigned file_;
    std::map<long, std::size_t> processes_;  // of this file, by pid
    std::map<std::tuple<std::size_t, long, std::uint64_t, std::string>, Call> begun_;
};

std::string place(const std::string& name, unsigned line) { return name + ":" + std::to_string(line) + ": "; }

// As std::getline, but of a line that is too long only the beginning, one byte more than it may have.
bool next_line(std::istream& stream, std::string& line) {
    constexpr int kEnd = std::istream::traits_type::eof();
    line.clear();
    for (int c; line.size() <= kLongestLine && (c = stream.rdbuf()->sbumpc()) != '\n';) {
        if (c == kEnd) return !line.empty();
        line.push_back(static_cast<char>(c));
    }
    return true;
}

bool read_lines(const std::string& name, std::istream& stream, unsigned file, Recording& recording,
                std::string& error) {
    Reader reader(recording, file);
    unsigned number = 0, read = 0, broken = 0;
    std::string first_broken;
    for (std::string line; next_line(stream, line);) {
        number++;
        if (line.size() > kLongestLine)
            return error = place(name, number) + "the line is longer than " + std::to_string(kLongestLine) +
                           " bytes",
                   false;
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        try {
            reader.take(line);
            read++;
        } catch (const Broken& what) {
            if (broken++ == 0) first_broken = place(name, number) + what.what();
        } catch (const Malformed& what) {
            return error = place(name, number) + what.what(), false;
        } catch (const Json::exception& what) {
            return error = place(name, number) + sentence_of(what.what()), false;
        }
    }
    if (read == 0 && broken) return error = first_broken, false;  // no recording at all
    if (broken) recording.remarks.push_back(first_broken + "; the line is left out");
    if (broken > 1)
        recording.remarks.push_back(name + ": likewise " + std::to_string(broken - 1) + " other lines");
    reader.end();
    return true;
}

constexpr std::size_t kEnoughToTell = 28;  // bytes of a file, which say whether it is a capture

}  // namespace

bool read_recording(const std::string& name, Recording& recording, std::string& error) {
    std::ifstream stream(name, std::ios::binary);
    if (!stream.is_open() || stream.peek() == std::ifstream::traits_type::eof()) {
        error = name + (stream.is_open() && !stream.bad() ? " is empty" : " cannot be read");
        return false;
    }
    return read_recording(name, stream, recording, error);
}

bool read_recording(const std::string& name, std::istream& stream, Recording& recording, std::string& error) {
    const auto file = static_cast<unsigned>(recording.files.size());
    recording.files.push_back(name);
    std::vector<std::uint8_t> begin;
    for (int c; begin.size() < kEnoughToTell && (c = stream.get()) != std::istream::traits_type::eof();)
        begin.push_back(static_cast<std::uint8_t>(c));
    stream.clear();
    stream.seekg(0);
    if (!stream) return error = name + " is a pipe; a file is needed", false;
    const bool classic = is_classic_pcap(begin);
    if (!classic && !link::is_capture(begin)) return read_lines(name, stream, file, recording, error);
    const std::vector<std::uint8_t> content{std::istreambuf_iterator<char>(stream), {}};
    Unread unread;
    std::vector<link::CapturedPacket> packets;
    if (classic)
        packets = link::packets_of_capture(from_classic_pcap(content, unread), &unread.gaps);
    else if (has_other_links(content))
        packets = link::packets_of_capture(without_link_headers(content, unread), &unread.gaps);
    else
        packets = link::packets_of_capture(content, &unread.gaps);
    for (const std::string& sentence : sentences_of(unread))
        recording.remarks.push_back(std::string(name).append(": ").append(sentence));
    link::merge_captures(packets);
    for (auto& packet : packets) recording.packets.push_back({std::move(packet), file, false});
    return true;
}

std::string Process::name() const {
    std::string program = argv.empty() ? "" : argv[0];
    if (const std::size_t slash = program.rfind('/'); slash != std::string::npos) program.erase(0, slash + 1);
    return program + (program.empty() ? "pid " : " (pid ") + std::to_string(pid) +
           (program.empty() ? "" : ")");
}

namespace {
template <class Visit>
void for_each_time(const Recording& recording, Visit visit) {
    for (const auto& call : recording.calls) visit(call.time), visit(call.time + call.duration);
    for (const auto& each : recording.completions) visit(each.time);
    for (const auto& each : recording.cm_events) visit(each.time);
    for (const auto& each : recording.async_events) visit(each.time);
    for (const auto& each : recording.transitions) visit(each.time);
    for (const auto& each : recording.packets) visit(each.captured.nanoseconds);
}
}  // namespace

std::uint64_t Recording::first_time() const {
    std::uint64_t first = UINT64_MAX;
    for_each_time(*this, [&](std::uint64_t time) { first = std::min(first, time); });
    return first == UINT64_MAX ? 0 : first;
}

std::uint64_t Recording::last_time() const {
    std::uint64_t last = 0;
    for_each_time(*this, [&](std::uint64_t time) { last = std::max(last, time); });
    return last;
}

}  // namespace verbena::report
