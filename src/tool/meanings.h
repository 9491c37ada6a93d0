// The table behind `verbena explain`: what numbers of completions, events, packets and calls mean, in English
// and Chinese. The texts are data (meanings/*.txt), compiled in.
#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

struct Meaning {
    std::string kind;  // wc, vendor_err, async, event, reject, sidr, nak, syndrome, errno, call
    int number = 0;    // of a call: the errno
    std::string name;  // IBV_WC_SUCCESS, EINVAL; of a call: the call's name
    std::string text[2];
};

enum Language { english, chinese };

// All entries, in the order of the files. Aborts if a file has an entry that is not of the form: a test runs
// it.
const std::vector<Meaning>& meanings();

// "completion status 12", "完成状态 12".
std::string heading(const Meaning& meaning, Language language);

// What else is known of the number, from the code that uses it: "no acknowledgement within retry_cnt
// repetitions". In English; may be empty.
std::string sentence_of(const Meaning& meaning);

// EINVAL or 22 or -22; 0 if it is neither.
int errno_of(const std::string& word);

}  // namespace verbena::tool
