// Trees on disk: whole, shared, private, and not for ever.

#include "view/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace verbena::view {
namespace {

namespace fs = std::filesystem;

class Store : public testing::Test {
   protected:
    Store() {
        std::string name = testing::TempDir() + "verbena-view-XXXXXX";
        base = mkdtemp(name.data());
        EXPECT_EQ(private_folder(base, folder), 0);
    }
    ~Store() override { fs::remove_all(base); }

    std::vector<Entry> tree(const std::string& text) {
        return {{Entry::Kind::folder, "/sys", ""},
                {Entry::Kind::file, "/sys/a", text},
                {Entry::Kind::link, "/sys/b", "a"}};
    }
    std::string content(const std::string& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    std::size_t count() {
        std::size_t number = 0;
        for (const auto& entry : fs::directory_iterator(folder)) number += entry.exists();
        return number;
    }
    // As if nobody had looked at the tree for that long.
    void age(const std::string& root, int minutes) {
        timespec past{};
        clock_gettime(CLOCK_REALTIME, &past);
        past.tv_sec -= minutes * 60;
        const timespec times[2] = {past, past};
        EXPECT_EQ(utimensat(AT_FDCWD, root.c_str(), times, 0), 0);
    }

    std::string base, folder;
};

TEST_F(Store, WritesWhatTheTreeSays) {
    std::string root;
    ASSERT_EQ(store(folder, tree("one\n"), root), 0);
    EXPECT_EQ(content(root + "/sys/a"), "one\n");
    EXPECT_EQ(content(root + "/sys/b"), "one\n");
    EXPECT_EQ(fs::read_symlink(root + "/sys/b"), "a");
    EXPECT_EQ(count(), 1u);
}

TEST_F(Store, OneContentHasOneFolder) {
    std::string one, again, other;
    ASSERT_EQ(store(folder, tree("one\n"), one), 0);
    ASSERT_EQ(store(folder, tree("one\n"), again), 0);
    ASSERT_EQ(store(folder, tree("two\n"), other), 0);
    EXPECT_EQ(one, again);
    EXPECT_NE(one, other);
    EXPECT_EQ(content(one + "/sys/a"), "one\n");  // whoever still reads it can
    EXPECT_EQ(count(), 2u);
}

TEST_F(Store, ManyAtOnceAgree) {
    std::vector<std::thread> threads;
    std::vector<std::string> roots(8);
    std::vector<int> errors(8, -1);
    for (unsigned i = 0; i < 8; i++)
        threads.emplace_back([&, i] { errors[i] = store(folder, tree("one\n"), roots[i]); });
    for (std::thread& thread : threads) thread.join();
    for (unsigned i = 0; i < 8; i++) {
        EXPECT_EQ(errors[i], 0);
        EXPECT_EQ(roots[i], roots[0]);
    }
    EXPECT_EQ(content(roots[0] + "/sys/a"), "one\n");
    EXPECT_EQ(count(), 1u);
}

TEST_F(Store, OldTreesGo) {
    std::string old, fresh, newest;
    ASSERT_EQ(store(folder, tree("one\n"), old), 0);
    ASSERT_EQ(store(folder, tree("two\n"), fresh), 0);
    age(old, 61);
    age(fresh, 59);
    std::ofstream(folder + "/something else") << "stays";
    ASSERT_EQ(store(folder, tree("three\n"), newest), 0);
    EXPECT_FALSE(fs::exists(old));
    EXPECT_TRUE(fs::exists(fresh));
    EXPECT_EQ(count(), 3u);
}

TEST_F(Store, OfManyTheOldestGo) {
    constexpr int kMost = 8;
    std::vector<std::string> roots(20);
    for (int i = 0; i < 20; i++) {
        ASSERT_EQ(store(folder, tree(std::to_string(i)), roots[i]), 0);
        age(roots[i], 50 - i);
    }
    EXPECT_EQ(count(), std::size_t{kMost});
    for (int i = 0; i < 20; i++) EXPECT_EQ(fs::exists(roots[i]), i >= 20 - kMost) << i;
}

TEST_F(Store, OfManyThoseStayThatAreInUse) {
    std::vector<std::string> roots(20);
    for (int i = 0; i < 20; i++) ASSERT_EQ(store(folder, tree(std::to_string(i)), roots[i]), 0);
    EXPECT_EQ(count(), 20u);
}

TEST_F(Store, ALookKeepsATree) {
    std::string old, other;
    ASSERT_EQ(store(folder, tree("one\n"), old), 0);
    age(old, 61);
    ASSERT_EQ(store(folder, tree("one\n"), old), 0);
    ASSERT_EQ(store(folder, tree("two\n"), other), 0);
    EXPECT_TRUE(fs::exists(old));
}

TEST_F(Store, TheFolderIsPrivate) {
    struct stat status {};
    ASSERT_EQ(stat(folder.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    std::string again;
    EXPECT_EQ(private_folder(base, again), 0);
    EXPECT_EQ(again, folder);
}

TEST_F(Store, AFolderThatOthersCanEnterIsNotTaken) {
    std::string refused;
    ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
    EXPECT_EQ(private_folder(base, refused), EACCES);
    fs::remove_all(folder);
    fs::create_directory_symlink("/tmp", folder);
    EXPECT_EQ(private_folder(base, refused), EACCES);
    EXPECT_EQ(private_folder(base + "/nowhere", refused), ENOENT);
}

}  // namespace
}  // namespace verbena::view
