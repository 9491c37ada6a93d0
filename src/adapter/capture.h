// What becomes of packets that are watched.
//
// VERBENA_CAPTURE=file: every packet that this process sends and takes goes to file.<pid> (pcapng). The file
// is made with the first packet. Received packets are those whose ICRC is good.
#pragma once

#include <sys/types.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/gid.h"

namespace verbena::adapter {

// Looks at the environment at the first call and never again; does nothing if the variable is not set.
// `application` names the program or daemon in the file. Once on, a capture lasts as long as the process.
void start_capture_if_asked(std::string_view application);

// Files that others ask for while this process, which serves them, runs: file.<pid>, as above, all of them at
// once. One that goes on is not disturbed, and what is not among them ends; one that is asked for again later
// goes on in the same file. `mode` is that of a file that is new.
struct AskedCapture {
    std::string path;
    mode_t mode = 0600;
};
void capture_for_others(std::span<const AskedCapture> files, std::string_view application);

// The captures of all programs of a user (verbena capture, trace, record), who write into one file each: what
// leaves, and what arrives from elsewhere, so that no packet is there twice. `files` (they append; ours from
// now on) have a beginning already; a capture that goes on is not disturbed, and what is not among them ends.
// `is_local`: whether that address is of this host; null: none is.
void share_captures(std::span<const int> files, const std::function<bool(const Gid&)>& is_local);

}  // namespace verbena::adapter
