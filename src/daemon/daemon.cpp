#include "daemon/daemon.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/features.h"
#include "base/reason.h"
#include "base/sealed_file.h"
#include "daemon/clock.h"
#include "daemon/reply.h"
#include "host/address_name.h"
#include "link/steering.h"

namespace verbena::daemon {
namespace {

constexpr int kBacklog = 1024;
constexpr Duration kPauseWithoutMemory = kMillisecond;
constexpr Duration kShortIdle = 200 * kMillisecond;  // without the wire: the next daemon may get it
constexpr Duration kFirstClient = 3 * kSecond;       // whoever started us connects soon
// For the answers to the disconnect requests of programs that just ended. A lost one is not repeated then;
// the peer's queue pair finds out by itself.
constexpr Duration kYieldPatience = 100 * kMillisecond;
// Of a fabric whose UDP port is its own: another daemon, of another namespace or host, has another one.
constexpr const char* kReach = "programs reach each other in this network namespace, nobody else";

// A user namespace other than the machine's own is part of the daemon's name (host/address_name.h), by which
// programs of others do not find it.
std::string reach() {
    return std::string(kReach) + (host::in_user_namespace() ? ", and nobody of another user namespace" : "");
}

template <std::size_t size>
void copy_text(std::array<char, size>& out, const std::string& text) {
    std::snprintf(out.data(), out.size(), "%s", text.c_str());
}

// The same file, which whoever gets it cannot write.
Descriptor for_reading(const Descriptor& file) {
    // Whatever else a program may have sent must not make us wait.
    if (!sealed_length(file.get())) return {};
    const std::string path = "/proc/self/fd/" + std::to_string(file.get());
    return Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::string random_name() {
    char text[33];
    std::snprintf(text, sizeof text, "%08x%08x%08x%08x", random32(), random32(), random32(), random32());
    return text;
}

}  // namespace

Daemon::Daemon(const Options& options)
    : options_(options),
      started_(now()),
      stray_fabric_(random_name()),
      files_(loop_, random32(),
             [this](cm::FileNumber file) {
                 sessions_.hear_out(files_.owner(file));
                 commands_->close_file(file, now());
             }),
      cm_faults_({[this](const wire::Path& path, std::uint32_t qp, faults::MadBytes mad,
                         const faults::Mark& mark) { qp1_.send(path, qp, mad, mark); },
                  [this](const wire::Path& path, std::uint32_t qp, faults::MadBytes mad, Time at) {
                      manager_->receive_mad(path, qp, mad, at);
                  }}),
      sessions_(loop_, *this, options.service),
      captures_(sessions_, [this](const Gid& address) { return devices_->find(address).device != nullptr; }),
      idle_since_(started_) {}

Daemon::~Daemon() = default;

int Daemon::start() {
    const std::string name =
        options_.service ? host::service_address() : host::daemon_address(geteuid(), options_.fabric);
    int fd = host::bind_name(name, SOCK_SEQPACKET);
    if (fd < 0) return fail(-fd, "the name @%s: %s", name.c_str(), std::strerror(-fd));
    name_.reset(fd);
    if (int error = open_queues()) return error;
    if (int error = open_network()) return error;
    return listen();
}

int Daemon::open_queues() {
    Queues::Setup setup;
    setup.gro = features().gro;
    setup.steering = features().steering;
    if (!is_default()) {
        wire_note_ = "fabric \"" + options_.fabric + "\" is separate: its " + reach();
    } else if (wait_for_port(wire::kUdpPort, options_.port_patience, wire_note_)) {
        wire_ = true;
        wire_note_.clear();  // of the time when somebody else still had it
        setup.port = wire::kUdpPort;
    } else {
        wire_note_ += std::string(": this user's ") + reach();
    }
    if (int error = queues_.open(setup)) return error;
    if (!wire_) {
        log(is_default() ? LogLevel::warn : LogLevel::info, "%s; using UDP port %u for programs of this host",
            wire_note_.c_str(), queues_.port());
        return 0;
    }
    yield_.open(loop_, wire::kUdpPort, [this] { return asked_to_yield(); });
    return 0;
}

int Daemon::open_network() {
    if (int error = table_.create(features().memfd)) return error;
    if (int error = kernel_.open()) return error;
    if (int error = monitor_.open()) return error;
    const std::uint64_t random = std::uint64_t{random32()} << 32 | random32();
    devices_.emplace(table_.table(), random, queues_.receive_buffer());
    routes_.emplace(*devices_, kernel_, wire_ ? std::string() : wire_note_);
    neighbors_.emplace(
        *devices_, kernel_,
        [this](std::uint64_t token, int error) { manager_->neighbor_resolved(token, error, now()); },
        [this](std::uint64_t token) { return manager_->awaits_neighbor(token); }, send_probe);
    environment_.emplace(
        Environment::Parts{cm_faults_, *devices_, *routes_, *neighbors_, files_, queues_, totals_});
    manager_.emplace(*environment_);
    commands_.emplace(*manager_, files_);
    refresh_devices();
    int error = loop_.add(monitor_.fd(), EPOLLIN, [this](std::uint32_t) {
        monitor_.drain();
        devices_changed_ = true;
    });
    if (error) return fail(error, "epoll: %s", std::strerror(error));

    error = qp1_.open(
        queues_.descriptor(0),
        {.port = queues_.port(),
         .fabric = stray_fabric_,
         .strays = options_.service ? link::Trust::anybody : link::Trust::own_user_and_root},
        random32(),
        [this](const wire::Path& path) {
            const std::uint32_t scope = path.destination.is_link_local() ? path.interface_index : 0;
            return devices_->find(path.destination, scope).device != nullptr;
        },
        [this](const wire::Path& path, std::uint32_t source_qp,
               std::span<const std::uint8_t, wire::kMadLength> mad) {
            if (const host::Device* device = devices_->find(path.destination).device)
                totals_.mad_received(device->index);
            cm_faults_.arrived(path, source_qp, mad, now());
        });
    if (error) return error;
    error = loop_.add(qp1_.wait_fd(), EPOLLIN, [this](std::uint32_t) { qp1_.receive(); });
    return error ? fail(error, "epoll: %s", std::strerror(error)) : 0;
}

int Daemon::listen() {
    if (int error = host::start_listening(name_.get(), kBacklog))
        return fail(error, "listening: %s", std::strerror(error));
    fcntl(name_.get(), F_SETFL, O_NONBLOCK);
    if (int error = sessions_.serve(std::move(name_)))
        return fail(error, "serving: %s", std::strerror(error));
    idle_since_ = now() + std::max<Duration>(0, kFirstClient - options_.idle);
    return 0;
}

void Daemon::refresh_devices() {
    devices_changed_ = false;
    commands_->hear_departures(now());
    std::vector<Interface> interfaces;
    std::vector<Address> addresses;
    if (kernel_.interfaces(interfaces) != 0 || kernel_.addresses(addresses) != 0) {
        log(LogLevel::error, "the interfaces cannot be listed; the devices stay as they are");
        return;
    }
    // Addresses that no socket of ours could use, where IPv6 is there but not for us.
    if (!queues_.takes_ipv6())
        std::erase_if(addresses, [](const Address& each) { return !each.gid.is_ipv4(); });
    for (std::uint32_t gone : devices_->update(interfaces, addresses, sessions_.count() == 0))
        manager_->device_removed(gone, now());
    for (std::uint32_t moved : devices_->moved()) manager_->hardware_address_changed(moved);
    if (devices_->changed()) sessions_.tell_news();
    for (const host::Device& device : table_.table().devices)
        if (device.present) totals_.port_is(device.index, device.active != 0);
}

YieldListener::Answer Daemon::asked_to_yield() {
    const std::size_t programs = sessions_.count();
    if (programs == 0 && !options_.service) {
        yielding_ = true;
        return {true, {}};
    }
    return {false, "pid " + std::to_string(getpid()) + ", " + std::to_string(programs) +
                       (programs == 1 ? " program" : " programs")};
}

bool Daemon::may_leave(Time at) {
    if (options_.service || sessions_.count() > 0) {
        idle_since_ = at;
        yielding_ = false;
        return false;
    }
    const bool quiet = manager_->next_deadline() == kNever;
    if (yielding_) return quiet || at >= idle_since_ + kYieldPatience;
    const Duration patience = wire_ || !is_default() ? options_.idle : std::min(options_.idle, kShortIdle);
    return quiet && at >= idle_since_ + patience;
}

Time Daemon::next_deadline(Time at) const {
    Time deadline =
        std::min({manager_->next_deadline(), neighbors_->next_deadline(), cm_faults_.next_deadline()});
    if (!options_.service && sessions_.count() == 0)
        deadline =
            std::min(deadline, at + std::min(options_.idle, yielding_ ? kYieldPatience / 10 : kShortIdle));
    return deadline;
}

void Daemon::run() {
    for (bool waits = true;;) {
        try {
            if (!run_once(waits)) return leave();
            waits = true;
        } catch (const std::bad_alloc&) {
            // A peer repeats what it has sent, and who asked was answered (sessions.cpp).
            log(LogLevel::error, "no memory: something that came just now is lost");
            usleep(kPauseWithoutMemory / kMicrosecond);
            waits = false;  // for the rest of it
        }
    }
}

// False if nobody needs it any more.
bool Daemon::run_once(bool waits) {
    const Time begin = now();
    loop_.run_once(waits ? next_deadline(begin) : begin);
    if (devices_changed_) refresh_devices();
    const Time at = now();
    if (cm_faults_.next_deadline() <= at) cm_faults_.advance(at);
    if (manager_->next_deadline() <= at) {
        commands_->hear_departures(at);
        manager_->advance(at);
    }
    if (neighbors_->next_deadline() <= at) neighbors_->check(at);
    qp1_.deliver_own();
    files_.flush();
    heap_.make_pages();
    const cm::Manager::Counts counts = manager_->counts();
    heap_.holds(counts.ids + counts.connections);
    return !may_leave(at) || sessions_.accept_waiting();
}

void Daemon::leave() {
    log(LogLevel::info, yielding_ ? "leaving: another user wants the port" : "leaving: nobody needs me");
    yield_.close(loop_);
    // Destruction order would close the name first.
    loop_.remove(qp1_.wait_fd());
    qp1_ = {};
    queues_ = {};
    sessions_.stop_listening();
}

int Daemon::request(Session& session, const Request& request, host::Received& received,
                    std::span<std::uint8_t> reply, std::vector<int>& to_send) {
    const int error = run_command(session, request, received, reply, to_send);
    if (request.header.sequence != 0) files_.flush();
    return error;
}

int Daemon::run_command(Session& session, const Request& request, host::Received& received,
                        std::span<std::uint8_t> reply, std::vector<int>& to_send) {
    switch (request.header.command) {
        case host::Command::hello:
            return hello(session, request, reply, to_send);
        case host::Command::open_queue:
            return open_queue(session, received, reply, to_send);
        case host::Command::close_queue:
            return close_queue(session, request.as<host::QueueNumber>().queue);
        case host::Command::create_file: {
            host::FileReply out;
            const int error = files_.create(session.number, Descriptor(received.take(0)), out.file);
            answer(reply, out);
            return error;
        }
        case host::Command::close_file:
        case host::Command::lend_file: {
            const auto file = request.as<host::FileRequest>().file;
            if (files_.owner(file) != session.number)
                return fail(EBADF, "the process has no event channel %u", file);
            if (request.header.command == host::Command::lend_file)
                to_send.push_back(files_.descriptor(file));
            else
                commands_->close_file(file, now());
            return 0;
        }
        case host::Command::status:
            commands_->hear_departures(now());
            status(reply);
            return 0;
        case host::Command::next_process:
            return next_process(session, request.as<host::AfterRequest>().after, reply, to_send);
        case host::Command::next_ids:
            commands_->hear_departures(now());
            next_ids(session, request.as<host::AfterRequest>().after, reply);
            return 0;
        case host::Command::faults:
            return faults_of(session, request, received, reply, to_send);
        case host::Command::capture: {
            host::CaptureReply out;
            const int error =
                captures_.ask(session, request.as<host::CaptureRequest>().index, received, out, to_send);
            answer(reply, out);
            return error;
        }
        case host::Command::port_totals:
            answer(reply,
                   host::PortReply{totals_.ended(), totals_.of(request.as<host::PortRequest>().device)});
            return 0;
        case host::Command::communication_established:
            if (!owns_block(session, link::block_of(request.as<host::QpRequest>().qp_number)))
                return fail(EINVAL, "the queue pair is another process's");
            [[fallthrough]];
        default:
            return commands_->run(request, {session.number, session.low_ports}, Descriptor(received.take(0)),
                                  reply, now());
    }
}

int Daemon::hello(Session& session, const Request& request, std::span<std::uint8_t> reply,
                  std::vector<int>& to_send) {
    auto asked = request.as<host::HelloRequest>();
    asked.capture.back() = '\0';
    // Root's service writes no files where others ask it to.
    if (asked.capture[0] && session.user == geteuid() && !options_.service)
        captures_.name_file(session, asked.capture.data());
    asked.faults.back() = '\0';
    if (asked.faults[0] && !session.plan) {
        session.plan = cm_faults_.board_of(asked.faults.data());
        if (!session.plan) log(LogLevel::warn, "pid %d: %s", session.pid, last_reason());
    }
    host::HelloReply out;
    out.daemon_pid = static_cast<std::uint32_t>(getpid());
    copy_text(out.build, VERBENA_VERSION);
    out.fabric = fabric();
    to_send.push_back(table_.descriptor());
    if (!session.lifeline) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail(errno, "pipe: %s", std::strerror(errno));
        lifeline_.reset(ends[0]);
        session.lifeline.reset(ends[1]);
        to_send.push_back(ends[0]);
    }
    answer(reply, out);
    return 0;
}

int Daemon::open_queue(Session& session, host::Received& received, std::span<std::uint8_t> reply,
                       std::vector<int>& to_send) {
    std::uint32_t queue = 0;
    if (int error = queues_.take(session.pid, now(), queue)) return error;
    session.queues.push_back(queue);
    if (!session.tables) session.tables = for_reading(Descriptor(received.take(0)));
    host::OpenQueueReply out;
    out.queue = queue;
    out.first_qp_number = queue << link::kBlockBits;
    out.qp_numbers = link::kBlockSize;
    out.udp_port = queues_.port();
    copy_text(out.stray_fabric, stray_fabric_);
    to_send.push_back(queues_.descriptor(queue));
    answer(reply, out);
    return 0;
}

namespace {

bool may_see(const Session& asking, const Session& other) {
    return asking.user == other.user || asking.user == 0;
}

}  // namespace

int Daemon::next_process(const Session& asking, std::uint32_t after, std::span<std::uint8_t> reply,
                         std::vector<int>& to_send) const {
    const Session* next = sessions_.next(after);
    while (next && (!next->tables || !may_see(asking, *next))) next = sessions_.next(next->number);
    host::ProcessReply out;
    out.ended = totals_.ended();
    if (next) {
        out.session = next->number;
        out.pid = static_cast<std::uint32_t>(next->pid);
        out.user = next->user;
        out.has_tables = 1;
        to_send.push_back(next->tables.get());
    }
    answer(reply, out);
    return 0;
}

// Descriptors of plans are to be written by programs, which count there, and by the tools of their user.
int Daemon::faults_of(const Session& asking, const Request& request, host::Received& received,
                      std::span<std::uint8_t> reply, std::vector<int>& to_send) {
    const auto asked = request.as<host::FaultsRequest>();
    const Descriptor given(received.take(0));
    Session* target = nullptr;
    sessions_.for_each([&](Session& each) {
        if (asked.session == 0 ? each.number == asking.number : each.number == asked.session) target = &each;
    });
    if (!target || target->user != asking.user) return fail(ESRCH, "there is no such program of this user");
    if (given && !target->plan) {
        target->plan = cm_faults_.board_of(given.get());
        if (!target->plan) return fail(errno, "%s", std::string(last_reason()).c_str());
    }
    if (given || asked.changed) sessions_.tell_news();
    host::FaultsReply out;
    out.has_plan = target->plan != nullptr;
    if (target->plan) to_send.push_back(target->plan->fd());
    answer(reply, out);
    return 0;
}

void Daemon::next_ids(const Session& asking, std::uint32_t after, std::span<std::uint8_t> reply) const {
    host::IdsReply out;
    for (cm::IdSummary id; out.count < out.entries.size() && manager_->next_id(after, id);) {
        after = id.id;
        const Session* owner = sessions_.find(files_.owner(manager_->file(id.id)));
        if (owner && may_see(asking, *owner))
            out.entries[out.count++] = {id, static_cast<std::uint32_t>(owner->pid)};
    }
    answer(reply, out);
}

bool Daemon::owns_block(const Session& session, std::uint32_t block) {
    return std::find(session.queues.begin(), session.queues.end(), block) != session.queues.end();
}

int Daemon::close_queue(Session& session, std::uint32_t queue) {
    auto found = std::find(session.queues.begin(), session.queues.end(), queue);
    if (found == session.queues.end()) return fail(EINVAL, "the process has no receive queue %u", queue);
    session.queues.erase(found);
    queues_.give_back(queue, now());
    return 0;
}

// What the kernel does when a process's files are closed: disconnect requests and rejects leave, ports are
// free.
void Daemon::ended(Session& session) {
    const Time at = now();
    files_.for_each_of(session.number, [&](cm::FileNumber file) { commands_->close_file(file, at); });
    commands_->ended(session.number);
    captures_.ended(session);  // with the disconnect requests
    for (; !session.queues.empty(); session.queues.pop_back()) queues_.give_back(session.queues.back(), at);
    if (session.tables) totals_.program_ended(session.tables.get());
    idle_since_ = at;
    devices_changed_ =
        devices_changed_ || sessions_.count() == 1;  // the last one: the table may be tidied up
}

void Daemon::status(std::span<std::uint8_t> reply) const {
    const cm::Manager::Counts counts = manager_->counts();
    host::StatusReply out;
    out.daemon_pid = static_cast<std::uint32_t>(getpid());
    out.clients = static_cast<std::uint32_t>(sessions_.count());
    out.queues = static_cast<std::uint32_t>(queues_.in_use());
    out.files = static_cast<std::uint32_t>(files_.count());
    out.ids = static_cast<std::uint32_t>(counts.ids);
    out.listeners = static_cast<std::uint32_t>(counts.listeners);
    out.connections = static_cast<std::uint32_t>(counts.connections);
    out.timewait = static_cast<std::uint32_t>(counts.timewait);
    out.uptime_seconds = static_cast<std::uint32_t>((now() - started_) / kSecond);
    out.udp_port = queues_.port();
    out.fabric = fabric();
    answer(reply, out);
}

host::FabricInfo Daemon::fabric() const {
    host::FabricInfo info;
    copy_text(info.name, options_.fabric);
    info.wire_available = wire_;
    info.chosen = !is_default();
    copy_text(info.note, wire_note_);
    return info;
}

}  // namespace verbena::daemon
