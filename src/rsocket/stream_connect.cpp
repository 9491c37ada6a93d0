// A stream's life before data: binding, listening, accepting and connecting. What the connection manager
// reports arrives in cm_event(), in the service's thread.
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/reason.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

namespace verbena::rsocket {
namespace {

constexpr int kResolveMs = 2'000;
constexpr unsigned kMostBacklog = 4096;

int errno_of_status(int status) { return status < 0 && status > -4096 ? -status : EHOSTUNREACH; }

rdma_conn_param parameters_with(std::span<const std::uint8_t> hello) {
    rdma_conn_param parameters{};
    parameters.private_data = hello.data();
    parameters.private_data_len = static_cast<std::uint8_t>(hello.size());
    parameters.flow_control = 1;
    parameters.retry_count = 7;
    parameters.rnr_retry_count = 7;  // for ever: a reader may take its time
    return parameters;
}

}  // namespace

Stream::~Stream() = default;

int Stream::ensure_id() {
    if (id_) return 0;
    id_ = service_.create_id(std::static_pointer_cast<Stream>(shared_from_this()), RDMA_PS_TCP);
    if (!id_) return errno;
    int on = 1;
    if (settings_.reuse_address)
        rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on);
    if (domain_ == AF_INET6) {
        int only = settings_.only_v6;
        rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only);
    }
    if (settings_.type_of_service) {
        auto service_type = static_cast<std::uint8_t>(settings_.type_of_service);
        rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service_type, sizeof service_type);
    }
    return 0;
}

// The connection manager says EADDRNOTAVAIL for an address that is not the host's and for a port that a
// wildcard holds; TCP tells the two apart.
int Stream::bind(const Address& address) {
    Lock lock(mutex_);
    if (phase_ != Phase::idle || bound_)
        return fail_minus_one(EINVAL, "the socket is bound, listening or connected already");
    if (address.family() != domain_)
        return fail_minus_one(domain_ == AF_INET6 ? EINVAL : EAFNOSUPPORT,
                              "an address of family %d for a socket of family %d", address.family(), domain_);
    if (int error = ensure_id()) {
        errno = error;
        return -1;
    }
    Address plain = address.unmapped();
    if (rdma_bind_addr(id_, plain.get()) != 0) {
        int error = errno;
        rdma_cm_id* id = id_;
        id_ = nullptr;
        lock.unlock();
        service_.destroy_id(id);
        if (error == EADDRNOTAVAIL && plain.port() != 0) {
            rdma_cm_id* probe = nullptr;
            if (rdma_create_id(nullptr, &probe, nullptr, RDMA_PS_TCP) == 0) {
                plain.set_port(0);
                if (rdma_bind_addr(probe, plain.get()) == 0) error = EADDRINUSE;
                rdma_destroy_id(probe);
            }
        }
        errno = error;
        return -1;
    }
    bound_ = address;
    return 0;
}

int Stream::listen(int backlog) {
    Lock lock(mutex_);
    const unsigned wanted =
        backlog < 0 ? kMostBacklog : std::clamp(static_cast<unsigned>(backlog), 1u, kMostBacklog);
    if (phase_ == Phase::listening) {
        backlog_ = wanted;
        return 0;
    }
    if (phase_ != Phase::idle) return fail_minus_one(EINVAL, "the socket is connected or has been");
    if (int error = ensure_id()) {
        errno = error;
        return -1;
    }
    if (!bound_) {
        Address wildcard = Address::any(domain_);
        if (rdma_bind_addr(id_, wildcard.get()) != 0) return -1;
        bound_ = wildcard;
    }
    backlog_ = wanted;
    phase_ = Phase::listening;
    if (rdma_listen(id_, static_cast<int>(kMostBacklog)) == 0) return 0;
    phase_ = Phase::idle;
    if (errno == EADDRNOTAVAIL) errno = EADDRINUSE;
    return -1;
}

std::shared_ptr<Socket> Stream::accept() {
    const Turn receiving(*this, receive_mutex_, blocks(0));
    if (!receiving) return nullptr;
    Lock lock(mutex_);
    if (phase_ == Phase::listening && std::exchange(starved_, 0)) accept_requests(lock);
    const auto holds = [&] { return !ready_.empty() || starved_ || phase_ != Phase::listening; };
    if (int error = wait(lock, receive_sleeper_, blocks(0), deadline_of(settings_.receive_timeout), holds)) {
        errno = error;
        return nullptr;
    }
    if (ready_.empty() && phase_ == Phase::listening)
        return fail_null(starved_, "no descriptors for another rsocket: %s", std::strerror(starved_));
    if (ready_.empty())
        return fail_null(error_ ? std::exchange(error_, 0) : EINVAL, "the socket does not listen");
    std::shared_ptr<Stream> child = std::move(ready_.front());
    ready_.pop_front();
    accept_requests(lock);
    return child;
}

