// The page's data is JSON in a script element that no browser executes; the page's script shows it with
// textContent alone. So nothing of a recording is ever markup: in the JSON every < is written as an escape,
// in the pictures as an entity.

#include "report/page.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/conversation.h"
#include "report/ladder.h"
#include "report/markup.h"
#include "report/page_files.h"
#include "report/series.h"
#include "report/trouble.h"
#include "wire/describe.h"

namespace verbena::report {
namespace {

using Json = nlohmann::ordered_json;

// Text of a recording may come from anywhere: what is no UTF-8 is replaced.
std::string dump(const Json& json) {
    std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace), all;
    for (const char c : text)
        if (c == '<')
            all += "\\u003c";
        else
            all += c;
    return all;
}

class Page {
   public:
    Page(const Recording& recording, Language language, const PageLimits& limits)
        : recording_(recording), language_(language), limits_(limits), start_(recording.first_time()) {
        conversations_ = find_conversations(recording, views_);
    }

    std::string run() {
        find_steps(recording_, views_, conversations_, 0, limits_.conversations);
        Json data;
        data["language"] = language_ == Language::chinese ? "zh" : "en";
        data["version"] = VERBENA_VERSION;
        for (const auto& [key, text] : words(language_)) data["words"][key] = text;
        data["files"] = recording_.files;
        data["remarks"] = recording_.remarks;
        data["start"] = std::to_string(start_);  // nanoseconds, more than a double holds
        data["duration"] = milliseconds(recording_.last_time());
        data["programs"] = programs();
        data["counts"] = {{"packets", recording_.packets.size()},
                          {"calls", recording_.calls.size()},
                          {"completions", recording_.completions.size()}};
        data["troubles"] = troubles();
        data["conversations"] = conversations();
        data["qps"] = queue_pairs();
        data["series"] = series();
        data["calls"] = calls();
        data["left_out"]["calls"] = calls_left_out_;
        data["packets"] = packets();
        data["left_out"]["packets"] = packets_left_out_;
        data["left_out"]["troubles"] = troubles_left_out_;
        data["left_out"]["qps"] = qps_left_out_;
        data["field_names"] = field_names_;

        return filled({{"LANGUAGE", language_ == Language::chinese ? "zh" : "en"},
                       {"TITLE", escaped(word("title", language_))},
                       {"CSS", std::string(kLadderCss) + kPageCss},
                       {"LADDERS", pictures()},
                       {"SCRIPT", kPageScript},
                       {"DATA", dump(data)}});
    }

    std::string picture(std::size_t number, std::string& error) {
        if (number >= 1 && number <= conversations_.size()) {
            find_steps(recording_, views_, conversations_, number - 1, 1);
            return draw_ladder(recording_, conversations_[number - 1], {false, true, language_});
        }
        error = conversations_.empty() ? "there is no conversation in it to draw"
                                       : "there is no conversation " + std::to_string(number) + ", only " +
                                             std::to_string(conversations_.size());
        return {};
    }

   private:
    // The template with its marks, "{{NAME}}", replaced; what replaces them is not looked at for marks.
    static std::string filled(const std::map<std::string, std::string>& values) {
        const std::string text = kPageHtml;
        std::string page;
        std::size_t at = 0;
        for (std::size_t mark; (mark = text.find("{{", at)) != std::string::npos;) {
            const std::size_t end = text.find("}}", mark);
            page += text.substr(at, mark - at) + values.at(text.substr(mark + 2, end - mark - 2));
            at = end + 2;
        }
        return page + text.substr(at);
    }

    double milliseconds(std::uint64_t time) const {
        return static_cast<double>(static_cast<std::int64_t>(time - start_)) / 1e6;
    }

    Json programs() const {
        Json all = Json::array();
        for (const Process& process : recording_.processes) {
            std::string command;
            for (const std::string& each : process.argv) command += (command.empty() ? "" : " ") + each;
            all.push_back({{"name", process.name()},
                           {"pid", process.pid},
                           {"host", process.host},
                           {"command", command},
                           {"file", recording_.files[process.file]}});
        }
        return all;
    }

    Json troubles() {
        Json all = Json::array();
        auto found = find_troubles(recording_, views_, language_);
        for (const Trouble& trouble : found) {
            if (all.size() == limits_.troubles) break;
            Json explanations = Json::array();
            for (const auto& [heading, text] : trouble.explanations) explanations.push_back({heading, text});
            Json entry = {{"t", milliseconds(trouble.time)}, {"who", trouble.who},
                          {"title", trouble.title},          {"reason", trouble.reason},
                          {"count", trouble.count},          {"explanations", explanations}};
            if (trouble.expected) entry["expected"] = true;
            if (trouble.packet != kNone) wanted_.insert(trouble.packet), entry["packet"] = trouble.packet;
            all.push_back(entry);
        }
        troubles_left_out_ = found.size() - all.size();
        return all;
    }

