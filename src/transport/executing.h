// For tests: a link that executes WRITEs and READs, while it likes.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "transport/direct_access.h"

namespace verbena::transport {

struct Executing : DirectAccess {
    bool willing = true;
    Duration takes = 0;  // each
    bool packets_faster = false;
    bool fetching_faster = false;
    bool both = false, behind = false;                 // both copy; and the peer has not ended when we have
    unsigned questions = 0, slower_from = ~0u;         // packets are faster until so many have asked
    unsigned asked = 0, told_slow = 0;                 // times
    unsigned asked_alone = 0, asked_among_others = 0;  // whether fetching is faster

    struct Half {
        std::uint32_t offset;
        std::size_t length;
    };
    std::vector<Half> halves;                            // those of WRITEs and READs
    std::vector<PacketPace::Sample> samples, one_sided;  // of SENDs; of WRITEs and READs

    Direct write(const DirectTarget& target, std::span<const iovec> from) override {
        return execute(target, from, false);
    }
    Direct read(const DirectTarget& target, std::span<const iovec> into) override {
        return execute(target, into, true);
    }
    Duration call_takes() const override { return takes; }
    bool reaches(const wire::Path&, std::uint32_t) override { return true; }
    bool packets_are_faster(const wire::Path&, std::uint32_t, std::uint32_t, bool, bool, Time) override {
        return packets_faster && questions++ < slower_from;
    }
    bool both_copy(const wire::Path&, std::uint32_t, Time) override { return both; }
    bool is_behind(const wire::Path&, std::uint32_t) override { return behind; }
    void packets_were_slow(const wire::Path&, std::uint32_t, Time) override { told_slow++; }
    bool fetching_is_faster(const wire::Path&, std::uint32_t, std::uint32_t, bool among_others,
                            Time) override {
        (among_others ? asked_among_others : asked_alone)++;
        return fetching_faster;
    }
    void measured(const wire::Path&, std::uint32_t, const PacketPace::Sample& sample) override {
        const bool of_send = sample.way == PacketPace::Way::copied || sample.way == PacketPace::Way::fetched;
        (of_send ? samples : one_sided).push_back(sample);
    }
    bool stands_still(const wire::Path&, std::uint32_t) override { return false; }

   protected:
    static void copy(std::uint8_t* there, std::span<const iovec> list, bool read) {
        for (const iovec& piece : list) {
            std::memcpy(read ? piece.iov_base : there, read ? there : piece.iov_base, piece.iov_len);
            there += piece.iov_len;
        }
    }

   private:
    Direct execute(const DirectTarget& target, std::span<const iovec> list, bool read) {
        asked++;
        if (!willing) return Direct::declined;
        copy(reinterpret_cast<std::uint8_t*>(target.address) + target.offset, list, read);
        if (target.by_both) halves.push_back({target.offset, length_of(list)});
        return Direct::done;
    }
};

}  // namespace verbena::transport