int Stream::connect(const Address& address) {
    Lock lock(mutex_);
    switch (phase_) {
        case Phase::connecting:
            if (blocks(0)) return finish_connecting(lock, 0);
            return fail_minus_one(EALREADY, "the socket is connecting already");
        case Phase::connected:
            if (!reported_) {
                reported_ = true;
                return 0;
            }
            return fail_minus_one(EISCONN, "the socket is connected");
        case Phase::listening:
            return fail_minus_one(EISCONN, "the socket listens");
        case Phase::accepting:
            return fail_minus_one(EISCONN, "the socket is being accepted");
        case Phase::ended:
            if (was_connected_ && !std::exchange(reported_, true)) return 0;
            if (was_connected_) return fail_minus_one(EISCONN, "the socket was connected");
            if (error_) {
                errno = std::exchange(error_, 0);
                reset_id(lock);
                return -1;
            }
            reset_id(lock);
            break;
        case Phase::idle:
            break;
    }
    if (int error = begin_connecting(address)) {
        reset_id(lock);
        errno = error;
        return -1;
    }
    return finish_connecting(lock, 0);
}

// A failed attempt leaves nothing behind: the next one starts with a new id, bound as before.
void Stream::reset_id(Lock& lock) {
    rdma_cm_id* id = std::exchange(id_, nullptr);
    lock.unlock();
    connection_.destroy();
    if (id) service_.destroy_id(id);
    lock.lock();
    phase_ = Phase::idle;
    reported_ = false;
    nudge();
    if (!bound_) return;
    if (ensure_id() == 0) rdma_bind_addr(id_, bound_->unmapped().get());
}

int Stream::begin_connecting(const Address& address) {
    Address plain = address.unmapped();
    if (address.family() != domain_)
        return fail(EAFNOSUPPORT, "an address of family %d for a socket of family %d", address.family(),
                    domain_);
    if (int error = ensure_id()) return error;
    destination_ = address;
    phase_ = Phase::connecting;
    if (rdma_resolve_addr(id_, nullptr, plain.get(), kResolveMs) != 0) return errno;
    return 0;
}

int Stream::finish_connecting(Lock& lock, int flags) {
    if (!blocks(flags)) {
        errno = EINPROGRESS;
        return -1;
    }
    Sleeper sleeper;
    if (int error = wait(lock, sleeper, true, deadline_of(settings_.send_timeout),
                         [&] { return phase_ != Phase::connecting; })) {
        errno = error == EAGAIN ? EINPROGRESS : error;
        return -1;
    }
    if (was_connected_) {  // and has perhaps ended already, with something to read
        reported_ = true;
        return 0;
    }
    const int error = std::exchange(error_, 0);
    reset_id(lock);
    errno = error ? error : ECONNABORTED;
    return -1;
}

void Stream::cm_event(const CmEvent& event) {
    Lock lock(mutex_);
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        request_arrived(event);
        accept_requests(lock);
        return;
    }
    if (event.id != id_) return;  // of an attempt that was given up
    switch (event.type) {
        case RDMA_CM_EVENT_ADDR_RESOLVED: {
            int result = 0;
            if (!settings_.route.empty())
                result = rdma_set_option(id_, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, settings_.route.data(),
                                         settings_.route.size() * sizeof(ibv_path_data));
            else
                result = rdma_resolve_route(id_, kResolveMs);
            if (result != 0) connecting_failed(errno);
            break;
        }
        case RDMA_CM_EVENT_ROUTE_RESOLVED: {
            int error = connection_.create(id_, settings_);
            if (error == 0) error = watch(connection_.completions().fd(), EPOLL_CTL_ADD);
            if (error == 0) {
                const auto hello = encode(connection_.hello());
                rdma_conn_param parameters = parameters_with(hello);
                if (rdma_connect(id_, &parameters) != 0) error = errno;
            }
            if (error) connecting_failed(error);
            break;
        }
        case RDMA_CM_EVENT_ESTABLISHED: {
            if (phase_ == Phase::accepting) {
                established(nullptr);
                break;
            }
            const auto peer = decode_hello(std::span(event.data).first(event.parameters.private_data_len));
            if (peer)
                established(&*peer);
            else
                connecting_failed(EPROTO);
            break;
        }
        case RDMA_CM_EVENT_ADDR_ERROR:
        case RDMA_CM_EVENT_ROUTE_ERROR:
        case RDMA_CM_EVENT_CONNECT_ERROR:
            connecting_failed(errno_of_status(event.status));
            break;
        case RDMA_CM_EVENT_UNREACHABLE:
            connecting_failed(ETIMEDOUT);
            break;
        case RDMA_CM_EVENT_REJECTED:
            connecting_failed(ECONNREFUSED);
            break;
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            phase_ == Phase::connected ? end(ENETDOWN) : connecting_failed(ENETDOWN);
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
            // The peer's confirmation was lost; who disconnects has been there.
            if (phase_ == Phase::accepting) established(nullptr);
            if (phase_ == Phase::connected) {
                progress();  // what came before
                // Who closes or shuts down says so first. A peer that did neither was killed, or threw away
                // what was under way.
                if (phase_ == Phase::connected) end(peer_done_ ? 0 : ECONNRESET);
            } else {
                connecting_failed(ECONNRESET);
            }
            break;
        default:
            return;
    }
    std::shared_ptr<Stream> listener = listener_.lock();
    // A peer may have sent and closed before we hear that it is there: that is a connection, too.
    const bool met = was_connected_, failed = phase_ == Phase::ended;
    nudge();
    lock.unlock();
    if (!listener) return;
    if (met)
        listener->child_ready(std::static_pointer_cast<Stream>(shared_from_this()));
    else if (failed)
        listener->child_failed(this);
}

