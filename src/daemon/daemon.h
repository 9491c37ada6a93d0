// verbenad: puts the parts together and keeps them going until nobody needs them.
//
// Start: take the fabric's name (there can be one daemon), get the port, open queue 0, list the devices, say
// that we serve. End: some seconds after the last program and the last time-wait, or at once if another user
// asks for the port and nobody is connected. The sockets are closed before the name, so a successor that
// starts at that moment finds the port free.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cm/manager.h"
#include "daemon/captures.h"
#include "daemon/cm_commands.h"
#include "daemon/environment.h"
#include "daemon/heap.h"
#include "daemon/sessions.h"
#include "daemon/table_file.h"
#include "daemon/totals.h"
#include "daemon/wire_port.h"

namespace verbena::daemon {

struct Options {
    std::string fabric = "default";
    bool service = false;  // for all users; never leaves
    Duration idle = 5 * kSecond;
    Duration port_patience = 2 * kSecond;  // with programs of a dead daemon that still hold the port
};

class Daemon final : private Sessions::Handler {
   public:
    explicit Daemon(const Options& options);
    ~Daemon() override;

    // 0; EADDRINUSE if another daemon has the fabric; an errno with a reason.
    int start();
    void run();

   private:
    int open_queues();
    int open_network();
    int listen();
    void refresh_devices();
    bool is_default() const { return options_.fabric == "default"; }
    bool may_leave(Time now);
    YieldListener::Answer asked_to_yield();
    Time next_deadline(Time now) const;
    bool run_once(bool waits);
    void leave();

    int request(Session& session, const Request& request, host::Received& received,
                std::span<std::uint8_t> reply, std::vector<int>& to_send) override;
    void ended(Session& session) override;
    int run_command(Session& session, const Request& request, host::Received& received,
                    std::span<std::uint8_t> reply, std::vector<int>& to_send);
    static bool owns_block(const Session& session, std::uint32_t block);
    int hello(Session& session, const Request& request, std::span<std::uint8_t> reply,
              std::vector<int>& to_send);
    int open_queue(Session& session, host::Received& received, std::span<std::uint8_t> reply,
                   std::vector<int>& to_send);
    int faults_of(const Session& asking, const Request& request, host::Received& received,
                  std::span<std::uint8_t> reply, std::vector<int>& to_send);
    int close_queue(Session& session, std::uint32_t queue);
    int next_process(const Session& asking, std::uint32_t after, std::span<std::uint8_t> reply,
                     std::vector<int>& to_send) const;
    void next_ids(const Session& asking, std::uint32_t after, std::span<std::uint8_t> reply) const;
    void status(std::span<std::uint8_t> reply) const;
    host::FabricInfo fabric() const;

    const Options options_;
    const Time started_;
    Heap heap_;
    Loop loop_;
    Descriptor name_;  // bound, until it listens
    bool wire_ = false;
    std::string wire_note_;
    std::string stray_fabric_;
    YieldListener yield_;
    Queues queues_;
    TableFile table_;
    Netlink kernel_;
    NetlinkMonitor monitor_;
    std::optional<Devices> devices_;
    std::optional<Routes> routes_;
    std::optional<Neighbors> neighbors_;
    Totals totals_;
    Files files_;
    Qp1 qp1_;
    faults::CmFaults cm_faults_;
    std::optional<Environment> environment_;
    std::optional<cm::Manager> manager_;
    std::optional<CmCommands> commands_;
    Sessions sessions_;
    Captures captures_;
    // A lifeline's read end, between the hello and its reply.
    Descriptor lifeline_;
    bool devices_changed_ = false;
    bool yielding_ = false;
    Time idle_since_;
};

}  // namespace verbena::daemon
