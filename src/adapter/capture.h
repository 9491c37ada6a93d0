// VERBENA_CAPTURE=file: every packet that this process sends and takes goes to file.<pid> (pcapng). The file
// is made with the first packet. Received packets are those whose ICRC is good.
#pragma once

#include <string_view>

namespace verbena::adapter {

// Looks at the environment at the first call and never again; does nothing if the variable is not set.
// `application` names the program or daemon in the file. Once on, a capture lasts as long as the process.
void start_capture_if_asked(std::string_view application);

// The same for a path that somebody asks for while the process runs; another path than the last one begins
// another file.
void capture_to(std::string_view path, std::string_view application);

}  // namespace verbena::adapter
