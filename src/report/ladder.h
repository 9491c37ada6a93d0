// The picture of a conversation: two lifelines, an arrow for each message, the ends' CM states, and beside
// them what the programs did. SVG, with classes that page/ladder.css colours.
#pragma once

#include <string>

#include "report/conversation.h"
#include "report/words.h"

namespace verbena::report {

struct LadderStyle {
    bool narrow = false;      // for a telephone: everything between the lines
    bool standalone = false;  // a file of its own: brings its colours along
    Language language = Language::english;
};

std::string draw_ladder(const Recording& recording, const Conversation& conversation,
                        const LadderStyle& style);

// Of one end: "client rping (pid 12)", and "10.0.0.1 port 7471, QP 0x000011".
std::string title_of(const Recording& recording, const Conversation& conversation, int side,
                     Language language);
std::string address_of(const Conversation& conversation, int side, Language language);

}  // namespace verbena::report
