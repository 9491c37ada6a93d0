// For tests: what the harness (rc_harness.h) is made of: the two ends of a connection, what a test may say of
// a packet, and payloads that stay where they are or are written where they belong.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "transport/queue_pair.h"
#include "transport/rc_short.h"
#include "transport/shown_receives.h"
#include "wire/answer_place.h"
#include "wire/packet.h"

namespace verbena::transport::testing {

inline constexpr std::size_t kGuard = 64;

struct Sent {
    int from;  // 0 or 1
    Time at;
    wire::Headers headers;
    std::size_t payload;
    wire::Aside aside{};
    bool dropped = false;
};

// What becomes of a packet: delivered once for each entry, that much later than usual.
using Fate = std::vector<Duration>;
inline const Fate kDeliver{0};
inline const Fate kDrop{};

// XRC: side 0 initiates, side 1 is the target; its receive queue has this number and domain.
inline constexpr std::uint32_t kXrcQueue = 0x77, kXrcDomain = 7;

struct FakeXrcQueues : XrcQueues {
    std::shared_ptr<ReceiveQueue> find(std::uint32_t number) override {
        const auto found = queues.find(number);
        return found == queues.end() ? nullptr : found->second;
    }
    std::map<std::uint32_t, std::shared_ptr<ReceiveQueue>> queues;
};

// One end: its memory, its queues, and the link that it sends by.
struct HarnessSide : wire::PacketSink {
    int index = 0;
    std::function<void(HarnessSide&, const wire::OutPacket&)> carry;  // over the wire
    memory::Sections sections{};
    std::vector<memory::RegionRecord> records = std::vector<memory::RegionRecord>(16);
    memory::RegionTable regions{records, sections};
    struct Events : completion::CompletionListener {
        void completion_event(completion::CompletionQueue&) override { count++; }
        void overrun(completion::CompletionQueue&) override {}
        int count = 0;
    } cq_events;  // of the receive queue's
    completion::CompletionQueue send_cq{1024, nullptr}, receive_cq{1024, &cq_events};
    std::shared_ptr<ReceiveQueue> receives;
    ShownReceives shown{};
    std::unique_ptr<QueuePair> qp;
    std::vector<std::uint8_t> memory;
    memory::Keys keys{};
    Attributes attributes;
    wire::Path path;
    std::vector<QpEvent> events;
    bool asleep = false;       // nothing is delivered, no timer runs
    bool full = false;         // packets pile up in the link
    std::size_t largest = 0;   // bytes: its link is one to peers of the same host
    bool copies = false;       // ... and takes them at once: the test must not lose any
    unsigned run = 1;          // packets that its link takes as one
    unsigned went_behind = 0;  // short messages, behind others

    void send(const wire::OutPacket& out) override { carry(*this, out); }
    bool copy(const wire::OutPacket& out) override {
        if (!copies || full) return false;
        send(out);
        return true;
    }
    // Short messages leave by this (rc_short.h), in the same way.
    bool copy_short(const wire::ShortPacket& packet) override {
        return packet.length <= wire::kMostShort &&
               with(packet, [this](const auto& out) { return copy(out); });
    }
    // By a wire they do behind others.
    bool go_on(const wire::ShortPacket& packet) override {
        if (full || copies) return false;
        went_behind++;
        return with(packet, [this](const auto& out) {
            send(out);
            return true;
        });
    }
    static bool with(const wire::ShortPacket& packet,
                     const std::function<bool(const wire::OutPacket&)>& take) {
        const iovec payload = {const_cast<void*>(packet.payload), packet.length};
        wire::OutPacket out;
        out.path = packet.path;
        std::memcpy(out.header.data(), packet.bth.data(), wire::kBthLength);
        std::memcpy(out.header.data() + wire::kBthLength, packet.extended.data(), 4 * packet.extended_words);
        out.header_length = static_cast<std::uint8_t>(packet.header_length());
        out.pad_count = packet.pad_count;
        out.payload = {&payload, packet.length > 0 ? 1u : 0u};
        out.aside.acknowledges = packet.acknowledges;
        out.aside.acknowledged = packet.acknowledged;
        return take(out);
    }
    void flush() override {}
    bool is_full(const wire::Path&, std::uint32_t) override { return full; }
    std::size_t largest_payload(const wire::Path&, std::uint32_t, bool) override { return largest; }
    unsigned longest_run(const wire::Path&, std::uint32_t) override { return run; }
    std::uint64_t address(std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
    }
    Sge sge(std::size_t offset, std::uint32_t length) const { return {address(offset), length, keys.lkey}; }
};

// A payload that is fetched from where it lies.
struct Fetched final : wire::Elsewhere {
    Fetched(std::span<const std::uint8_t> lies, std::uint64_t in, unsigned& counted)
        : bytes(lies), receive(in), count(counted) {}
    std::size_t length() const override { return bytes.size(); }
    std::uint64_t placed() const override { return receive; }
    bool fetch(std::uint32_t, std::span<const iovec> into) override {
        count++;
        std::size_t at = 0;
        for (const iovec& piece : into) {
            std::memcpy(piece.iov_base, bytes.data() + at, piece.iov_len);
            at += piece.iov_len;
        }
        return true;
    }
    void decline() override {}

    std::span<const std::uint8_t> bytes;
    std::uint64_t receive;
    unsigned& count;
};

// An answer that is written where it belongs, if that may be.
struct Stored final : wire::AnswerPlace {
    Stored(const iovec& there, unsigned& counted, bool may)
        : AnswerPlace(there), count(counted), willing(may) {}
    bool store(std::uint32_t requester, const std::uint8_t* from) override {
        if (!willing) return false;
        count++;
        return AnswerPlace::store(requester, from);
    }

    unsigned& count;
    const bool willing;
};

}  // namespace verbena::transport::testing
