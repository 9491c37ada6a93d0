#include "faults/parse.h"

#include <signal.h>

#include <cstring>
#include <optional>
#include <set>

#include "faults/words.h"
#include "wire/opcode.h"
#include "wire/psn.h"

namespace verbena::faults {
namespace {

struct Word {
    std::string_view text;
    unsigned column;
};

constexpr std::string_view kSpaces = " \t\r";

std::vector<Word> words_of(std::string_view statement, unsigned column) {
    std::vector<Word> words;
    for (std::size_t at = statement.find_first_not_of(kSpaces); at != std::string_view::npos;) {
        const std::size_t end = std::min(statement.find_first_of(kSpaces, at), statement.size());
        words.push_back({statement.substr(at, end - at), column + static_cast<unsigned>(at)});
        at = statement.find_first_not_of(kSpaces, end);
    }
    return words;
}

struct ActionWord {
    std::string_view name;
    Action action;
};
constexpr ActionWord kActions[] = {
    {"drop", Action::drop},   {"duplicate", Action::duplicate}, {"reorder", Action::reorder},
    {"delay", Action::delay}, {"corrupt", Action::corrupt},     {"nak", Action::nak},
    {"rnr", Action::rnr},     {"kill", Action::kill},           {"refuse", Action::refuse},
    {"fail", Action::fail},   {"link", Action::link_down},      {"device", Action::device_fatal},
};

// One statement: an action, then conditions in any order.
class Statement {
   public:
    Statement(std::vector<Word> words, PlanError& error) : words_(std::move(words)), error_(error) {}

    bool parse(Rule& out) {
        if (!action()) return false;
        for (; at_ < words_.size(); at_++)
            if (!condition(words_[at_])) return false;
        if (!complete()) return false;
        out = rule_;
        return true;
    }

   private:
    bool wrong(const Word& word, std::string what) {
        error_.column = word.column;
        error_.what = std::move(what);
        return false;
    }
    static std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

    // `text` behind the first '='.
    static Word value_of(const Word& word) {
        const std::size_t at = word.text.find('=');
        if (at == std::string_view::npos) return {{}, word.column + static_cast<unsigned>(word.text.size())};
        return {word.text.substr(at + 1), word.column + static_cast<unsigned>(at) + 1};
    }

    bool action() {
        const Word& word = words_[0];
        const std::string_view name = word.text.substr(0, word.text.find('='));
        for (const ActionWord& known : kActions)
            if (name == known.name) {
                rule_.action = known.action;
                if (rule_.action == Action::fail) rule_.subject = Subject::call;
                at_ = 1;
                return action_value(word, name, value_of(word));
            }
        return wrong(word,
                     quoted(name) +
                         " is no fault (drop, duplicate, reorder, delay, corrupt, nak, rnr, kill, refuse, "
                         "fail, link down, device fatal)");
    }

    bool action_value(const Word& word, std::string_view name, const Word& value) {
        const bool given = word.text.size() != name.size();
        switch (rule_.action) {
            case Action::delay:
                return !given || take_time(value);
            case Action::nak:
                if (!given) return wrong(word, "nak needs a code: nak=remote_access");
                return take(nak_of(value.text), rule_.code, value,
                            "no NAK code (psn_sequence, invalid_request, remote_access, remote_operational, "
                            "invalid_rd)");
            case Action::rnr:
                if (!given) return true;
                if (const auto timer = number_of(value.text); timer && *timer < 32) {
                    rule_.code = static_cast<std::int32_t>(*timer);
                    return true;
                }
                return wrong(value, quoted(value.text) + " is no RNR timer (0 to 31, IBA table 45)");
            case Action::kill:
                rule_.code = SIGKILL;
                return !given || take(signal_of(value.text), rule_.code, value, "no signal (KILL, TERM, 9)");
            case Action::link_down:
                return second_word("down", word, given);
            case Action::device_fatal:
                return second_word("fatal", word, given);
            default:
                if (given) return wrong(value, quoted(name) + " takes no value");
                return true;
        }
    }

    bool second_word(std::string_view wanted, const Word& word, bool given) {
        if (given || words_.size() < 2 || words_[1].text != wanted)
            return wrong(word, quoted(word.text) + ": 'link down' and 'device fatal' are what there is");
        rule_.subject = Subject::port;
        at_ = 2;
        return true;
    }

