// A stream socket: TCP's behaviour over one RC connection. One object, in files by concern:
//
//   stream_connect.cpp   binding, listening, accepting, connecting; the connection manager's events
//   stream_send.cpp      rsend and the send ring
//   stream_receive.cpp   rrecv
//   stream_progress.cpp  completions, credits, waiting, readiness
//   stream_close.cpp     shutdown and close
//   stream_map.cpp       riomap, riounmap, riowrite
//   stream_settings.cpp  what options change and show
//
// Locks, in this order: send_mutex_ or receive_mutex_ (one sender, one receiver at a time), then mutex_ (all
// state). Data is copied under the former alone, so that both directions move at once. No lock is held while
// an id is destroyed, since that waits for the service, which takes mutex_.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>

#include "rsocket/connection.h"
#include "rsocket/direction.h"
#include "rsocket/service.h"
#include "rsocket/socket.h"
#include "rsocket/windows.h"

namespace verbena::rsocket {

class Stream final : public Socket, public ServiceClient {
   public:
    Stream(int domain, Service& service) : Socket(domain), service_(service) {}
    ~Stream() override;

    int type() const override { return SOCK_STREAM; }
    int bind(const Address& address) override;
    int listen(int backlog) override;
    std::shared_ptr<Socket> accept() override;
    int connect(const Address& address) override;
    ssize_t send(Cursor data, int flags, const Address* to) override;
    ssize_t receive(Cursor room, int flags, Address* from, int* out_flags) override;
    int shutdown(int how) override;
    void close() override;
    int local_address(Address& address) override;
    int peer_address(Address& address) override;
    std::size_t readable_bytes() override;

    Settings settings() override;
    int change(const Settings& settings) override;
    int take_error() override;
    bool is_listening();
    bool has_connection();
    bool is_connected();
    // The path of a connection; empty without one.
    std::vector<ibv_path_data> route();

    short readiness(short wanted, const Waker* self) override;
    void arm() override;
    void drain(const Waker* self) override;

    // riomap and its relatives; -1 with errno, as those calls do.
    off_t map(void* buffer, std::size_t length, int protection, off_t offset);
    int unmap(const void* buffer, std::size_t length);
    ssize_t write_mapped(Cursor data, off_t offset, int flags);

    // At the end of the process.
    void farewell();

    void cm_event(const CmEvent& event) override;
    Time timer(Time time) override;

   private:
    enum class Phase {
        idle,  // perhaps bound
        listening,
        connecting,  // by rconnect
        accepting,   // a child whose peer has not confirmed
        connected,
        ended,  // by either side, or failed
    };
    using Lock = std::unique_lock<std::mutex>;
    class Turn;  // wait.h

    // stream_connect.cpp
    int ensure_id();  // an errno; under mutex_
    int begin_connecting(const Address& address);
    int finish_connecting(Lock& lock, int flags);
    void request_arrived(const CmEvent& event);
    void accept_requests(Lock& lock);
    int start_child(const CmEvent& event);
    int answer(const CmEvent& request);
    void established(const Hello* peer);
    void connecting_failed(int error);
    void child_ready(const std::shared_ptr<Stream>& child);
    void child_failed(const Stream* child);
    void reset_id(Lock& lock);

    // stream_progress.cpp
    bool progress(const Waker* self = nullptr);  // true if something happened
    void empty_descriptors(const Waker* self);
    void complete(const ibv_wc& completion);
    void message_arrived(std::uint32_t message);
    void give_credits();
    void end(int error);
    void lost(int error);
    // Waits until `holds`; 0, EAGAIN, EINTR. The lock is released meanwhile.
    template <class Condition>
    int wait(Lock& lock, Sleeper& sleeper, bool blocking, Time deadline, Condition holds);
    bool can_send() const;
    bool all_sent() const;

    // stream_send.cpp
    int wait_to_send(Lock& lock, int flags, Time deadline, bool partly);
    int why_not_writable();
    std::uint8_t* reserve(std::uint32_t& wanted);
    int send_maps(Lock& lock, int flags, Time deadline);
    Time deadline_of(Duration timeout) const;

    // stream_close.cpp
    int send_control(Lock& lock, Control control);
    void drain_sends(Lock& lock, Duration patience);
    void stop_listening(Lock& lock);

    Service& service_;

    Direction send_mutex_, receive_mutex_;
    Sleeper send_sleeper_, receive_sleeper_;  // under the mutex of that direction

    std::mutex mutex_;
    Phase phase_ = Phase::idle;
    bool readable_ = false, writable_ = false;
    bool shut_write_ = false;  // by this side
    bool peer_done_ = false;   // the peer sends no more
    bool was_connected_ = false;
    bool reported_ = false;  // rconnect told of success
    bool heard_ = false;     // from the peer, since the last look of the keepalive timer
    int error_ = 0;          // SO_ERROR
    bool broken_ = false;    // ended by an error
    bool reset_told_ = false;
    Settings settings_;
    rdma_cm_id* id_ = nullptr;
    std::optional<Address> bound_, destination_;

    Connection connection_;
    SendWindow send_window_;
    ReceiveWindow receive_window_;
    std::uint32_t ring_head_ = 0, ring_used_ = 0;
    unsigned sends_ = 0;     // data requests that may be posted
    unsigned controls_ = 0;  // control requests that may be posted
    unsigned send_slots_ = 0, control_slots_ = 0;

    // Of a listener.
    unsigned backlog_ = 0;
    std::deque<CmEvent> requests_;  // not answered for want of room
    int starved_ = 0;               // or of descriptors, of which accept() has not told: the errno
    std::list<std::shared_ptr<Stream>> children_;
    std::list<std::shared_ptr<Stream>> ready_;
    std::weak_ptr<Stream> listener_;  // of a child until it is accepted

    // stream_map.cpp
    struct Mapping {
        void* buffer = nullptr;
        std::size_t length = 0;
        std::uint64_t offset = 0;
        ibv_mr* mr = nullptr;
        int index = -1;  // in the peer's table; -1: local
        bool told = false;
    };
    std::list<Mapping> mappings_;
    bool maps_pending_ = false;
};

}  // namespace verbena::rsocket
