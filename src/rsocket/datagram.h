// A datagram socket. A UDP socket of the kernel's holds address and port; a UD queue pair per device carries
// the datagrams. The first one to a peer travels over UDP and tells our QPN; the peer answers with its own,
// and from then on both use the queue pairs. A datagram too large for a slot or for the path's packets
// travels over UDP always.
//
// datagram.cpp: the calls. datagram_peers.cpp: peers, devices, and what arrives over UDP (the service's
// thread). None of it waits for an answer of the network: anybody can send in anybody's name.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "rsocket/datagram_peer_table.h"
#include "rsocket/datagram_port.h"
#include "rsocket/service.h"
#include "rsocket/socket.h"

namespace verbena::rsocket {

class Datagram final : public Socket, public ServiceClient {
   public:
    Datagram(int domain, Service& service) : Socket(domain), service_(service) {}
    ~Datagram() override;
    // After open(). An errno.
    [[nodiscard]] int open_udp();

    int type() const override { return SOCK_DGRAM; }
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
    int take_error() override { return 0; }

    short readiness(short wanted, const Waker* self) override;
    void arm() override;
    void drain(const Waker* self) override;

    void descriptor_ready() override;

   private:
    using Lock = std::unique_lock<std::mutex>;
    using Speaker = PeerTable::Speaker;
    // A datagram that nobody has read: in a receive slot, or copied from UDP.
    struct Arrived {
        DatagramPort* port = nullptr;
        DatagramPort::Received slot{};
        std::vector<std::uint8_t> copy;
        Endpoint source;
        std::size_t header = 0;
    };

    int ensure_watched();  // an errno, here and below
    int ensure_bound();
    bool progress();
    template <class Condition>
    int wait(Lock& lock, bool blocking, Time deadline, Condition holds);
    int wait_for_udp(Lock& lock, Time deadline);  // an errno
    void empty_descriptors(const Waker* self);
    std::span<const std::uint8_t> bytes(const Arrived& arrived) const;
    void drop(const Arrived& arrived);
    bool wanted(const Endpoint& source) const { return !peer_ || source == *peer_; }

    // datagram_peers.cpp
    Endpoint destination_of(const Address& to) const;
    Peer* peer_of(const Endpoint& destination, Speaker speaker);  // nullptr with errno
    int source_towards(const Address& destination, Endpoint& source) const;
    int port_at(const Endpoint& source, DatagramPort*& found);
    // Does not wait: EAGAIN where the kernel has no room.
    ssize_t send_udp(const Endpoint& destination, const Peer& peer, Cursor data,
                     UdpOperation operation) const;
    void udp_arrived(std::span<const std::uint8_t> bytes, const Address& from);
    Address to_kernel(const Endpoint& endpoint) const;

    Service& service_;
    int udp_fd_ = -1;

    std::mutex mutex_;
    Settings settings_;
    std::vector<std::unique_ptr<DatagramPort>> ports_;
    PeerTable peers_;
    std::deque<Arrived> arrived_;
    std::vector<DatagramPort::Received> scratch_;
    std::optional<Endpoint> peer_;  // connected to
    bool closed_ = false, shut_read_ = false, shut_write_ = false;
    bool watched_ = false, bound_ = false;
};

}  // namespace verbena::rsocket
