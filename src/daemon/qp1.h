// QP1: the management datagrams of the connection manager, on queue 0. A UDP link like any program's carries
// them, so capture, ICRC and addresses work the same way.
//
// Whatever else arrives on queue 0 (numbers of another block, because the kernel had merged packets or cannot
// steer) is passed on to that block's program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "faults/cm_faults.h"
#include "link/link.h"
#include "link/udp_link.h"
#include "wire/mad.h"

namespace verbena::daemon {

class Qp1 final : private link::Receiver {
   public:
    using Handler = std::function<void(const wire::Path& sender_view, std::uint32_t source_qp,
                                       std::span<const std::uint8_t, wire::kMadLength> mad)>;

    // `queue` is duplicated. 0 or an errno with a reason.
    int open(int queue, std::uint16_t port, const std::string& stray_fabric, std::uint32_t first_psn,
             Handler handler);

    int wait_fd() const { return link_->wait_fd(); }
    void receive();
    void send(const wire::Path& path, std::uint32_t destination_qp,
              std::span<const std::uint8_t, wire::kMadLength> mad, const faults::Mark& mark = {});

    struct Counters {
        std::uint64_t received, sent, bad_icrc, ignored, strays;
    };
    const Counters& counters() const { return counters_; }

   private:
    void datagram(const link::Datagram& datagram) override;

    std::unique_ptr<link::UdpLink> link_;
    Handler handler_;
    std::uint32_t psn_ = 0;
    Counters counters_{};
};

}  // namespace verbena::daemon
