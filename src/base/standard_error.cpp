#include "base/standard_error.h"

#include <unistd.h>

#include "base/own_file.h"

namespace verbena {
namespace {

constinit FileIdentity remembered;

}  // namespace

void remember_standard_error() { remembered = FileIdentity::of(STDERR_FILENO); }

void tell_user(std::string_view line) {
    if (!remembered.is(STDERR_FILENO) && !isatty(STDERR_FILENO)) return;
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace verbena
