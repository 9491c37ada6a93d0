// verbena top: what the programs do at this moment, again and again.
#pragma once

namespace verbena::tool {

struct TopOptions {
    double delay = 2;    // seconds between two looks
    unsigned count = 0;  // looks; 0: until q or an interrupt
    bool json = false;   // one object per look, on a line
};

// Returns the exit status.
int show_top(const TopOptions& options);

}  // namespace verbena::tool
