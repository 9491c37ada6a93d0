#include "tool/installation.h"

#include <filesystem>
#include <initializer_list>
#include <system_error>

namespace verbena::tool {
namespace {

std::string why_not_known(const std::string& what) {
    std::error_code error;
    if (std::filesystem::exists("/proc/self", error)) return "/proc/self/exe: " + what;
    return "/proc is not mounted, and without it Verbena cannot be found (mount -t proc proc /proc)";
}

}  // namespace

Installation find_installation() {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
    Installation found;
    if (error) found.obstacle = why_not_known(error.message());
    for (const char* folder : {"../lib/verbena", "../lib"}) {
        fs::path candidate = (here / folder).lexically_normal();
        if (found.libraries.empty() && fs::exists(candidate / "libibverbs.so.1", error) &&
            fs::exists(candidate / "librdmacm.so.1", error))
            found.libraries = candidate.string();
    }
    for (const char* place : {"../libexec/verbena/verbenad", "verbenad"}) {
        fs::path candidate = (here / place).lexically_normal();
        if (found.daemon.empty() && fs::exists(candidate, error)) found.daemon = candidate.string();
    }
    if (fs::path candidate = fs::path(found.libraries) / "include";
        fs::exists(candidate / "verbena.h", error))
        found.headers = candidate.string();
    if (fs::path candidate = fs::path(found.libraries) / "rsocket/librspreload.so";
        fs::exists(candidate, error))
        found.sockets = candidate.string();
    if (fs::path candidate = fs::path(found.libraries) / "libverbena-view.so"; fs::exists(candidate, error))
        found.view = candidate.string();
    if (fs::path candidate = fs::path(found.libraries) / "libverbena-interpose.so";
        fs::exists(candidate, error))
        found.interposer = candidate.string();
    if (fs::path candidate = (here / "../libexec/verbena/bin").lexically_normal();
        fs::exists(candidate / "rdma", error))
        found.commands = candidate.string();
    return found;
}

}  // namespace verbena::tool