void Stream::connecting_failed(int error) {
    if (phase_ == Phase::ended) return;
    phase_ = Phase::ended;
    readable_ = writable_ = false;
    error_ = error;
}

// `peer`: nothing new for a child, which met the peer when it was asked.
void Stream::established(const Hello* peer) {
    if (peer) {
        connection_.meet(*peer);
        send_window_.open(*peer);
        receive_window_ = ReceiveWindow(settings_.receive_buffer, settings_.receive_queue);
    }
    constexpr unsigned kControls = 4;
    control_slots_ = controls_ = kControls;
    send_slots_ = sends_ = settings_.send_queue - kControls;
    phase_ = Phase::connected;
    readable_ = writable_ = true;
    was_connected_ = true;
    progress();
    connection_.completions().arm();
    if (settings_.keepalive)
        service_.wake_at(std::static_pointer_cast<Stream>(shared_from_this()),
                         now() + settings_.keepalive_idle * kSecond);
}

void Stream::request_arrived(const CmEvent& event) {
    requests_.push_back(event);
    requests_.back().parameters.private_data = nullptr;
}

// Answers requests while the backlog has room; the others wait, and so do their peers.
void Stream::accept_requests(Lock& lock) {
    while (!requests_.empty() &&
           (phase_ != Phase::listening || ready_.size() + children_.size() <= backlog_)) {
        const CmEvent request = requests_.front();
        const int error = phase_ == Phase::listening ? start_child(request) : ECONNABORTED;
        if (is_want_of_descriptors(error)) {  // the peer goes on asking
            starved_ = error;
            return nudge();
        }
        requests_.pop_front();
        if (!error) continue;
        lock.unlock();
        rdma_reject(request.id, nullptr, 0);
        rdma_destroy_id(request.id);
        lock.lock();
    }
}

// An errno, and nothing has become of the request.
int Stream::start_child(const CmEvent& request) {
    std::list<std::shared_ptr<Stream>> made;
    const std::shared_ptr<Stream>& child = made.emplace_back(std::make_shared<Stream>(domain_, service_));
    child->settings_ = settings_;
    child->settings_.route.clear();
    child->listener_ = std::static_pointer_cast<Stream>(shared_from_this());
    if (child->open() != 0) return errno;
    {
        Lock lock(child->mutex_);
        child->id_ = request.id;
        service_.adopt(request.id, child);
        if (int error = child->answer(request)) {
            child->connection_.destroy();
            child->id_ = nullptr;
            return error;
        }
    }
    children_.splice(children_.end(), made);
    return 0;
}

int Stream::answer(const CmEvent& request) {
    const auto peer = decode_hello(std::span(request.data).first(request.parameters.private_data_len));
    if (!peer) return fail(EPROTO, "the connection request is none of a rsocket of version 1");
    if (int error = connection_.create(id_, settings_)) return error;
    if (int error = watch(connection_.completions().fd(), EPOLL_CTL_ADD)) return error;
    connection_.meet(*peer);
    send_window_.open(*peer);
    receive_window_ = ReceiveWindow(settings_.receive_buffer, settings_.receive_queue);
    const auto hello = encode(connection_.hello());
    rdma_conn_param parameters = parameters_with(hello);
    phase_ = Phase::accepting;
    reported_ = true;
    if (rdma_accept(id_, &parameters) != 0) return errno;
    return 0;
}

void Stream::child_ready(const std::shared_ptr<Stream>& child) {
    Lock lock(mutex_);
    auto found = std::find(children_.begin(), children_.end(), child);
    if (found == children_.end()) return;
    ready_.splice(ready_.end(), children_, found);
    {
        Lock of_child(child->mutex_);
        child->listener_.reset();
    }
    nudge();
}

void Stream::child_failed(const Stream* child) {
    std::shared_ptr<Stream> gone;
    {
        Lock lock(mutex_);
        auto found = std::find_if(children_.begin(), children_.end(),
                                  [&](const auto& other) { return other.get() == child; });
        if (found == children_.end()) return;
        gone = std::move(*found);
        children_.erase(found);
        accept_requests(lock);
    }
    gone->close();
}

int Stream::local_address(Address& address) {
    Lock lock(mutex_);
    if (id_)
        address.assign(rdma_get_local_addr(id_), domain_);
    else
        address = Address::any(domain_);
    return 0;
}

int Stream::peer_address(Address& address) {
    Lock lock(mutex_);
    if (phase_ != Phase::connected && !(phase_ == Phase::ended && was_connected_ && !broken_ && id_))
        return fail_minus_one(ENOTCONN, "the socket is not connected");
    if (destination_)
        address = *destination_;
    else
        address.assign(rdma_get_peer_addr(id_), domain_);
    return 0;
}

}  // namespace verbena::rsocket