    template <class Value, class Target>
    bool take(const std::optional<Value>& value, Target& target, const Word& word, const char* what_not) {
        if (!value) return wrong(word, quoted(word.text) + " is " + what_not);
        target = static_cast<Target>(*value);
        return true;
    }

    bool take_time(const Word& word) {
        return take(duration_of(word.text), rule_.time, word, "no time (20ms, 1.5s, 100us)") &&
               (rule_.time > 0 || wrong(word, quoted(word.text) + " is no time at all"));
    }

    bool condition(const Word& word) {
        const std::size_t equals = word.text.find('=');
        if (equals == std::string_view::npos) {
            if (rule_.action == Action::delay && rule_.time == 0 && duration_of(word.text))
                return take_time(word);
            return wrong(word, quoted(word.text) + " is no condition: they look like nth=3");
        }
        const std::string_view key = word.text.substr(0, equals);
        if (!given_.insert(key).second) return wrong(word, quoted(key) + " stands here twice");
        return common(key, word, value_of(word));
    }

    bool common(std::string_view key, const Word& word, const Word& value) {
        if (key == "nth") return take_range(value);
        if (key == "times") {
            if (!take(number_of(value.text), rule_.times, value, "no number")) return false;
            return rule_.times > 0 || wrong(value, "times=0 would never fire");
        }
        if (key == "probability") return take_probability(value);
        if (key == "seed") return take(number_of(value.text), rule_.seed, value, "no number");
        if (key == "program") return take_text(value, rule_.program, "a program's name (its comm)");
        if (key == "cm") return take_messages(value);
        if (key == "call") return take_call(value);
        if (key == "errno" && rule_.action == Action::fail)
            return take(errno_of(value.text), rule_.code, value, "no errno (ENOMEM, 12)");
        if (key == "reason" && rule_.action == Action::refuse)
            return take(reject_of(value.text), rule_.code, value,
                        "no reject reason (consumer_reject, 28; verbena explain reject 28)");
        if (key == "for" && rule_.action == Action::link_down) return take_time(value);
        if (key == "dir") return take_direction(value);
        if (packet_condition(key)) return of_packets(key, value);
        return wrong(word, quoted(key) + " is no condition of '" + to_string(rule_.action) + "'" + hint(key));
    }

    static std::string hint(std::string_view key) {
        if (key == "errno") return "; it belongs to 'fail call=...'";
        if (key == "reason") return "; it belongs to 'refuse cm=REQ'";
        if (key == "for") return "; it belongs to 'link down'";
        return " (opcode, qp, dest_qp, psn, dir, cm, call, errno, nth, times, probability, seed, program)";
    }

    static bool packet_condition(std::string_view key) {
        return key == "opcode" || key == "qp" || key == "dest_qp" || key == "psn";
    }

    bool of_packets(std::string_view key, const Word& value) {
        packet_word_ = value;
        constexpr std::uint32_t kMask = 0xffffff;
        if (key == "opcode") return take_opcodes(value);
        if (key == "qp" || key == "dest_qp") {
            std::uint32_t& number = key == "qp" ? rule_.qp : rule_.destination_qp;
            (key == "qp" ? rule_.has_qp : rule_.has_destination_qp) = true;
            const auto given = number_of(value.text);
            if (given > kMask) return wrong(value, "queue pair numbers have 24 bits");
            return take(given, number, value, "no queue pair number");
        }
        rule_.has_psn = true;
        const std::size_t dots = value.text.find("..");
        const auto first = number_of(value.text.substr(0, dots));
        const auto last = dots == std::string_view::npos ? first : number_of(value.text.substr(dots + 2));
        if (!first || !last || *first > kMask || *last > kMask)
            return wrong(value, quoted(value.text) + " is no PSN or range of PSNs (100, 100..120; 24 bits)");
        rule_.first_psn = static_cast<std::uint32_t>(*first);
        rule_.last_psn = static_cast<std::uint32_t>(*last);
        return true;
    }

    bool take_opcodes(const Word& value) {
        rule_.opcodes = {};
        return each(value, [&](const Word& one) {
            return add_opcodes(one.text, rule_.opcodes) ||
                   wrong(one, quoted(one.text) +
                                  " is no opcode (RC_SEND_ONLY, UD_*, send, write, read, read_response, ack, "
                                  "atomic)");
        });
    }

