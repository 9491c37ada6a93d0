// The page's words in English and Chinese. Names of the field (REQ, QPN, PSN, states) stay as they are.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "meanings/meanings.h"

namespace verbena::report {

using meanings::Language;

// The word for `key`, which is one of the table in words.cpp: a test goes over the page's.
const char* word(const char* key, Language language);

// All of them, for the page's script.
std::vector<std::pair<std::string, std::string>> words(Language language);

}  // namespace verbena::report