    // For those who read the page by a program; people see the pictures.
    Json conversations() {
        static constexpr const char* kKinds[] = {"connection", "service", "multicast", "queue_pairs"};
        static constexpr const char* kWhat[] = {"message", "packet",     "traffic",   "call",
                                                "event",   "transition", "completion"};
        Json all = Json::array();
        for (const Conversation& conversation : conversations_) {
            if (all.size() == limits_.conversations) break;
            Json steps = Json::array();
            for (const Step& step : conversation.steps) {
                Json one = {{"what", kWhat[static_cast<int>(step.what)]},
                            {"t", milliseconds(step.time)},
                            {"side", step.side},
                            {"label", step.label}};
                if (!step.details.empty()) one["details"] = step.details;
                if (step.what == What::message) {
                    one["before"] = {step.before[0], step.before[1]};
                    one["after"] = {step.after[0], step.after[1]};
                }
                if (step.packet != kNone) one["packet"] = step.packet, wanted_.insert(step.packet);
                if (step.packets > 1) one["packets"] = step.packets;
                for (const auto& [name, set] :
                     {std::pair("lost", step.lost), {"again", step.repeated}, {"bad", step.bad}})
                    if (set) one[name] = true;
                if (!step.remark.empty()) one["remark"] = step.remark;
                steps.push_back(one);
            }
            all.push_back({{"kind", kKinds[static_cast<int>(conversation.kind)]},
                           {"title", title(conversation)},
                           {"steps", steps}});
        }
        return all;
    }

    std::string title(const Conversation& conversation) const {
        static constexpr const char* kKinds[] = {"connection", "service", "multicast", "queue_pairs"};
        return std::string(word(kKinds[static_cast<int>(conversation.kind)], language_)) + ": " +
               address_of(conversation, kLeft, language_) + " → " +
               address_of(conversation, kRight, language_);
    }

    std::string pictures() const {
        std::string all;
        for (std::size_t i = 0; i < conversations_.size() && i < limits_.conversations; i++) {
            all += "<details class=\"conversation\"" + std::string(i < 3 ? " open" : "") + "><summary>" +
                   std::to_string(i + 1) + ". " + escaped(title(conversations_[i])) + "</summary>\n";
            all += draw_ladder(recording_, conversations_[i], {false, false, language_});
            all += draw_ladder(recording_, conversations_[i], {true, false, language_});
            all += "</details>\n";
        }
        if (conversations_.size() > limits_.conversations)
            all += "<p class=\"note\">" + std::to_string(conversations_.size() - limits_.conversations) +
                   " " + escaped(word("left_out_conversations", language_)) + "</p>";
        if (conversations_.empty())
            all += "<p class=\"note\">" + escaped(word("no_packets", language_)) + "</p>";
        return all;
    }

    Json queue_pairs() {
        std::map<std::pair<std::size_t, std::uint32_t>, Json> lanes;
        for (const Transition& transition : recording_.transitions)
            lanes[{transition.process, transition.qp}].push_back(
                {milliseconds(transition.time), transition.to});
        Json all = Json::array();
        for (const auto& [key, states] : lanes) {
            if (all.size() == kMostLanes) {
                qps_left_out_ = lanes.size() - kMostLanes;
                break;
            }
            all.push_back({{"program", key.first}, {"qp", key.second}, {"states", states}});
        }
        return all;
    }

    Json series() const {
        const Series found = make_series(recording_, views_);
        return {{"start", milliseconds(found.start)},
                {"step", static_cast<double>(found.step) / 1e6},
                {"bytes", found.bytes},
                {"packets", found.packets},
                {"messages", found.messages},
                {"completions", found.completions},
                {"failed", found.failed},
                {"repeated", found.repeated}};
    }

    static std::string text_of(const Pairs& pairs) {
        std::string text;
        for (const auto& [name, value] : pairs) {
            if (!text.empty()) text += ", ";
            text.append(name).append("=").append(value);
        }
        return text;
    }