    bool take_messages(const Word& value) {
        if (rule_.subject == Subject::packet) rule_.subject = Subject::cm;
        cm_word_ = value;
        return each(value, [&](const Word& one) {
            const auto message = message_of(one.text);
            if (!message)
                return wrong(one, quoted(one.text) +
                                      " is no CM message (REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, "
                                      "SIDR_REP, LAP, APR)");
            rule_.messages |= *message;
            return true;
        });
    }

    // The parts of a list with commas.
    template <class Take>
    bool each(const Word& list, Take take_one) {
        for (std::size_t at = 0; at <= list.text.size();) {
            const std::size_t comma = std::min(list.text.find(',', at), list.text.size());
            if (!take_one({list.text.substr(at, comma - at), list.column + static_cast<unsigned>(at)}))
                return false;
            at = comma + 1;
        }
        return true;
    }

    bool take_call(const Word& value) {
        if (rule_.action != Action::fail) return wrong(value, "only 'fail' is about calls");
        if (const std::string why = why_not_failing(value.text); !why.empty()) return wrong(value, why);
        return take_text(value, rule_.call, "a call's name");
    }

    template <std::size_t N>
    bool take_text(const Word& value, std::array<char, N>& out, const char* what) {
        if (value.text.empty() || value.text.size() >= N)
            return wrong(value, quoted(value.text) + " is not " + what + " of 1 to " + std::to_string(N - 1) +
                                    " letters");
        std::memcpy(out.data(), value.text.data(), value.text.size());
        return true;
    }

    bool take_range(const Word& value) {
        const std::size_t dots = value.text.find("..");
        const bool open = dots != std::string_view::npos && dots + 2 == value.text.size();
        const auto first = number_of(value.text.substr(0, dots));
        const auto last = dots == std::string_view::npos ? first
                          : open                         ? std::optional<std::uint64_t>(UINT64_MAX)
                                                         : number_of(value.text.substr(dots + 2));
        if (!first || !last || *first == 0 || *last < *first)
            return wrong(value, quoted(value.text) + " is no count (3, 3..5, 3..; the first is 1)");
        rule_.first = *first;
        rule_.last = *last;
        return true;
    }

    bool take_probability(const Word& value) {
        char text[32] = {};
        char* end = text;
        double chance = -1;
        if (value.text.size() < sizeof text) {
            std::memcpy(text, value.text.data(), value.text.size());
            chance = strtod(text, &end);
        }
        constexpr double kLeast = 1e-9;  // what a rule can hold is a little less
        if (value.text.empty() || *end != '\0' || !(chance >= kLeast && chance <= 1))
            return wrong(value, quoted(value.text) + " is no probability (1e-9 to 1)");
        constexpr double kScale = 4294967295.0;
        rule_.chance = chance >= 1 ? kAlways : static_cast<std::uint32_t>(chance * kScale);
        return true;
    }

    bool take_direction(const Word& value) {
        direction_word_ = value;
        if (value.text != "out" && value.text != "in")
            return wrong(value, quoted(value.text) + " is no direction (out, in)");
        rule_.direction = value.text == "in" ? Direction::in : Direction::out;
        return true;
    }

