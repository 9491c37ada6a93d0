// The report of a recording: one HTML page that needs nothing else, or the picture of one conversation.
#pragma once

#include <string>

#include "report/recording.h"
#include "report/words.h"

namespace verbena::report {

struct PageLimits {
    std::size_t packets = 3000;  // rows of the table; messages, NAKs, losses and repetitions first
    std::size_t calls = 4000;    // those that failed first
    std::size_t conversations = 40;
    std::size_t troubles = 100;
};

std::string make_page(const Recording& recording, Language language, const PageLimits& limits = {});

// SVG of conversation `number`, from 1. Empty, with a sentence in `error`, if there is none.
std::string make_picture(const Recording& recording, Language language, std::size_t number,
                         std::string& error);

}  // namespace verbena::report
