// Loading and unloading the libraries does nothing that a program could notice: no thread, descriptor, file,
// child or output. Many programs link them and never use RDMA. What the kernel is asked for once, and would
// have to wait for later (verbs/loaded.cpp), is there. Who has opened a device keeps the library.
#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace {

// Descriptor number to what it refers to; the one that lists them is left out.
std::map<int, std::string> descriptors() {
    std::map<int, std::string> found;
    DIR* directory = opendir("/proc/self/fd");
    while (dirent* entry = readdir(directory)) {
        int fd = std::atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(directory)) continue;
        found[fd] = std::filesystem::read_symlink(std::string("/proc/self/fd/") + entry->d_name).string();
    }
    closedir(directory);
    return found;
}

std::set<std::string> entries(const char* path) {
    std::set<std::string> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
        found.insert(entry.path().filename());
    return found;
}

// Shared mappings: "begin-end rw-s offset device inode path".
std::set<std::string> shared_mappings() {
    std::set<std::string> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        std::string range, permissions;
        std::istringstream(line) >> range >> permissions;
        if (permissions.ends_with('s')) found.insert(line);
    }
    return found;
}

std::string children() {
    std::ifstream file("/proc/self/task/" + std::to_string(getpid()) + "/children");
    std::string list;
    std::getline(file, list);
    return list;
}

bool loaded(const char* name) {
    void* handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle) dlclose(handle);
    return handle != nullptr;
}

// Bytes of a thread's variables that the library has.
std::size_t thread_storage(const char* name) {
    std::pair<const char*, std::size_t> wanted{name, 0};
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* argument) {
            auto& [file, size] = *static_cast<std::pair<const char*, std::size_t>*>(argument);
            if (!std::string_view(info->dlpi_name).ends_with(file)) return 0;
            for (int i = 0; i < info->dlpi_phnum; i++)
                if (info->dlpi_phdr[i].p_type == PT_TLS) size = info->dlpi_phdr[i].p_memsz;
            return 1;
        },
        &wanted);
    return wanted.second;
}

// How many descriptors the process's table has room for by now.
unsigned long room_for_descriptors() {
    std::ifstream status("/proc/self/status");
    for (std::string name; status >> name;)
        if (unsigned long size; name == "FDSize:" && status >> size) return size;
    return 0;
}

class QuietLoad : public ::testing::TestWithParam<const char*> {};

TEST_P(QuietLoad, LeavesNoTrace) {
    // An empty directory of our own, so that nobody else's files come and go in it.
    char scratch[] = "/tmp/verbena-quiet-XXXXXX";
    ASSERT_TRUE(mkdtemp(scratch));
    setenv("XDG_RUNTIME_DIR", scratch, 1);
    setenv("TMPDIR", scratch, 1);
    setenv("HOME", scratch, 1);

    auto fds = descriptors();
    auto threads = entries("/proc/self/task");
    auto mappings = shared_mappings();
    auto check = [&](const char* when) {
        EXPECT_EQ(descriptors(), fds) << when;
        EXPECT_EQ(entries("/proc/self/task"), threads) << when;
        EXPECT_EQ(shared_mappings(), mappings) << when;
        EXPECT_TRUE(entries(scratch).empty()) << when;
        EXPECT_EQ(children(), "") << when;
    };

    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    auto captured = descriptors();
    void* library = dlopen(GetParam(), RTLD_NOW);
    bool same = descriptors() == captured;
    const char* error = library ? "" : dlerror();
    std::string out = testing::internal::GetCapturedStdout(), err = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(library) << error;
    EXPECT_TRUE(same) << "loading opened or closed a descriptor";
    EXPECT_EQ(out, "");
    EXPECT_EQ(err, "");
    check("loaded");
    // Of what the loader keeps for all that are loaded late together, some 1.5 KiB
    // (base/quick_thread_local.h).
    EXPECT_LE(thread_storage("libibverbs.so.1"), 256u);
    if (rlimit limit; getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 512) {
        EXPECT_GT(room_for_descriptors(), 512u);
    }

    dlclose(library);
    check("unloaded");
    EXPECT_FALSE(loaded("libibverbs.so.1")) << "something pins the library in the process";
    EXPECT_FALSE(loaded("librdmacm.so.1")) << "something pins the library in the process";
    std::filesystem::remove_all(scratch);
}

// Its threads' code may not go away under them.
TEST_P(QuietLoad, StaysOnceADeviceWasOpened) {
    setenv("VERBENA_FABRIC", ("test-load-" + std::to_string(getpid())).c_str(), 1);
    void* library = dlopen(GetParam(), RTLD_NOW);
    ASSERT_TRUE(library) << dlerror();
    // One of them has the calls, the other one needs that.
    const auto list = reinterpret_cast<void** (*)(int*)>(dlsym(library, "ibv_get_device_list"));
    const auto free_list = reinterpret_cast<void (*)(void**)>(dlsym(library, "ibv_free_device_list"));
    const auto open = reinterpret_cast<void* (*)(void*)>(dlsym(library, "ibv_open_device"));
    const auto close = reinterpret_cast<int (*)(void*)>(dlsym(library, "ibv_close_device"));
    ASSERT_TRUE(list && free_list && open && close);
    int count = 0;
    void** const devices = list(&count);
    ASSERT_GT(count, 0);
    void* const context = open(devices[0]);
    ASSERT_TRUE(context);
    free_list(devices);
    EXPECT_EQ(close(context), 0);
    dlclose(library);
    EXPECT_TRUE(loaded("libibverbs.so.1"));
}

// Its devices stay open, whoever has them.
TEST(ConnectionManager, StaysOnceItHasOpenedDevices) {
    setenv("VERBENA_FABRIC", ("test-load-" + std::to_string(getpid())).c_str(), 1);
    for (int round = 0; round < 2; round++) {
        void* library = dlopen(RDMACM_PATH, RTLD_NOW);
        ASSERT_TRUE(library) << dlerror();
        const auto list = reinterpret_cast<void** (*)(int*)>(dlsym(library, "rdma_get_devices"));
        const auto free_list = reinterpret_cast<void (*)(void**)>(dlsym(library, "rdma_free_devices"));
        ASSERT_TRUE(list && free_list);
        int count = 0;
        void** const devices = list(&count);
        ASSERT_GT(count, 0);
        static void* first = nullptr;
        if (round == 0) first = devices[0];
        EXPECT_EQ(devices[0], first);
        free_list(devices);
        dlclose(library);
        EXPECT_TRUE(loaded("librdmacm.so.1"));
    }
}

INSTANTIATE_TEST_SUITE_P(Libraries, QuietLoad, ::testing::Values(IBVERBS_PATH, RDMACM_PATH));

}  // namespace
