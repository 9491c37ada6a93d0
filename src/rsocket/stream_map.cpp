// Buffers that the peer writes into directly: riomap announces one, riowrite writes into one.
//
// An announcement is an entry in the peer's table. It travels in front of the next data that the announcer
// sends, which is when rsocket(7) promises that the peer knows it.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/reason.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"
#include "verbs/private.h"

namespace verbena::rsocket {

off_t Stream::map(void* buffer, std::size_t length, int protection, off_t offset) {
    Lock lock(mutex_);
    if (protection & ~(PROT_WRITE | PROT_NONE))
        return fail_minus_one(EINVAL, "protection %#x; a buffer is mapped PROT_NONE or PROT_WRITE",
                              protection);
    if (!id_ || !id_->pd) return fail_minus_one(EINVAL, "the socket is not connected: it has no device yet");
    Mapping mapping;
    mapping.buffer = buffer;
    mapping.length = length;
    mapping.offset =
        offset == -1 ? reinterpret_cast<std::uintptr_t>(buffer) : static_cast<std::uint64_t>(offset);
    int access = IBV_ACCESS_LOCAL_WRITE;
    if (protection & PROT_WRITE) {
        const unsigned entries = connection_.peer_map_entries();
        auto used = [&](int index) {
            return std::any_of(mappings_.begin(), mappings_.end(),
                               [&](const Mapping& other) { return other.index == index; });
        };
        int index = 0;
        while (index < static_cast<int>(entries) && used(index)) index++;
        if (index >= static_cast<int>(entries))
            return fail_minus_one(ENOMEM, "the peer has room for %u mappings (RDMA_IOMAPSIZE) and no more",
                                  entries);
        mapping.index = index;
        access |= IBV_ACCESS_REMOTE_WRITE;
    }
    mapping.mr = ibv_reg_mr(id_->pd, buffer, length, access);
    if (!mapping.mr) return -1;
    mapping.told = mapping.index < 0;
    maps_pending_ |= !mapping.told;
    mappings_.push_back(mapping);
    return static_cast<off_t>(mapping.offset);
}

int Stream::unmap(const void* buffer, std::size_t length) {
    Lock lock(mutex_);
    auto found = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& mapping) {
        return mapping.buffer == buffer && mapping.length == length;
    });
    if (found == mappings_.end())
        return fail_minus_one(EINVAL, "no buffer at %p of %zu bytes is mapped on this socket", buffer,
                              length);
    ibv_dereg_mr(found->mr);
    mappings_.erase(found);
    return 0;
}

int Stream::send_maps(Lock& lock, int flags, Time deadline) {
    auto untold = [&] {
        return std::find_if(mappings_.begin(), mappings_.end(),
                            [](const Mapping& mapping) { return !mapping.told; });
    };
    while (untold() != mappings_.end()) {
        auto possible = [&] { return (controls_ > 1 && send_window_.has_credit()) || !writable_; };
        if (int error = wait(lock, send_sleeper_, blocks(flags), deadline, possible)) return error;
        if (!writable_) return 0;
        const auto mapping = untold();
        if (mapping == mappings_.end()) break;  // unmapped meanwhile
        controls_--;
        send_window_.take_credit();
        mapping->told = true;
        const Target target{reinterpret_cast<std::uintptr_t>(mapping->buffer), mapping->mr->rkey,
                            static_cast<std::uint32_t>(mapping->length)};
        if (int error =
                connection_.post_map(static_cast<unsigned>(mapping->index), {mapping->offset, target}))
            return error;
    }
    maps_pending_ = false;
    return 0;
}

ssize_t Stream::write_mapped(Cursor data, off_t offset, int flags) {
    const Turn sending(*this, send_mutex_, blocks(flags));
    if (!sending) return -1;
    Lock lock(mutex_);
    const Time deadline = deadline_of(settings_.send_timeout);
    const std::size_t total = data.left();
    auto position = static_cast<std::uint64_t>(offset);
    while (data.left() > 0) {
        const bool partly = data.left() < total;
        if (int error = wait_to_send(lock, flags, deadline, partly)) {
            if (partly) break;
            errno = error;
            return -1;
        }
        const auto map = connection_.map();
        const auto entry = std::find_if(map.begin(), map.end(), [&](const MappedTarget& candidate) {
            return position >= candidate.offset && position - candidate.offset < candidate.target.length;
        });
        if (entry == map.end()) {
            if (partly) break;
            return fail_minus_one(EINVAL, "offset %llu is in no buffer that the peer has mapped",
                                  static_cast<unsigned long long>(position));
        }
        const auto into = static_cast<std::uint32_t>(position - entry->offset);
        constexpr std::uint32_t kLargest = 64 << 10;
        auto length = static_cast<std::uint32_t>(
            std::min<std::size_t>({data.left(), kLargest, entry->target.length - into}));
        const Target target = entry->target;
        std::uint8_t* place = reserve(length);
        lock.unlock();
        data.copy_out(place, length);
        const int error = connection_.post_direct(place, {target.address + into, target.key, length},
                                                  length <= connection_.inline_limit());
        lock.lock();
        if (error) lost(error);
        position += length;
    }
    lock.unlock();
    // Programs that map buffers look for what arrives in memory, without calling us.
    verbena_step_aside();
    return static_cast<ssize_t>(total - data.left());
}

}  // namespace verbena::rsocket