    Json calls() {
        Json all = Json::array();
        std::size_t good = 0, bad = 0;
        for (const Call& call : recording_.calls) (call.failed() || call.hung ? bad : good)++;
        std::size_t room = limits_.calls > bad ? limits_.calls - bad : 0;
        for (const Call& call : recording_.calls) {
            const bool failed = call.failed() || call.hung;
            if (failed ? all.size() >= limits_.calls : room == 0) {
                calls_left_out_++;
                continue;
            }
            if (!failed) room--;
            Json one = {{"t", milliseconds(call.time)},
                        {"p", call.process},
                        {"d", static_cast<double>(call.duration) / 1e3},
                        {"n", call.name},
                        {"a", text_of(call.arguments)},
                        {"r", call.result}};
            if (!call.out.empty()) one["o"] = text_of(call.out);
            if (call.depth) one["depth"] = call.depth;
            if (call.empty) one["empty"] = call.empty;
            if (failed) one["bad"] = true;
            if (!call.finished) one["unfinished"] = true;
            if (!call.error.empty()) one["e"] = call.error;
            if (!call.reason.empty()) one["why"] = call.reason;
            all.push_back(one);
        }
        return all;
    }

    // Everything that tells something, and of the rest as much from the beginning as from the end.
    std::vector<std::size_t> chosen_packets() const {
        const std::size_t count = recording_.packets.size();
        std::vector<bool> chosen(count, count <= limits_.packets);
        if (count > limits_.packets) {
            std::size_t room = limits_.packets;
            auto choose = [&](std::size_t i) {
                if (room && !chosen[i]) chosen[i] = true, room--;
            };
            for (const std::size_t i : wanted_) choose(i);
            for (std::size_t i = 0; i < count; i++)
                if (views_[i].cm || views_[i].refusal || views_[i].repeated || !views_[i].valid ||
                    recording_.packets[i].lost)
                    choose(i);
            for (std::size_t i = 0, j = count; i < j && room; i++) choose(i), choose(--j);
        }
        std::vector<std::size_t> all;
        for (std::size_t i = 0; i < count; i++)
            if (chosen[i]) all.push_back(i);
        return all;
    }

    Json packets() {
        const auto chosen = chosen_packets();
        packets_left_out_ = recording_.packets.size() - chosen.size();
        Json all = Json::array();
        for (const std::size_t i : chosen) {
            const RecordedPacket& packet = recording_.packets[i];
            const ViewedPacket& view = views_[i];
            Json one = {{"i", i},
                        {"t", milliseconds(packet.captured.nanoseconds)},
                        {"s", to_string(packet.captured.path.source)},
                        {"d", to_string(packet.captured.path.destination)}};
            if (view.valid) {
                one["o"] = wire::info(view.parsed.headers.bth.opcode).name;
                one["q"] = view.parsed.headers.bth.destination_qp;
                one["text"] = wire::describe(view.parsed);
            } else {
                one["o"] = word("malformed", language_);
                one["text"] = wire::hex(packet.captured.bytes, kMalformedShown);
            }
            if (!packet.captured.comment.empty()) one["c"] = packet.captured.comment;
            if (view.repeated) one["again"] = true;
            if (packet.lost) one["lost"] = true;
            if (view.refusal) one["bad"] = true;
            one["f"] = fields(packet.captured, view);
            all.push_back(one);
        }
        return all;
    }

    // [name, value, name, value ...] with names as numbers in field_names.
    Json fields(const link::CapturedPacket& captured, const ViewedPacket& view) {
        Json all = Json::array();
        auto add = [&](const std::vector<wire::Field>& fields) {
            for (const wire::Field& field : fields) {
                const auto [at, added] =
                    field_numbers_.try_emplace({field.header, field.name}, field_numbers_.size());
                if (added) field_names_.push_back({field.header, field.name});
                all.push_back(at->second);
                all.push_back(field.value);
            }
        };
        add(wire::fields(captured.path, captured.destination_port));
        if (view.valid) add(wire::fields(view.parsed));
        return all;
    }

    static constexpr std::size_t kMostLanes = 64;
    static constexpr std::size_t kMalformedShown = 64;  // bytes

    const Recording& recording_;
    const Language language_;
    const PageLimits limits_;
    const std::uint64_t start_;
    std::vector<ViewedPacket> views_;
    std::vector<Conversation> conversations_;
    std::set<std::size_t> wanted_;  // packets that the pictures and errors point at
    std::size_t calls_left_out_ = 0, packets_left_out_ = 0, troubles_left_out_ = 0, qps_left_out_ = 0;
    Json field_names_ = Json::array();
    std::map<std::pair<std::string, std::string>, std::size_t> field_numbers_;
};

}  // namespace

std::string make_page(const Recording& recording, Language language, const PageLimits& limits) {
    return Page(recording, language, limits).run();
}

std::string make_picture(const Recording& recording, Language language, std::size_t number,
                         std::string& error) {
    return Page(recording, language, {}).picture(number, error);
}

}  // namespace verbena::report
