// Everything that librdmacm keeps for one process: its event channels and its ids, found by the pointers that
// the program holds. A pointer that is not in here is never followed: an id that another thread destroys
// meanwhile, or that a forked child inherited, makes a call fail instead of touching freed memory.
//
// Thread safety: all functions. Lock order: Channel::mutex, then Process::mutex, then Id::mutex. Those
// of the last four members are taken last.
#pragma once

#include <rdma/rdma_cma.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace verbena::rdmacm {

struct Channel;
struct Id;
class DaemonPage;
class DeviceCache;
class IdNumbers;
class KnownAddresses;
class LentEnds;

struct Process {
    pid_t pid = 0;
    std::mutex mutex;
    std::unordered_map<const rdma_event_channel*, std::shared_ptr<Channel>> channels;
    std::array<std::shared_ptr<Channel>, 8> destroyed;  // the newest of them: see late_reader in channel.h
    std::size_t channels_destroyed = 0;
    std::unordered_map<const rdma_cm_id*, std::shared_ptr<Id>> ids;
    std::unique_ptr<DeviceCache> devices;
    std::unique_ptr<IdNumbers> numbers;
    std::unique_ptr<LentEnds> lent_ends;
    std::unique_ptr<DaemonPage> page;
    std::unique_ptr<KnownAddresses> addresses;

    Process();
    ~Process();
};

// Of the calling process. A forked child begins with an empty one: the parent's locks, sockets and queue
// pairs are not its own.
Process& process();

std::shared_ptr<Channel> find_channel(const rdma_event_channel* channel);
std::shared_ptr<Id> find_id(const rdma_cm_id* id);
// From here on no event is given to the program, and no other call finds the id. False: that was so before.
bool forget_id(const rdma_cm_id* id);

}  // namespace verbena::rdmacm
