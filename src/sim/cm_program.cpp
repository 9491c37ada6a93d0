#include "sim/cm_program.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>

#include "base/reason.h"
#include "cm/messages.h"
#include "sim/pattern.h"

namespace verbena::sim {
namespace {

using cm::EventType;
using Role = CmTrack::Role;

constexpr Duration kReadingTime = 200 * kMicrosecond;  // at most, from an event to its reader
constexpr std::uint64_t kReplyKey = 0x5245504c59, kRejectKey = 0x52454a;  // private data of answers
constexpr Duration kScriptPatience = 200 * kSecond;
constexpr Duration kGivesUpAfter = 7 * kSecond;  // between the first repetition and the second
constexpr int kOneInData = 3;                    // clients whose data overtakes their RTU

bool over(const CmTrack& track) { return track.destroyed || track.refused || track.terminated(); }

}  // namespace

CmProgram::CmProgram(World& world, CmRegistry& registry, CmHost& host, cm::FileNumber file,
                     const CmHabits& habits, std::uint64_t seed)
    : world_(world), registry_(registry), host_(host), file_(file), habits_(habits), random_(seed) {
    host_.open(file_, *this);
    if (random_.chance(habits_.die))
        world_.scheduler.after(random_.between(0, 20 * kSecond), [this, alive = alive_] {
            if (*alive) die();
        });
}

void CmProgram::violation(const CmTrack& track, const char* format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    world_.verdict.violation(world_.now(), "host %u, id %u: %s", host_.number(), track.id, text);
}

CmTrack& CmProgram::add(cm::IdNumber id, Role role, cm::PortSpace space) {
    CmTrack& track = registry_.add();
    track.role = role;
    track.id = id;
    track.host = &host_;
    track.space = space;
    track.born = world_.now();
    tracks_[id] = &track;
    if (random_.chance(habits_.destroy))
        later(random_.between(0, random_.pick({1, 1000, 30'000}) * kMillisecond), track, &CmProgram::destroy);
    return track;
}

CmTrack* CmProgram::find(cm::IdNumber id) {
    const auto track = tracks_.find(id);
    return track == tracks_.end() ? nullptr : track->second;
}

void CmProgram::later(Duration delay, CmTrack& track, Handler handler) {
    world_.scheduler.after(delay, [this, alive = alive_, &track, handler] {
        if (!*alive || gone() || track.destroyed) return;
        (this->*handler)(track);
        host_.called();
    });
}

Duration CmProgram::answer_time() {
    if (random_.one_in(2)) return 0;
    return random_.between(
        0, random_.one_in(4) ? habits_.longest_answer : std::min(habits_.longest_answer, 10 * kMillisecond));
}

// ---- what the program does

void CmProgram::listen(cm::PortSpace space, std::uint16_t port, int backlog, bool wildcard, bool ipv6) {
    cm::IdNumber id;
    cm::Endpoint at = host_.address(ipv6, port);
    if (wildcard) {
        at.address = ipv6 ? Gid{} : Gid::from_ipv4(0);
        at.scope_id = 0;
    }
    cm::Manager& manager = host_.manager();
    if (manager.create_id(file_, space, cm::QpType::rc, file_, id)) return;
    CmTrack& track = add(id, Role::listener, space);
    if (manager.bind(id, at, true) || manager.listen(id, backlog)) {
        // Another program of this host may have the port.
        destroy(track);
        return;
    }
    track.port = port;
}

void CmProgram::connect_at(Time at, const cm::Endpoint& to, cm::PortSpace space) {
    world_.scheduler.at(at, [this, alive = alive_, to, space] {
        if (!*alive || gone()) return;
        cm::IdNumber id;
        if (host_.manager().create_id(file_, space, cm::QpType::rc, file_, id)) return;
        CmTrack& track = add(id, Role::client, space);
        track.to = to;
        resolve(track);
        host_.called();
    });
}

void CmProgram::resolve(CmTrack& track) {
    // EADDRNOTAVAIL: the sixteen ephemeral ports are all taken.
    const int error = host_.manager().resolve_address(track.id, nullptr, track.to, 2 * kSecond, world_.now());
    if (error == EADDRNOTAVAIL) return destroy(track);
    if (error) violation(track, "resolve_address fails: %s", last_reason());
}

void CmProgram::route(CmTrack& track) {
    if (host_.manager().resolve_route(track.id, kSecond, world_.now()))
        violation(track, "resolve_route fails: %s", last_reason());
}

cm::ConnectParameters CmProgram::parameters(std::uint64_t key, std::size_t length, CmTrack& track) {
    cm::ConnectParameters p;
    p.responder_resources = p.initiator_depth = 4;
    p.retry_count = p.rnr_retry_count = 7;
    p.qp_number = track.qp;
    p.private_data_length = static_cast<std::uint8_t>(length);
    fill_pattern(key, 0, std::span(p.private_data).first(length));
    return p;
}

void CmProgram::connect(CmTrack& track) {
    if (!track.qp) track.qp = host_.take_qp();
    if (!track.qp) return later(kSecond, track, &CmProgram::connect);
    track.key = random_.next();
    registry_.clients_key(track.key, track);
    cm::ConnectParameters p = parameters(track.key, 56, track);
    for (unsigned i = 0; i < 8; i++) p.private_data[i] = static_cast<std::uint8_t>(track.key >> (8 * i));
    track.connect_called = true;
    track.connected_at = world_.now();
    if (host_.manager().connect(track.id, p, world_.now()))
        violation(track, "connect fails: %s", last_reason());
    if (habits_.script && habits_.script->ending == CmScript::Ending::client_gives_up)
        later(kGivesUpAfter, track, &CmProgram::destroy);
}

void CmProgram::answer(CmTrack& track) {
    cm::Manager& manager = host_.manager();
    const CmScript* script = habits_.script;
    if (random_.chance(habits_.refuse) || (script && script->ending == CmScript::Ending::refused)) {
        if (!script && random_.one_in(3)) return destroy(track);
        std::array<std::uint8_t, 32> data;
        fill_pattern(track.key ^ kRejectKey, 0, data);
        track.refused = manager.reject(track.id, data, 28, world_.now()) == 0;
        if (script && script->leave) return;
        return later(answer_time(), track, &CmProgram::destroy);
    }
    if (!track.qp) track.qp = host_.take_qp();
    if (!track.qp) return later(kSecond, track, &CmProgram::answer);
    const std::size_t length = track.datagram() ? cm::kSidrRepUserData : cm::kRepUserData;
    const cm::ConnectParameters p = parameters(track.key ^ kReplyKey, length, track);
    // EINVAL: the client gave up meanwhile, of which an id that was not accepted is not told.
    track.replied = manager.accept(track.id, &p, file_, world_.now()) == 0;
    if (!track.replied || track.datagram()) later(answer_time(), track, &CmProgram::destroy);
}

void CmProgram::confirm(CmTrack& track) {
    cm::Manager& manager = host_.manager();
    if (random_.chance(habits_.refuse)) {
        if (random_.one_in(3)) return destroy(track);
        track.refused = manager.reject(track.id, {}, 28, world_.now()) == 0;
        return later(answer_time(), track, &CmProgram::destroy);
    }
    if (manager.accept(track.id, nullptr, file_, world_.now())) {
        if (!track.terminated()) violation(track, "a reply cannot be confirmed: %s", last_reason());
        return;
    }
    track.confirmed = true;
    send_data(track);
    established(track);
}

// The client's first packet may arrive before its RTU.
void CmProgram::send_data(CmTrack& track) {
    if (habits_.script ? !habits_.script->data : !random_.one_in(kOneInData)) return;
    world_.scheduler.after(random_.between(0, 200 * kMicrosecond), [this, key = track.key] {
        CmTrack* server = registry_.server(key);
        if (!server || !server->replied || server->host->dead()) return;
        server->host->manager().communication_established(server->qp, world_.now());
        server->host->called();
    });
}

// Up; who ends it, and how?
void CmProgram::established(CmTrack& track) {
    if (habits_.script) return established_by_script(track);
    const Duration life = random_.pick({0, 10, 1000, 10'000}) * kMillisecond;
    switch (random_.below(8)) {
        case 0:
        case 1:
        case 2:
            break;  // the other side, most often
        case 3:
            if (!habits_.gentle) {
                later(life, track, &CmProgram::destroy);
                break;
            }
            [[fallthrough]];
        default:
            later(life, track, &CmProgram::disconnect);
            break;
    }
    later(life + random_.between(20, 60) * kSecond, track, &CmProgram::disconnect);
}

void CmProgram::established_by_script(CmTrack& track) {
    using Ending = CmScript::Ending;
    const bool client = track.role == Role::client;
    const Ending ending = habits_.script->ending;
    if (ending == Ending::both || ending == (client ? Ending::client : Ending::server))
        later(kMillisecond, track, &CmProgram::disconnect);
    if (ending == (client ? Ending::client_destroys : Ending::server_destroys))
        later(kMillisecond, track, &CmProgram::destroy);
    later(kScriptPatience, track, &CmProgram::disconnect);
}

void CmProgram::disconnect(CmTrack& track) {
    if (track.disconnect_called) return;
    track.disconnect_called = true;
    if (host_.manager().disconnect(track.id, world_.now()))
        violation(track, "disconnect fails: %s", last_reason());
}

void CmProgram::destroy(CmTrack& track) {
    if (track.destroyed) return;
    const bool had_end = track.over_at != kNever;
    std::uint64_t delivered = 0;
    track.destroyed = true;
    track.destroyed_at = world_.now();
    if (host_.manager().destroy_id(track.id, delivered, world_.now()))
        violation(track, "destroy_id fails: %s", last_reason());
    std::uint64_t got = 0;
    for (unsigned n : track.events) got += n;
    if (delivered != got)
        violation(track, "%llu events were delivered, but %llu came",
                  static_cast<unsigned long long>(delivered), static_cast<unsigned long long>(got));
    if (track.qp)
        host_.give_back_qp(track.qp, !track.connected() || track.datagram() ? kNever
                                     : had_end                              ? track.over_at
                                                                            : world_.now());
    // Requests that were not read die with their listener.
    for (auto& [id, other] : tracks_)
        if (other->listener == track.id && track.role == Role::listener && !other->born)
            other->destroyed = true;
}

void CmProgram::die() {
    if (gone()) return;
    dead_ = true;
    for (auto& [id, track] : tracks_) {
        if (track->destroyed) continue;
        track->destroyed = track->died = true;
        track->destroyed_at = world_.now();
        if (track->qp)
            host_.give_back_qp(track->qp, !track->connected() || track->datagram() ? kNever
                                          : track->over_at != kNever               ? track->over_at
                                                                                   : world_.now());
    }
    host_.close(file_);
}

void CmProgram::finish() {
    if (gone()) return;
    for (auto& [id, track] : tracks_)
        if (!track->destroyed) destroy(*track);
    host_.called();
}

// ---- what it hears

void CmProgram::event(const cm::Event& event) {
    if (event.type == EventType::connect_request) {
        CmTrack* listener = find(event.listen_id);
        if (!listener || listener->destroyed)
            return world_.verdict.violation(world_.now(), "host %u: a request for id %u, which is destroyed",
                                            host_.number(), event.listen_id);
        listener->events[static_cast<std::size_t>(event.type)]++;
    } else {
        CmTrack* track = find(event.id);
        if (!track || track->destroyed)
            return world_.verdict.violation(world_.now(), "host %u: event %u for id %u, which is destroyed",
                                            host_.number(), static_cast<unsigned>(event.type), event.id);
        check_event(*track, event);
    }
    world_.scheduler.after(random_.between(0, kReadingTime), [this, alive = alive_, event] {
        if (!*alive || gone()) return;
        read(event);
        host_.called();
    });
}

void CmProgram::read(const cm::Event& event) {
    if (event.type == EventType::connect_request) return read_request(event);
    CmTrack* track = find(event.id);
    if (!track || track->destroyed) return;
    switch (event.type) {
        case EventType::addr_resolved:
            route(*track);
            break;
        case EventType::addr_error:
            random_.one_in(2) ? destroy(*track) : resolve(*track);
            break;
        case EventType::route_resolved:
            connect(*track);
            break;
        case EventType::connect_response:
            check_data(event, track->key ^ kReplyKey, cm::kRepUserData, "reply");
            later(habits_.script ? habits_.script->confirm : answer_time(), *track, &CmProgram::confirm);
            break;
        case EventType::established:
            if (track->datagram()) {
                check_data(event, track->key ^ kReplyKey, cm::kSidrRepUserData, "datagram reply");
                later(answer_time(), *track, &CmProgram::destroy);
            } else {
                established(*track);
            }
            break;
        case EventType::disconnected:
            if (habits_.script) return later(habits_.script->leave, *track, &CmProgram::disconnect);
            later(answer_time(), *track, &CmProgram::disconnect);
            later(random_.pick({0, 5, 40}) * kSecond + habits_.longest_answer, *track, &CmProgram::destroy);
            break;
        case EventType::timewait_exit:
        case EventType::rejected:
        case EventType::unreachable:
            // Who lingers keeps the id to the end, so that late echoes meet it.
            if (habits_.script && habits_.script->leave) break;
            later(answer_time(), *track, &CmProgram::destroy);
            break;
        default:
            break;
    }
}

void CmProgram::read_request(const cm::Event& event) {
    CmTrack* listener = find(event.listen_id);
    if (!listener || listener->destroyed) return;  // the child was destroyed with it
    host_.manager().request_taken(event.listen_id);
    CmTrack& child = add(event.id, Role::server, listener->space);
    child.listener = event.listen_id;
    for (unsigned i = 0; i < 8; i++) child.key |= std::uint64_t{event.connection.private_data[i]} << (8 * i);
    CmTrack* client = registry_.client(child.key);
    if (!client) return violation(child, "a request that no client made");
    cm::Event rest = event;
    for (unsigned i = 0; i < 8; i++) rest.connection.private_data[i] = pattern_byte(child.key, i);
    check_data(rest, child.key, 56, "request");
    // Once either end has given up or refused, an echo of the REQ asks again, as in Linux; a
    // datagram's request does when its answer has been forgotten.
    if (CmTrack* other = registry_.server(child.key);
        other && !child.datagram() && !over(*other) && !over(*client))
        violation(child, "the request of id %u a second time", other->id);
    registry_.servers_key(child.key, child);
    later(habits_.script ? habits_.script->answer : answer_time(), child, &CmProgram::answer);
}

}  // namespace verbena::sim
