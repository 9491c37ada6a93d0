// What came of a conversation, to be held against what comes of it otherwise. For tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "transport/rc_harness.h"

namespace verbena::transport::testing {

struct Outcome {
    std::vector<Sent> packets;
    std::vector<completion::Completion> completions[2];
    std::vector<std::uint8_t> memory[2];
    QpCounters counters[2];
    QpState states[2];
    std::vector<QpEvent> events[2];

    // The completions that have come since the last time.
    void take_completions(Harness& h) {
        for (int i = 0; i < 2; i++)
            for (const auto& list : {h.sends(i), h.receives(i)})
                completions[i].insert(completions[i].end(), list.begin(), list.end());
    }
    // `alive`: nothing has ended the connection.
    void end(Harness& h, bool alive = true) {
        take_completions(h);
        packets = h.log;
        // Which of two sides is the first to send at a time does not matter.
        std::ranges::stable_sort(packets, {}, [](const Sent& each) { return std::pair(each.at, each.from); });
        for (Sent& each : packets) {  // each has memory of its own
            const wire::OpcodeInfo& info = wire::info(each.headers.bth.opcode);
            const std::uint64_t there = h.side[1 - each.from].address();
            if (info.has_reth) each.headers.reth.virtual_address -= there;
            if (info.has_atomic_eth) each.headers.atomic_eth.virtual_address -= there;
        }
        for (int i = 0; i < 2; i++) {
            memory[i] = h.side[i].memory;
            counters[i] = h.side[i].qp->counters();
            states[i] = h.side[i].qp->state();
            events[i] = h.side[i].events;
            EXPECT_TRUE(!alive || states[i] == QpState::rts);
        }
    }
};

// What happens to packets on their way.
struct Trouble {
    const char* name;
    unsigned lost, doubled, late;  // of a hundred packets
    bool short_of_receives;

    // `random`: any number.
    Fate fate(unsigned random) const {
        const unsigned chance = random % 100;
        if (chance < lost) return kDrop;
        if (chance < lost + doubled) return {0, 50 * kMicrosecond};
        if (chance < lost + doubled + late) return {100 * kMicrosecond};
        return kDeliver;
    }
};
inline void PrintTo(const Trouble& trouble, std::ostream* out) { *out << trouble.name; }

inline std::string describe(const Sent& sent) {
    const wire::Bth& bth = sent.headers.bth;
    return "side " + std::to_string(sent.from) + " at " + std::to_string(sent.at) + " ns " +
           wire::info(bth.opcode).name + " psn " + std::to_string(bth.psn) +
           (bth.ack_request ? " ask, " : ", ") + std::to_string(sent.payload) + " bytes";
}

// `in_time`: the same at the same time. What was copied straight is asked about later than what was not
// (retransmission.h): where that happens, the same comes of it at another time.
inline void expect_same(const Outcome& a, const Outcome& b, bool in_time = true) {
    if (in_time) {
        ASSERT_EQ(a.packets.size(), b.packets.size());
    }
    for (std::size_t i = 0; in_time && i < a.packets.size(); i++) {
        const Sent &x = a.packets[i], &y = b.packets[i];
        ASSERT_TRUE(x.from == y.from && x.at == y.at && x.headers == y.headers && x.payload == y.payload &&
                    x.aside.acknowledges == y.aside.acknowledges &&
                    (!x.aside.acknowledges || x.aside.acknowledged == y.aside.acknowledged))
            << "packet " << i << ": " << describe(x) << ", otherwise " << describe(y);
    }
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(a.memory[i], b.memory[i]);
        EXPECT_EQ(a.states[i], b.states[i]);
        EXPECT_EQ(a.events[i], b.events[i]);
        EXPECT_TRUE(!in_time || !std::memcmp(&a.counters[i], &b.counters[i], sizeof(QpCounters)));
        ASSERT_EQ(a.completions[i].size(), b.completions[i].size());
        for (std::size_t n = 0; n < a.completions[i].size(); n++) {
            const completion::Completion &x = a.completions[i][n], &y = b.completions[i][n];
            EXPECT_TRUE(x.wr_id == y.wr_id && x.status == y.status && x.opcode == y.opcode &&
                        x.vendor_error == y.vendor_error && x.flags == y.flags &&
                        x.byte_length == y.byte_length && x.immediate == y.immediate &&
                        x.qp_number == y.qp_number && x.source_qp == y.source_qp &&
                        (x.timestamp == y.timestamp || !in_time))
                << "completion " << n << " of side " << i;
        }
    }
}

}  // namespace verbena::transport::testing
