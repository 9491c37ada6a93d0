// QP1: the management datagrams of the connection manager, on queue 0. A UDP link like any program's carries
// them, so capture, ICRC and addresses work the same way. Those to our own addresses would come back to us;
// unless somebody looks at packets they are handed over without the kernel, in their order, by deliver_own().
//
// Whatever else arrives on queue 0 (numbers of another block, because the kernel had merged packets or cannot
// steer) is passed on to that block's program.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
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

    // Whether what takes that path comes back to us.
    using IsOurs = std::function<bool(const wire::Path&)>;

    // `queue` is duplicated. 0 or an errno with a reason.
    int open(int queue, link::UdpLink::Setup setup, std::uint32_t first_psn, IsOurs is_ours, Handler handler);

    int wait_fd() const { return link_->wait_fd(); }
    void receive();
    // What was sent to ourselves until now, and what is sent meanwhile; behind what of it the kernel got
    // before. Not from within the handler.
    void deliver_own();
    void send(const wire::Path& path, std::uint32_t destination_qp,
              std::span<const std::uint8_t, wire::kMadLength> mad, const faults::Mark& mark = {});

    struct Counters {
        std::uint64_t received, sent, bad_icrc, ignored, strays;
    };
    const Counters& counters() const { return counters_; }

   private:
    struct OwnMad {
        wire::Path path;
        std::array<std::uint8_t, wire::kMadLength> mad;
    };

    void datagram(const link::Datagram& datagram) override;
    void arrived(const wire::Path& path, std::uint32_t source_qp,
                 std::span<const std::uint8_t, wire::kMadLength> mad);

    std::unique_ptr<link::UdpLink> link_;
    IsOurs is_ours_;
    std::deque<OwnMad> own_;
    bool kernel_has_own_ = false;  // perhaps
    Handler handler_;
    std::uint32_t psn_ = 0;
    Counters counters_{};
};

}  // namespace verbena::daemon