    // What does not go together.
    bool complete() {
        const Word& first = words_[0];
        const bool incoming = rule_.direction == Direction::in;
        if (rule_.subject == Subject::cm && rule_.program[0])
            return wrong(*cm_word_,
                         "CM messages are the daemon's, for all programs of the fabric: without program=");
        if (rule_.subject == Subject::cm && packet_word_)
            return wrong(*packet_word_, "a rule about CM messages has no conditions of packets");
        switch (rule_.action) {
            case Action::fail:
                if (!rule_.call[0])
                    return wrong(first, "fail needs the call: fail call=ibv_reg_mr errno=ENOMEM");
                if (rule_.code == 0) return wrong(first, "fail needs the error: errno=ENOMEM");
                if (packet_word_)
                    return wrong(*packet_word_, "a rule about calls has no conditions of packets");
                if (cm_word_) return wrong(*cm_word_, "a rule about calls has no conditions of CM messages");
                if (direction_word_) return wrong(*direction_word_, "calls have no direction");
                return true;
            case Action::refuse: {
                constexpr std::uint32_t kReq = 1;
                if (rule_.messages != kReq)
                    return wrong(cm_word_ ? *cm_word_ : first, "what can be refused is a REQ: refuse cm=REQ");
                constexpr std::int32_t kConsumerReject = 28;
                if (rule_.code == 0) rule_.code = kConsumerReject;
                return true;
            }
            case Action::delay:
                if (rule_.time == 0) return wrong(first, "delay needs a time: delay=20ms");
                return true;
            case Action::nak:
            case Action::rnr:
                if (rule_.subject == Subject::cm)
                    return wrong(*cm_word_, "CM messages have no NAKs; they are refused: refuse cm=REQ");
                if (incoming)
                    return wrong(
                        *direction_word_,
                        "a NAK answers a request that leaves; give this rule to the program that sends "
                        "it");
                return only_requests();
            case Action::reorder:
            case Action::corrupt:
                if (rule_.subject == Subject::cm && rule_.action == Action::reorder)
                    return wrong(first,
                                 "CM messages follow each other too slowly; delay them: delay=20ms cm=RTU");
                return true;
            case Action::kill:
                if (rule_.subject == Subject::cm)
                    return wrong(
                        *cm_word_,
                        "CM messages are the daemon's, which nobody wants to kill; name a packet of the "
                        "program: kill opcode=send nth=3");
                return true;
            case Action::link_down:
            case Action::device_fatal:
                if (cm_word_)
                    return wrong(*cm_word_, "a link goes down by a packet: link down opcode=send nth=3");
                rule_.at_once = !packet_word_ && !direction_word_ && given_.count("nth") == 0 &&
                                given_.count("probability") == 0;
                return true;
            default:
                return true;
        }
    }

    // A NAK or RNR NAK answers requests of RC and XRC.
    bool only_requests() {
        bool any = false;
        for (unsigned opcode = 0; opcode < 256; opcode++) {
            const wire::OpcodeInfo& info = wire::info(static_cast<wire::Opcode>(opcode));
            const bool can = info.valid && info.request &&
                             (info.service == wire::Service::rc || info.service == wire::Service::xrc);
            if (!can) rule_.opcodes[opcode >> 6] &= ~(1ull << (opcode & 63));
            any = any || (can && rule_.takes_opcode(static_cast<std::uint8_t>(opcode)));
        }
        return any || wrong(*packet_word_, "only requests of RC and XRC are answered by NAKs");
    }

    const std::vector<Word> words_;
    PlanError& error_;
    std::size_t at_ = 0;
    Rule rule_;
    std::set<std::string_view> given_;
    std::optional<Word> packet_word_, cm_word_, direction_word_;
};

}  // namespace

const char* to_string(Action action) {
    switch (action) {
        case Action::link_down:
            return "link down";
        case Action::device_fatal:
            return "device fatal";
        default:
            for (const ActionWord& known : kActions)
                if (known.action == action) return known.name.data();
            return "unknown";
    }
}

std::string PlanError::to_string() const {
    return (line > 1 ? "line " + std::to_string(line) + ", column " : "column ") + std::to_string(column) +
           ": " + what;
}

bool parse_plan(std::string_view text, std::vector<PlannedRule>& rules, PlanError& error) {
    error = {};
    rules.clear();
    unsigned number = 0;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line = text.substr(at, end - at);
        line = line.substr(0, line.find('#'));
        number++;
        for (std::size_t begin = 0; begin <= line.size();) {
            const std::size_t semicolon = std::min(line.find(';', begin), line.size());
            const std::string_view part = line.substr(begin, semicolon - begin);
            std::vector<Word> words = words_of(part, static_cast<unsigned>(begin) + 1);
            begin = semicolon + 1;
            if (words.empty()) continue;
            PlannedRule planned;
            const char* last = words.back().text.data() + words.back().text.size();
            planned.text.assign(words.front().text.data(), last);
            error.line = number;
            if (!Statement(std::move(words), error).parse(planned.rule)) return false;
            rules.push_back(std::move(planned));
        }
        at = end + 1;
    }
    if (!rules.empty()) return true;
    error = {1, 1, "there is no fault in this plan"};
    return false;
}

}  // namespace verbena::faults
