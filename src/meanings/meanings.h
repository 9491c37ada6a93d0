// The table behind `verbena explain`: what numbers of completions, events, packets and calls mean, in English
// and Chinese. The texts are data (texts/*.txt), compiled in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace verbena::meanings {

struct Meaning {
    std::string kind;  // wc, vendor_err, async, event, reject, sidr, nak, syndrome, errno, call
    int number = 0;    // of a call: the errno
    std::string name;  // IBV_WC_SUCCESS, EINVAL; of a call: the call's name
    std::string text[2];
};

enum Language { english, chinese };

// All entries, in the order of the files. Aborts if a file has an entry that is not of the form: a test runs
// it.
const std::vector<Meaning>& all();

// `asked` is en, zh or a locale's name; empty: as LC_ALL, LC_MESSAGES or LANG say.
Language language_of(std::string asked);

// "completion status 12", "完成状态 12".
std::string heading(const Meaning& meaning, Language language);

// What else is known of the number, from the code that uses it: "no acknowledgement within retry_cnt
// repetitions". In English; may be empty.
std::string sentence_of(const Meaning& meaning);

// Of a kind and number, the one of that name if there is a name; nullptr if nothing is known.
const Meaning* find(std::string_view kind, int number, std::string_view name = {});

// IBV_WC_RETRY_EXC_ERR, RETRY_EXC_ERR, ibv_wc_retry_exc_err, EINVAL; nullptr if it names nothing.
const Meaning* find_name(std::string_view name);

// An event of the connection manager and what its status says, which depends on the event.
std::vector<const Meaning*> of_event(const Meaning& event, int status);

// What an errno means of this call: its own meaning, or the general one.
std::vector<const Meaning*> of_call(std::string_view call, int error);

// EINVAL or 22 or -22; 0 if it is neither.
int errno_of(const std::string& word);

}  // namespace verbena::meanings
