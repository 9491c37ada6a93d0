// Descriptors of our own in somebody else's program. Programs close descriptors that they do not know
// (daemons do), and open others, which get low numbers: so ours have high ones, and are looked at before they
// are used for what would do harm elsewhere. Programs also start without standard input, output or error, and
// print nevertheless: none of ours is one of these.
//
// Thread safety: all calls.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/uncancelled.h"

namespace verbena {

inline constexpr int kFirstOwnFile = 512;
inline constexpr int kFirstUnusedFile = 3;  // what precedes it has a meaning for every program

// The file under another number, closed by exec(). (By number: librspreload has an fcntl() of its own.)
inline int duplicate(int fd, int first) {
    const auto other = static_cast<int>(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, first));
    if (other < 0 && errno == EINVAL) errno = EMFILE;  // the process may have none as high as that
    return other;
}

// The same under a high number if there is one free; -1 with errno.
inline int duplicate_out_of_the_way(int fd) {
    const int high = duplicate(fd, kFirstOwnFile);
    return high >= 0 ? high : duplicate(fd, kFirstUnusedFile);
}

// What a call that opens a file has answered: the file under a number of at least `first` instead, if it can
// be had, and never as standard input, output or error. -1 with errno as it was, or EMFILE.
inline int renumbered(int low, int first) {
    if (low < 0 || low >= first) return low;
    int other = duplicate(low, first);
    if (other < 0) {
        if (low >= kFirstUnusedFile) return low;
        other = duplicate(low, kFirstUnusedFile);
    }
    const int error = errno;
    uncancelled::close(low);
    errno = error;
    return other;
}

// Of a file that is for us alone.
inline int out_of_the_way(int low) { return renumbered(low, kFirstOwnFile); }

// Of one that programs are shown, who may have it among a select()'s.
inline int beside_standard_files(int low) { return renumbered(low, kFirstUnusedFile); }

// Makes the process's table of descriptors as long as those numbers need. Early, while the process has one
// thread: threads share it, and the kernel lets whoever makes it longer stand still for 5 to 40 ms then.
// (Thread sanitizers shall see it opened no more than closed.)
inline void make_room_out_of_the_way() {
    const auto low = static_cast<int>(syscall(SYS_eventfd2, 0, EFD_CLOEXEC));
    if (low >= 0) uncancelled::close(out_of_the_way(low));
}

// When something's descriptors were made: before the program closed what it does not know, or since. What is
// older has none any more, whatever has their numbers now. (An eventfd cannot be told from another.)
class FilesAge {
   public:
    bool is_of_now() const { return made_at_ == times_closed_.load(std::memory_order_relaxed); }
    static void program_closed_them() { times_closed_.fetch_add(1); }

   private:
    static inline std::atomic<unsigned> times_closed_{0};
    unsigned made_at_ = times_closed_.load(std::memory_order_relaxed);
};

// (Those without a place in any file system, an eventfd or an epoll, are one file by this.)
struct FileIdentity {
    dev_t device = 0;
    ino_t inode = 0;

    // All zero: it is none.
    static FileIdentity of(int fd) {
        struct stat status {};
        if (fd < 0 || fstat(fd, &status) != 0) return {};
        return {status.st_dev, status.st_ino};
    }
    // The same of an eventfd, without asking for each: they are one file.
    static FileIdentity of_eventfd(int fd) {
        if (fd < 0) return {};
        static const FileIdentity all = of(fd);
        return all;
    }
    bool is(int fd) const { return inode != 0 && *this == of(fd); }
    friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// One that the program may have closed: then its number, which is perhaps another file's by now, stays open.
// Thread safety: what does not change it, with itself.
class OwnFile {
   public:
    explicit OwnFile(int fd = -1) : fd_(fd), identity_(FileIdentity::of(fd)) {}
    ~OwnFile() { close(); }
    OwnFile(const OwnFile&) = delete;
    OwnFile& operator=(const OwnFile&) = delete;

    int get() const { return fd_; }
    void reset(int fd) {
        close();
        fd_ = fd;
        identity_ = FileIdentity::of(fd);
    }
    void close() {
        if (identity_.is(fd_)) uncancelled::close(fd_);
        fd_ = -1;
    }

   private:
    int fd_;
    FileIdentity identity_;
};

}  // namespace verbena
