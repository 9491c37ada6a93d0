#include "view/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/reason.h"
#include "base/sealed_file.h"
#include "base/write_all.h"

namespace verbena::view {
namespace {

constexpr const char* kUnfinished = "new-";  // and what mkdtemp adds
constexpr time_t kKept = 60 * 60;            // seconds without a look
constexpr time_t kInUse = 2 * 60;            // a program looks again after a second, if it looks at all
constexpr std::size_t kMost = 8;             // trees, if nobody uses more; some 1 MB each
constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0444;

// FNV-1a over everything that makes the tree; two trees of one hash are one in 2^64.
std::uint64_t hash_of(std::span<const Entry> tree) {
    std::uint64_t hash = 0xcbf29ce484222325;
    auto add = [&](const std::string& text) {
        for (std::size_t i = 0; i <= text.size(); i++)  // with the closing zero, as a separator
            hash = (hash ^ static_cast<unsigned char>(text.c_str()[i])) * 0x100000001b3;
    };
    for (const Entry& entry : tree) {
        hash = (hash ^ static_cast<unsigned>(entry.kind)) * 0x100000001b3;
        add(entry.path);
        add(entry.text);
    }
    return hash;
}

int write_file(const std::string& path, const std::string& text) {
    if (!may_be_as_large(text.size())) return errno;
    int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
    if (fd < 0) return errno;
    const int error = write_all(fd, text);
    close(fd);
    return error;
}

int write_tree(const std::string& root, std::span<const Entry> tree) {
    for (const Entry& entry : tree) {
        const std::string path = root + entry.path;
        int error = 0;
        if (entry.kind == Entry::Kind::file)
            error = write_file(path, entry.text);
        else if (entry.kind == Entry::Kind::link)
            error = symlink(entry.text.c_str(), path.c_str()) == 0 ? 0 : errno;
        else
            error = mkdir(path.c_str(), kFolderMode) == 0 ? 0 : errno;
        if (error) return fail(error, "%s: %s", path.c_str(), std::strerror(error));
    }
    return 0;
}

int remove_entry(const char* path, const struct stat*, int, FTW*) { return remove(path); }

void remove_tree(const std::string& path) {
    constexpr int kDescriptors = 8;
    nftw(path.c_str(), remove_entry, kDescriptors, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

// Removes what is older than kKept, and the oldest of more than kMost.
void clean(const std::string& folder) {
    DIR* stream = opendir(folder.c_str());
    if (!stream) return;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    std::vector<std::pair<time_t, std::string>> kept;  // seconds without a look
    while (dirent* entry = readdir(stream)) {
        const std::string path = folder + "/" + entry->d_name;
        const bool ours = std::strncmp(entry->d_name, kTreePrefix, std::strlen(kTreePrefix)) == 0 ||
                          std::strncmp(entry->d_name, kUnfinished, std::strlen(kUnfinished)) == 0;
        struct stat status {};
        if (!ours || lstat(path.c_str(), &status) != 0) continue;
        if (const time_t age = now.tv_sec - status.st_mtime; age > kKept)
            remove_tree(path);
        else
            kept.emplace_back(age, path);
    }
    closedir(stream);
    std::sort(kept.begin(), kept.end());
    for (std::size_t i = kMost - 1; i < kept.size(); i++)  // one comes
        if (kept[i].first > kInUse) remove_tree(kept[i].second);
}

}  // namespace

int private_folder(const std::string& base, std::string& folder) {
    folder = base + "/" + kUserPrefix + std::to_string(geteuid());
    if (mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST)
        return fail(errno, "%s: %s", folder.c_str(), std::strerror(errno));
    struct stat status {};
    if (lstat(folder.c_str(), &status) != 0)
        return fail(errno, "%s: %s", folder.c_str(), std::strerror(errno));
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077))
        return fail(EACCES, "%s is not a folder of this user's alone", folder.c_str());
    return 0;
}

int store(const std::string& folder, std::span<const Entry> tree, std::string& root) {
    char name[32];
    std::snprintf(name, sizeof name, "%s%0*llx", kTreePrefix, static_cast<int>(kHashDigits),
                  static_cast<unsigned long long>(hash_of(tree)));
    root = folder + "/" + name;
    if (utimensat(AT_FDCWD, root.c_str(), nullptr, 0) == 0) return 0;  // there, and seen today
    clean(folder);
    std::string fresh = folder + "/" + kUnfinished + "XXXXXX";
    if (!mkdtemp(fresh.data())) return fail(errno, "%s: %s", fresh.c_str(), std::strerror(errno));
    int error = write_tree(fresh, tree);
    if (!error && rename(fresh.c_str(), root.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST)
        error = fail(errno, "%s: %s", root.c_str(), std::strerror(errno));
    if (error || access(fresh.c_str(), F_OK) == 0) remove_tree(fresh);  // EEXIST: somebody was faster
    return error;
}

}  // namespace verbena::view
