#include "tool/explain.h"

#include <strings.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "meanings/meanings.h"
#include "transport/retransmission.h"

namespace verbena::tool {
namespace {

using namespace meanings;

using Found = std::vector<const Meaning*>;

bool same(std::string_view a, std::string_view b) {
    return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<int> number_of(const std::string& word) {
    char* end;
    errno = 0;
    const long number = std::strtol(word.c_str(), &end, 0);
    if (word.empty() || *end || errno || !std::in_range<int>(number) || number == INT_MIN)
        return std::nullopt;
    return static_cast<int>(number);
}

// English is broken into lines; a terminal breaks Chinese anywhere.
void print_text(const std::string& text, Language language) {
    constexpr std::size_t kWidth = 96;
    std::size_t at = 0;
    while (language == english && text.size() - at > kWidth) {
        const std::size_t blank = text.rfind(' ', at + kWidth);
        if (blank == std::string::npos || blank <= at) break;
        std::printf("  %s\n", text.substr(at, blank - at).c_str());
        at = blank + 1;
    }
    std::printf("  %s\n", text.substr(at).c_str());
}

void print(const Meaning& meaning, Language language) {
    const std::string said = sentence_of(meaning);
    std::string line = meaning.name;
    const std::string number = heading(meaning, language);
    if (line.empty())
        line = number;
    else if (meaning.kind == "call")
        line += " " + number;
    else
        line += " (" + number + ")";
    // The Chinese text of a vendor_err begins with what the English sentence says.
    if (!said.empty() && (language == english || meaning.kind != "vendor_err")) line += ": " + said;
    std::printf("%s\n", line.c_str());
    print_text(meaning.text[language], language);
}

// What people write instead of the kinds' names.
std::string kind_of(const std::string& word) {
    static constexpr const char* kAlso[][2] = {
        {"status", "wc"},  {"vendor", "vendor_err"}, {"completion", "wc"}, {"cm", "event"},
        {"rej", "reject"}, {"rejected", "reject"},   {"reason", "reject"}, {"aeth", "syndrome"}};
    for (const auto& [alias, kind] : kAlso)
        if (same(word, alias)) return kind;
    for (const Meaning& meaning : all())
        if (same(word, meaning.kind)) return std::string(meaning.kind);
    return {};
}

bool is_call(const std::string& word) {
    return word.rfind("ibv_", 0) == 0 || (word.rfind("rdma_", 0) == 0 && word.find("event_") != 5);
}

// The AETH's first byte: two bits of kind, five of value.
bool explain_syndrome(int syndrome, Language language) {
    const Meaning* kind = find("syndrome", syndrome >> 5 & 3);
    if (!kind || syndrome < 0 || syndrome > 0xff) return false;
    print(*kind, language);
    if (kind->number == 1)
        std::printf("  %.2f ms\n", static_cast<double>(transport::rnr_wait(syndrome & 31)) / kMillisecond);
    if (const Meaning* nak = kind->number == 3 ? find("nak", syndrome & 31) : nullptr) print(*nak, language);
    return true;
}

// Two words that belong together; empty if they do not.
Found pair(const std::string& first, const std::string& second) {
    const std::optional<int> number = number_of(second);
    if (const std::string kind = kind_of(first); !kind.empty()) {
        const Meaning* meaning = kind == "errno" ? find(kind, errno_of(second))
                                 : number        ? find(kind, *number)
                                                 : find_name(second);
        return meaning ? Found{meaning} : Found{};
    }
    const Meaning* event = find_name(first);
    if (event && event->kind == "event" && number) return of_event(*event, *number);
    if (event && event->kind == "wc" && number && find("vendor_err", *number))
        return {event, find("vendor_err", *number)};
    if (is_call(first) && errno_of(second)) return of_call(first, errno_of(second));
    return {};
}

// One word alone: every meaning that it may have.
Found alone(const std::string& word) {
    if (const std::optional<int> number = number_of(word)) {
        Found found;
        if (*number < 0) {
            if (const Meaning* meaning = find("errno", -*number)) found.push_back(meaning);
            return found;
        }
        for (const Meaning& meaning : all())
            if (meaning.number == *number && meaning.kind != "call" && meaning.kind != "syndrome")
                found.push_back(&meaning);
        return found;
    }
    const std::string kind = kind_of(word);
    if (const Meaning* meaning = kind.empty() ? find_name(word) : nullptr) return {meaning};
    Found found;
    for (const Meaning& meaning : all())
        if (meaning.kind == kind || (meaning.kind == "call" && same(meaning.name, word)))
            found.push_back(&meaning);
    return found;
}

// "remote access error": in names and sentences.
Found search(const std::string& text) {
    Found found;
    for (const Meaning& meaning : all())
        for (const std::string& place :
             {meaning.name, sentence_of(meaning), meaning.text[english], meaning.text[chinese]})
            if (strcasestr(place.c_str(), text.c_str())) {
                found.push_back(&meaning);
                break;
            }
    return found;
}

void print_markdown() {
    struct Table {
        const char* kind;
        const char* title;
        const char* columns;
    };
    static constexpr Table kTables[] = {
        {"wc", "Completions: `ibv_wc::status`", "| | | |\n|---|---|---|"},
        {"vendor_err", "Completions: `ibv_wc::vendor_err`", "| hex | decimal | |\n|---|---|---|"},
        {"async", "Asynchronous events", "| | | |\n|---|---|---|"},
        {"event", "Connections: `rdma_cm_event`", "| | | |\n|---|---|---|"},
        {"reject", "Connections: the status of `RDMA_CM_EVENT_REJECTED` (IBA 12.6.7.2)",
         "| status | | |\n|---|---|---|"},
        {"sidr", "Connections: a positive status of `RDMA_CM_EVENT_UNREACHABLE` (SIDR, IBA 12.11.2.1)",
         "| status | |\n|---|---|"},
        {"nak", "Packets: the code of a NAK (IBA 9.7.5.2)", "| | | |\n|---|---|---|"},
        {"errno", "Calls: errno in general", "| | | |\n|---|---|---|"},
        {"call", "Calls: what an errno means for some", "| call or event | | |\n|---|---|---|"},
    };
    for (const Table& table : kTables) {
        std::printf("\n## %s\n\n%s\n", table.title, table.columns);
        for (const Meaning& m : all()) {
            if (m.kind != table.kind) continue;
            const char* text = m.text[english].c_str();
            if (m.kind == "vendor_err")
                std::printf("| 0x%04x | %d | %s. %s |\n", static_cast<unsigned>(m.number), m.number,
                            sentence_of(m).c_str(), text);
            else if (m.kind == "reject")
                std::printf("| %d | %s | %s |\n", m.number, sentence_of(m).c_str(), text);
            else if (m.kind == "sidr")
                std::printf("| %d | %s |\n", m.number, text);
            else if (m.kind == "call")
                std::printf("| `%s` | %s | %s |\n", m.name.c_str(), heading(m, english).c_str(), text);
            else
                std::printf("| %d | `%s` | %s |\n", m.number, m.name.c_str(), text);
        }
    }
}

// As typed, or pasted as one argument: "errno 22", "RDMA_CM_EVENT_REJECTED, 28".
std::vector<std::string> words_of(const std::vector<std::string>& arguments) {
    std::vector<std::string> words;
    for (const std::string& argument : arguments)
        for (std::size_t at = 0, end; (at = argument.find_first_not_of(" ,:", at)) != std::string::npos;
             at = end) {
            end = std::min(argument.find_first_of(" ,:", at), argument.size());
            words.push_back(argument.substr(at, end - at));
        }
    return words;
}

int print_all(const Found& found, Language language) {
    for (const Meaning* meaning : found) print(*meaning, language);
    return found.empty();
}

}  // namespace

int explain(const ExplainOptions& options) {
    const Language language = language_of(options.language);
    if (options.markdown) return print_markdown(), 0;
    const std::vector<std::string> words = words_of(options.code);
    if (words.empty()) {
        std::fprintf(stderr,
                     "verbena: explain what? For instance: verbena explain IBV_WC_RETRY_EXC_ERR, "
                     "wc 12, vendor_err 0x0311, RDMA_CM_EVENT_REJECTED 28, ibv_modify_qp EINVAL\n");
        return 2;
    }
    if (words.size() == 2) {
        if (kind_of(words[0]) == "syndrome")
            if (auto number = number_of(words[1]); number && explain_syndrome(*number, language)) return 0;
        if (const Found found = pair(words[0], words[1]); !found.empty()) return print_all(found, language);
        if (const std::string kind = kind_of(words[0]); !kind.empty() && number_of(words[1])) {
            std::fprintf(stderr, "verbena: there is no %s %s\n", kind.c_str(), words[1].c_str());
            return 1;
        }
    }
    Found found;
    std::string joined, unknown;
    for (const std::string& argument : options.code) joined += (joined.empty() ? "" : " ") + argument;
    for (const std::string& word : words) {
        const Found of_word = alone(word);
        found.insert(found.end(), of_word.begin(), of_word.end());
        if (of_word.empty() && unknown.empty()) unknown = word;
    }
    if (!unknown.empty()) found = search(joined);
    if (found.empty()) std::fprintf(stderr, "verbena: nothing is known of '%s'\n", joined.c_str());
    return print_all(found, language);
}

}  // namespace verbena::tool
