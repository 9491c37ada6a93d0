#include "rsocket/table.h"

#include <atomic>
#include <shared_mutex>

#include "base/own_pid.h"
#include "base/reason.h"
#include "rsocket/stream.h"

namespace verbena::rsocket {
namespace {

struct Table {
    pid_t pid = own_pid();
    std::shared_mutex mutex;
    std::vector<std::shared_ptr<Socket>> sockets;
};

std::atomic<Table*> current{nullptr};

// Never destroyed: threads may be in calls when the process ends.
Table& table() {
    Table* known = current.load(std::memory_order_acquire);
    while (!known || known->pid != own_pid()) {
        auto fresh = std::make_unique<Table>();
        if (current.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel))
            return *fresh.release();
    }
    return *known;
}

// A program that ends without closing its sockets: what it sent is delivered all the same, as TCP does.
struct AtExit {
    ~AtExit() {
        Table* known = current.load(std::memory_order_acquire);
        if (!known || known->pid != own_pid()) return;
        for (auto& socket : all_sockets())
            if (auto stream = std::dynamic_pointer_cast<Stream>(socket)) stream->farewell();
    }
};

}  // namespace

std::shared_ptr<Socket> find_socket(int fd) {
    Table& all = table();
    std::shared_lock lock(all.mutex);
    if (fd < 0 || static_cast<std::size_t>(fd) >= all.sockets.size()) return nullptr;
    return all.sockets[static_cast<std::size_t>(fd)];
}

std::shared_ptr<Socket> socket_of(int fd) {
    auto socket = find_socket(fd);
    if (!socket) fail(EBADF, "descriptor %d is no rsocket of this process", fd);
    return socket;
}

void make_room_for(int fd) {
    Table& all = table();
    std::lock_guard lock(all.mutex);
    const auto place = static_cast<std::size_t>(fd);
    if (all.sockets.size() <= place) all.sockets.resize(place + 1);
}

void insert_socket(std::shared_ptr<Socket> socket) {
    static AtExit at_exit;  // from the first socket on
    Table& all = table();
    std::lock_guard lock(all.mutex);
    all.sockets[static_cast<std::size_t>(socket->fd())] = std::move(socket);
}

std::shared_ptr<Socket> take_socket(int fd) {
    Table& all = table();
    std::lock_guard lock(all.mutex);
    if (fd < 0 || static_cast<std::size_t>(fd) >= all.sockets.size()) return nullptr;
    return std::move(all.sockets[static_cast<std::size_t>(fd)]);
}

std::vector<std::shared_ptr<Socket>> all_sockets() {
    Table& all = table();
    std::shared_lock lock(all.mutex);
    std::vector<std::shared_ptr<Socket>> found;
    for (const auto& socket : all.sockets)
        if (socket) found.push_back(socket);
    return found;
}

}  // namespace verbena::rsocket
