// verbena run and verbena env: programs with our libraries in front of the distribution's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "faults/board.h"

namespace verbena::tool {

struct RunOptions {
    std::string fabric;
    std::string log;                    // VERBENA_LOG
    std::string capture;                // VERBENA_CAPTURE
    std::string disable;                // VERBENA_DISABLE
    std::optional<std::string> faults;  // a plan, or the name of a file with one
    bool sockets = false;               // librspreload.so: the program's TCP connections go over RDMA
    bool strict = false;                // mistakes that no library has to notice are told (docs/strict.md)
    bool system = false;                // over the libraries that the program has without us
    std::vector<std::pair<std::string, std::string>>
        interposer;  // its variables; it is loaded if there are any
};

// Sets the environment of the program for this process, and says what speaks against our libraries. 0, or an
// exit status when the reason was told.
int prepare(const RunOptions& options, const std::vector<std::string>& command);

// A plan of faults in force for what is started from now on.
class ActivePlan {
   public:
    // 0, or an exit status when the reason was told. Without a plan in `options` nothing happens. Over the
    // system's libraries it is the interposer's to obey, which is told of it in `options`.
    int begin(RunOptions& options);
    const faults::Board* board() const { return board_.get(); }  // nullptr: there is no plan
    // Says what never fired: kNeverFired if there was any such (supervise.h), otherwise 0.
    int end();
    ~ActivePlan();

   private:
    std::unique_ptr<faults::Board> board_;
    std::string path_;
};

// Replaces this process by the program; returns the exit status only if that fails (127: not found, 126: not
// executable, 1: the installation is incomplete). With a plan of faults or in strict mode, waits for it
// (supervise.h).
int run(const RunOptions& options, const std::vector<std::string>& command);

// Prints the same environment for a shell: eval "$(verbena env)".
int print_environment(const RunOptions& options);

}  // namespace verbena::tool
