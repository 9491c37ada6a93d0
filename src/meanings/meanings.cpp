#include "meanings/meanings.h"

#include <strings.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "transport/vendor_error.h"
#include "wire/cm_messages.h"

namespace verbena::meanings {

extern const char* const kMeaningTexts[];  // generated: the files, and nullptr at the end

namespace {

[[noreturn]] void malformed(const std::string& line) {
    std::fprintf(stderr, "verbena: the built-in texts have a line that nobody understands: %s\n",
                 line.c_str());
    std::abort();
}

// "= wc 12 IBV_WC_RETRY_EXC_ERR", "= errno EINVAL", "= call ibv_reg_mr EFAULT", "= reject 8".
Meaning parse_header(const std::string& line) {
    std::istringstream words(line.substr(2));
    Meaning meaning;
    std::string word;
    words >> meaning.kind >> word;
    if (meaning.kind == "errno") {
        meaning.name = word;
        meaning.number = errno_of(word);
    } else if (meaning.kind == "call") {
        meaning.name = word;
        words >> word;
        meaning.number = errno_of(word);
    } else {
        char* end;
        meaning.number = static_cast<int>(std::strtol(word.c_str(), &end, 0));
        if (*end) malformed(line);
        std::getline(words >> std::ws, meaning.name);
    }
    if ((meaning.kind == "errno" || meaning.kind == "call") && meaning.number == 0) malformed(line);
    return meaning;
}

std::vector<Meaning> parse_all() {
    std::vector<Meaning> parsed;
    for (const char* const* text = kMeaningTexts; *text; text++) {
        std::istringstream lines(*text);
        for (std::string line; std::getline(lines, line);) {
            if (line.empty() || line[0] == '#') continue;
            if (line.rfind("= ", 0) == 0)
                parsed.push_back(parse_header(line));
            else if (!parsed.empty() && line.rfind("en: ", 0) == 0)
                parsed.back().text[english] = line.substr(4);
            else if (!parsed.empty() && line.rfind("zh: ", 0) == 0)
                parsed.back().text[chinese] = line.substr(4);
            else
                malformed(line);
        }
    }
    return parsed;
}

bool same(std::string_view a, std::string_view b) {
    return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string numbered(const char* format, int number) {
    char text[96];
    std::snprintf(text, sizeof text, format, static_cast<unsigned>(number), static_cast<unsigned>(number));
    return text;
}

}  // namespace

const std::vector<Meaning>& all() {
    static const std::vector<Meaning> parsed = parse_all();
    return parsed;
}

Language language_of(std::string asked) {
    for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"})
        if (const char* value = std::getenv(name); asked.empty() && value) asked = value;
    return asked.rfind("zh", 0) == 0 ? chinese : english;
}

std::string heading(const Meaning& meaning, Language language) {
    struct Kind {
        const char* name;
        const char* text[2];
    };
    static constexpr Kind kKinds[] = {
        {"wc", {"completion status %u", "完成状态 %u"}},
        {"vendor_err", {"vendor_err 0x%04x (%u)", "vendor_err 0x%04x（%u）"}},
        {"async", {"asynchronous event %u", "异步事件 %u"}},
        {"event", {"connection manager event %u", "连接管理事件 %u"}},
        {"reject", {"reject reason %u", "拒绝原因 %u"}},
        {"sidr", {"SIDR status %u", "SIDR 状态 %u"}},
        {"nak", {"NAK code %u", "NAK 代码 %u"}},
        {"syndrome", {"AETH syndrome, upper bits %u", "AETH syndrome 高位 %u"}},
        {"errno", {"errno %u", "errno %u"}},
    };
    for (const Kind& kind : kKinds)
        if (meaning.kind == kind.name) return numbered(kind.text[language], meaning.number);
    return strerrorname_np(meaning.number);  // of a call
}

std::string sentence_of(const Meaning& meaning) {
    if (meaning.kind == "vendor_err")
        return transport::to_string(static_cast<transport::VendorError>(meaning.number));
    if (meaning.kind == "reject") {
        const char* text = wire::to_string(static_cast<wire::RejReason>(meaning.number));
        return std::strcmp(text, "unknown reason") == 0 ? "reserved" : text;
    }
    if (meaning.kind == "errno") return strerrordesc_np(meaning.number);
    return {};
}

const Meaning* find(std::string_view kind, int number, std::string_view name) {
    for (const Meaning& meaning : all())
        if (meaning.kind == kind && meaning.number == number && (name.empty() || same(meaning.name, name)))
            return &meaning;
    return nullptr;
}

const Meaning* find_name(std::string_view name) {
    for (const Meaning& meaning : all()) {
        if (meaning.kind == "call" || meaning.name.empty()) continue;
        for (const char* prefix : {"", "IBV_WC_", "IBV_EVENT_", "RDMA_CM_EVENT_"})
            if (same(meaning.name, prefix + std::string(name))) return &meaning;
    }
    return nullptr;
}

std::vector<const Meaning*> of_event(const Meaning& event, int status) {
    std::vector<const Meaning*> found{&event};
    const Meaning* more = nullptr;
    if (status > 0 && event.name == "RDMA_CM_EVENT_REJECTED") more = find("reject", status);
    if (status > 0 && event.name == "RDMA_CM_EVENT_UNREACHABLE") more = find("sidr", status);
    if (status < 0) more = find("call", -status, event.name);
    if (status < 0 && !more) more = find("errno", -status);
    if (more) found.push_back(more);
    return found;
}

std::vector<const Meaning*> of_call(std::string_view call, int error) {
    if (const Meaning* special = find("call", error, call)) return {special};
    if (const Meaning* general = find("errno", error)) return {general};
    return {};
}

int errno_of(const std::string& word) {
    char* end;
    const long number = std::labs(std::strtol(word.c_str(), &end, 0));
    if (!word.empty() && !*end)
        return number < 4096 && strerrorname_np(static_cast<int>(number)) ? static_cast<int>(number) : 0;
    for (int error = 1; error < 200; error++)
        if (const char* name = strerrorname_np(error); name && strcasecmp(name, word.c_str()) == 0)
            return error;
    return strcasecmp(word.c_str(), "ENOTSUP") == 0 ? EOPNOTSUPP : 0;
}

}  // namespace verbena::meanings
