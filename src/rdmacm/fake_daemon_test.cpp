// The fake daemon, and the functions of host/client.h that lead to it. (The names of this file make it part
// of the test program only, where these definitions stand before those of the library.)
#include "rdmacm/fake_daemon.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace verbena::rdmacm {
namespace {

FakeDaemon* running = nullptr;

}  // namespace

FakeDaemon::FakeDaemon() {
    static std::uint32_t made = 0;
    generation = ++made;  // it knows nothing of its predecessors' ids
    running = this;
}

FakeDaemon::~FakeDaemon() {
    die();
    running = nullptr;
}

void FakeDaemon::die() {
    std::lock_guard lock(mutex_);
    for (const auto& [number, fd] : files_) close(fd);
    files_.clear();
    dead_ = true;
}

unsigned FakeDaemon::count(host::Command command) const {
    std::lock_guard lock(mutex_);
    unsigned n = 0;
    for (const Seen& one : seen_) n += one.command == command;
    return n;
}

std::size_t FakeDaemon::calls() const {
    std::lock_guard lock(mutex_);
    return seen_.size();
}

void FakeDaemon::note(host::Command command, std::span<const std::uint8_t> request) {
    std::lock_guard lock(mutex_);
    if (command == host::Command::create_id) {
        cm::IdNumber told = 0;  // 0: it is asked for
        std::memcpy(&told, request.data() + offsetof(host::CreateIdRequest, id), sizeof told);
        if (told != 0) {
            last_id = told;
            told_in_order = told_in_order && told > std::exchange(last_told_, told);
        }
    }
    seen_.push_back({command, {request.begin(), request.end()}});
}

void FakeDaemon::deliver(cm::FileNumber file, const cm::Event& event) {
    std::lock_guard lock(mutex_);
    if (event.id) delivered_[event.type == cm::EventType::connect_request ? event.listen_id : event.id]++;
    send(files_.at(file), &event, sizeof event, MSG_NOSIGNAL);
}

int FakeDaemon::call(host::Command command, std::span<const std::uint8_t> request,
                     std::span<std::uint8_t> reply, int send_fd, int* received_fd) {
    if (dead_) return EIO;
    has_put_off = false;
    note(command, request);
    std::memset(reply.data(), 0, reply.size());
    // A script may call back, so it runs without the lock.
    if (auto scripted = answers.find(command); scripted != answers.end())
        return scripted->second(request.data(), reply.data());
    std::lock_guard lock(mutex_);
    if (command == host::Command::lend_file && received_fd) {
        host::FileRequest wanted;
        std::memcpy(&wanted, request.data(), sizeof wanted);
        *received_fd = dup(files_.at(wanted.file));
    }
    return answer(command, request.data(), reply.data(), send_fd);
}

host::DeviceTable& FakeDaemon::devices() {
    static const std::unique_ptr<host::DeviceTable> table = [] {
        auto made = std::make_unique<host::DeviceTable>();
        made->count = 1;
        made->devices[0].present = 1;
        return made;
    }();
    return *table;
}

int FakeDaemon::answer(host::Command command, const void* request, void* reply, int send_fd) {
    switch (command) {
        case host::Command::create_file: {
            host::FileReply file{++last_file};
            files_[file.file] = dup(send_fd);
            std::memcpy(reply, &file, sizeof file);
            return 0;
        }
        case host::Command::close_file: {
            auto file = static_cast<const host::FileRequest*>(request)->file;
            close(files_.at(file));
            files_.erase(file);
            return 0;
        }
        case host::Command::create_id: {
            const auto* wanted = static_cast<const host::CreateIdRequest*>(request);
            host::IdReply id{wanted->id ? wanted->id : next_id_};
            last_id = id.id;
            if (wanted->id == 0) next_id_ += 1 + wanted->reserve;
            std::memcpy(reply, &id, sizeof id);
            return 0;
        }
        case host::Command::requeue: {
            auto* requeued = static_cast<const host::RequeueRequest*>(request);
            for (std::uint32_t i = 0; i < requeued->count; i++)
                send(files_.at(requeued->file), &requeued->event, sizeof requeued->event, MSG_NOSIGNAL);
            return 0;
        }
        case host::Command::destroy_id:
        case host::Command::migrate: {
            host::EventsReply events{delivered_[*static_cast<const cm::IdNumber*>(request)]};
            std::memcpy(reply, &events, sizeof events);
            return 0;
        }
        case host::Command::share_page:
            return SharedPage::open(send_fd, page_);
        case host::Command::listen:
            if (send_fd >= 0) SharedPage::open(send_fd, backlog_);
            [[fallthrough]];
        case host::Command::bind: {
            cm::IdInfo info;
            std::memcpy(reply, static_cast<const void*>(&info), sizeof info);
            return 0;
        }
        default:
            return 0;
    }
}

}  // namespace verbena::rdmacm

namespace verbena::host {

int call(Command command, std::span<const std::uint8_t> request, std::span<std::uint8_t> reply, int send_fd,
         int* received_fd) {
    if (received_fd) *received_fd = -1;
    return rdmacm::running ? rdmacm::running->call(command, request, reply, send_fd, received_fd) : EIO;
}

int tell(Command command, std::span<const std::uint8_t> request) {
    if (!rdmacm::running || rdmacm::running->is_dead()) return EIO;
    rdmacm::running->has_put_off = false;
    rdmacm::running->note(command, request);
    return 0;
}

int put_off(Command command, std::span<const std::uint8_t> request) {
    const int error = tell(command, request);
    if (!error) rdmacm::running->has_put_off = true;
    return error;
}

bool has_put_off() { return rdmacm::running && rdmacm::running->has_put_off; }

void tell_put_off() { rdmacm::running->has_put_off = false; }

const DeviceTable* devices() { return &rdmacm::FakeDaemon::devices(); }

bool is_own(const Gid& address) {
    std::uint32_t index;
    return find_address(*devices(), address, index);
}

std::uint32_t generation() { return rdmacm::running ? rdmacm::running->generation : 0; }

FabricInfo fabric() { return {}; }

int lifeline_fd() { return -1; }

}  // namespace verbena::host
