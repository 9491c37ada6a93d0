// A program that uses the connection manager: it listens, connects, accepts, rejects, disconnects, destroys
// ids and dies at moments drawn from its seed. Each event that it gets is checked against what may follow
// what (cm_program.cpp: check_event), and at the end both programs' views of each connection are compared
// (cm_registry.cpp).
//
// Thread safety: none.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>

#include "sim/cm_host.h"
#include "sim/cm_registry.h"

namespace verbena::sim {

// A conversation without chance.
struct CmScript {
    enum class Ending : std::uint8_t {
        client,
        server,
        both,
        client_destroys,
        server_destroys,
        refused,
        client_gives_up  // while the server has not answered
    };
    Duration answer = 0;   // of the server, to the request
    Duration confirm = 0;  // of the client, to the reply
    Duration leave = 0;    // of who hears the end, until it goes too
    Ending ending = Ending::client;
    bool data = false;  // the client's data overtakes its RTU
};

struct CmHabits {
    bool gentle = false;          // nobody rejects, destroys early or dies; answers come within milliseconds
    Duration longest_answer = 0;  // to a request or reply
    std::uint32_t refuse = 0;     // chances per million
    std::uint32_t destroy = 0;
    std::uint32_t die = 0;
    const CmScript* script = nullptr;  // then nothing of the above counts
};

class CmProgram final : public EventSink {
   public:
    CmProgram(World& world, CmRegistry& registry, CmHost& host, cm::FileNumber file, const CmHabits& habits,
              std::uint64_t seed);

    void listen(cm::PortSpace space, std::uint16_t port, int backlog, bool wildcard, bool ipv6);
    void connect_at(Time at, const cm::Endpoint& to, cm::PortSpace space);

    void event(const cm::Event& event) override;
    void die();
    void finish();  // destroys what is left
    bool gone() const { return dead_ || host_.dead(); }

   private:
    using Handler = void (CmProgram::*)(CmTrack&);

    CmTrack& add(cm::IdNumber id, CmTrack::Role role, cm::PortSpace space);
    CmTrack* find(cm::IdNumber id);
    void later(Duration delay, CmTrack& track, Handler handler);
    Duration answer_time();
    void established_by_script(CmTrack& track);
    void check_event(CmTrack& track, const cm::Event& event);
    void check_data(const cm::Event& event, std::uint64_t key, std::size_t length, const char* what);
    void read(const cm::Event& event);
    void read_request(const cm::Event& event);
    cm::ConnectParameters parameters(std::uint64_t key, std::size_t length, CmTrack& track);

    void resolve(CmTrack& track);
    void route(CmTrack& track);
    void connect(CmTrack& track);
    void answer(CmTrack& track);   // a request
    void confirm(CmTrack& track);  // a reply
    void send_data(CmTrack& track);
    void established(CmTrack& track);
    void disconnect(CmTrack& track);
    void destroy(CmTrack& track);
    void violation(const CmTrack& track, const char* format, ...) __attribute__((format(printf, 3, 4)));

    World& world_;
    CmRegistry& registry_;
    CmHost& host_;
    const cm::FileNumber file_;
    const CmHabits habits_;
    Random random_;
    std::map<cm::IdNumber, CmTrack*> tracks_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    bool dead_ = false;
};

}  // namespace verbena::sim
