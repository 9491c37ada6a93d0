// For tests: an adapter with one connected queue pair, its memory and its completion queues; and a link in
// memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/segment.h"
#include "base/reason.h"
#include "link/local_link.h"
#include "link/steering.h"
#include "wire/bth.h"
#include "wire/icrc.h"

namespace verbena::adapter::testing {

// Delivers to its peer's queue; no time passes.
class MemoryLink final : public link::Link {
   public:
    struct Flying {
        wire::Path path;
        std::vector<std::uint8_t> bytes;
    };
    MemoryLink* peer = nullptr;
    std::vector<std::uint32_t> strays;
    std::atomic<bool> polled{false};
    std::atomic<unsigned> reminders{0};  // that it still is
    unsigned at_once = ~0u;              // packets at a time
    bool is_ring = false;                // what comes is of this host
    bool merges = false;                 // what comes together and is as long is given as a burst
    unsigned taken_together = 0;
    std::atomic<unsigned> flushes{0};  // of sinks that held something

    void set_polled(bool now) override { polled = now; }
    void still_polled() override { reminders++; }

    // What one thread sends.
    class Sink final : public wire::PacketSink {
       public:
        explicit Sink(MemoryLink& link) : link_(link) {}
        void send(const wire::OutPacket& packet) override { taken_.push_back(fly(packet)); }
        void flush() override {
            if (!taken_.empty()) link_.flushes++;
            for (Flying& flying : taken_) link_.peer->deliver(std::move(flying));
            taken_.clear();
        }
        std::size_t pause() override {
            std::size_t bytes = 0;
            for (const Flying& flying : taken_) bytes += flying.bytes.size();
            return bytes;
        }

       private:
        MemoryLink& link_;
        std::vector<Flying> taken_;
    };
    wire::PacketSink& borrow_sink() override {
        std::lock_guard guard(lock_);
        if (free_.empty()) {
            sinks_.emplace_back(*this);
            return sinks_.back();
        }
        wire::PacketSink& sink = *free_.back();
        free_.pop_back();
        return sink;
    }
    void return_sink(wire::PacketSink& sink) override {
        std::lock_guard guard(lock_);
        free_.push_back(&sink);
    }
    void send(const wire::OutPacket&) override { FAIL() << "sinks are borrowed"; }
    void flush() override {}

    static Flying fly(const wire::OutPacket& packet) {
        Flying flying{*packet.path, {packet.header.begin(), packet.header.begin() + packet.header_length}};
        for (const iovec& piece : packet.payload) {
            const auto* data = static_cast<const std::uint8_t*>(piece.iov_base);
            flying.bytes.insert(flying.bytes.end(), data, data + piece.iov_len);
        }
        flying.bytes.resize(flying.bytes.size() + packet.pad_count + wire::kIcrcLength);
        const std::uint32_t icrc = wire::icrc_compute(flying.path, wire::kUdpPort, flying.bytes, 0, true);
        wire::store_icrc(flying.bytes.data() + flying.bytes.size() - wire::kIcrcLength, icrc);
        return flying;
    }
    void deliver(Flying flying) {
        std::lock_guard guard(arrivals_lock_);
        arrived_.push_back(std::move(flying));
    }
    unsigned receive(link::Receiver& receiver, unsigned max) override {
        unsigned count = 0;
        for (; count < std::min(max, at_once); count++) {
            if (const unsigned taken = is_ring ? receive_together(receiver) : 0) {
                count += taken - 1;
                continue;
            }
            if (const unsigned merged = merges ? receive_burst(receiver) : 0) {
                count += merged - 1;
                continue;
            }
            Flying flying;
            {
                std::lock_guard guard(arrivals_lock_);
                if (arrived_.empty()) break;
                flying = std::move(arrived_.front());
                arrived_.pop_front();
            }
            link::Datagram datagram;
            datagram.bytes = flying.bytes;
            datagram.path = &flying.path;
            if (is_ring) {
                datagram.by_memory = true;
                datagram.followed = waiting() > 0;
                if (receiver.straight(datagram)) continue;
                if (count > 0 && receiver.is_early(datagram)) {
                    std::lock_guard guard(arrivals_lock_);
                    arrived_.push_front(std::move(flying));
                    break;
                }
            }
            receiver.datagram(datagram);
        }
        return count;
    }
    int wait_fd() const override { return -1; }
    std::size_t receive_capacity() const override { return 1 << 20; }
    void stray(const link::Datagram&, std::uint32_t qpn) override { strays.push_back(qpn); }
    std::size_t waiting() {
        std::lock_guard guard(arrivals_lock_);
        return arrived_.size();
    }

    void damage(std::size_t which) {  // of those that wait
        std::lock_guard guard(arrivals_lock_);
        arrived_[which].bytes[wire::kBthLength] ^= 1;
    }

   private:
    unsigned receive_burst(link::Receiver& receiver) {
        std::vector<std::uint8_t> bytes;
        wire::Path path;
        std::size_t size = 0;
        {
            std::lock_guard guard(arrivals_lock_);
            for (; !arrived_.empty(); arrived_.pop_front()) {
                const Flying& next = arrived_.front();
                if (size != 0 && (next.bytes.size() != size || next.path != path)) break;
                size = next.bytes.size();
                path = next.path;
                bytes.insert(bytes.end(), next.bytes.begin(), next.bytes.end());
            }
        }
        if (size == 0) return 0;
        wire::IcrcSeries icrc(path, wire::kUdpPort, size);
        link::Datagram all;
        all.bytes = bytes;
        all.path = &path;
        all.icrc = &icrc;
        receiver.burst(all, size);
        return static_cast<unsigned>(bytes.size() / size);
    }

    // Those for one queue pair, if there are several.
    unsigned receive_together(link::Receiver& receiver) {
        std::vector<wire::InPacket> packets;
        wire::Path path;
        {
            std::lock_guard guard(arrivals_lock_);
            const auto kind = [](const Flying& of) {
                const wire::BthWords bth(of.bytes.data());
                return std::pair(bth.opcode(), bth.destination_qp());
            };
            for (const Flying& each : arrived_) {
                if (kind(each) != kind(arrived_.front())) break;
                packets.push_back({each.bytes, {}});
            }
            if (packets.size() < 2) return 0;
            path = arrived_.front().path;
        }
        const auto taken = static_cast<unsigned>(receiver.straight(packets, path));
        std::lock_guard guard(arrivals_lock_);
        arrived_.erase(arrived_.begin(), arrived_.begin() + taken);
        taken_together += taken;
        return taken;
    }

    std::mutex lock_, arrivals_lock_;
    std::deque<Sink> sinks_;
    std::vector<wire::PacketSink*> free_;
    std::deque<Flying> arrived_;
};

class Endpoint : public transport::QpListener {
   public:
    static constexpr std::size_t kMemory = 4 << 20;

    Endpoint(link::Link& link, std::uint32_t first_number, Gid address) : address_(address), memory(kMemory) {
        segment = Segment::create_on_heap({.regions = 64, .queue_pairs = 64, .objects = 4});
        Adapter::Setup setup;
        setup.link = &link;
        setup.local = dynamic_cast<link::LocalLink*>(&link);
        setup.segment = segment.get();
        setup.first_qp_number = first_number;
        setup.qp_numbers = 4096;
        setup.random_seed = first_number;
        adapter = std::make_unique<Adapter>(setup);
        constexpr memory::Access kAll =
            memory::kLocalWrite | memory::kRemoteRead | memory::kRemoteWrite | memory::kRemoteAtomic;
        EXPECT_EQ(adapter->regions().add(kPd, memory.data(), memory.size(), address_of(0), kAll, keys), 0);
        qp = create();
    }
    ~Endpoint() override {
        if (qp) adapter->destroy_qp(qp, 0);
    }

    transport::QueuePair* create() {
        transport::QpSetup setup;
        setup.pd = kPd;
        setup.capabilities = {128, 64, 4, 4, 256};
        setup.send_cq = setup.receive_cq = &cq;
        setup.receive_queue = std::make_shared<transport::ReceiveQueue>(64, 4);
        setup.listener = this;
        return adapter->create_qp(setup, 1);
    }

    void connect(const Endpoint& peer, Time now) {
        using namespace transport;
        Attributes a;
        a.port = 1;
        a.access = memory::kRemoteRead | memory::kRemoteWrite | memory::kRemoteAtomic;
        change(a, QpState::init, kAttrPkeyIndex | kAttrPort | kAttrAccessFlags, now);
        a.path.source = address_;
        a.path.destination = peer.address_;
        a.path.udp_source_port = 0xc321;
        a.path_mtu = 1024;
        a.destination_qp = peer.qp->number();
        a.rq_psn = peer.qp->number() + 7;
        a.max_destination_rd_atomic = a.max_rd_atomic = 4;
        a.min_rnr_timer = 1;
        change(a, QpState::rtr,
               kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer,
               now);
        a.timeout = 16;
        a.retry_count = 7;
        a.rnr_retry = 7;
        a.sq_psn = qp->number() + 7;
        change(a, QpState::rts,
               kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic, now);
    }
    void change(transport::Attributes& a, transport::QpState state, std::uint32_t mask, Time now) {
        a.state = state;
        EXPECT_EQ(adapter->modify(*qp, a, mask | transport::kAttrState, now), 0) << last_reason();
    }

    int post(transport::Operation operation, std::size_t offset, std::uint32_t length, Time now,
             std::uint64_t remote = 0, std::uint32_t rkey = 0) {
        const transport::Sge sge{address_of(offset), length, keys.lkey};
        transport::SendRequest request;
        request.wr_id = ++posted;
        request.operation = operation;
        request.flags = transport::kSignaled;
        request.sges = {&sge, 1};
        request.remote_address = remote;
        request.rkey = rkey;
        std::size_t index;
        return adapter->post_send(qp->number(), {&request, 1}, index, now);
    }
    int post_receive(std::size_t offset, std::uint32_t length, Time now) {
        const transport::Sge sge{address_of(offset), length, keys.lkey};
        const transport::ReceiveRequest request{++posted, {&sge, 1}};
        std::size_t index;
        return adapter->post_receive(*qp, {&request, 1}, index, now);
    }
    std::uint64_t address_of(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
    }
    std::vector<completion::Completion> poll() {
        std::vector<completion::Completion> out(256);
        out.resize(cq.poll(out));
        return out;
    }
    void qp_event(transport::QueuePair&, transport::QpEvent) override {}

    static constexpr memory::PdNumber kPd = 1;

   private:
    Gid address_;

   public:
    std::vector<std::uint8_t> memory;
    memory::Keys keys{};
    completion::CompletionQueue cq{256, nullptr};
    std::unique_ptr<Segment> segment;
    std::unique_ptr<Adapter> adapter;
    transport::QueuePair* qp = nullptr;
    std::uint64_t posted = 0;
};

// Two of them, connected, under a clock of the test's own.
class Pair : public ::testing::Test {
   protected:
    Pair() {
        links_[0].peer = &links_[1];
        links_[1].peer = &links_[0];
        left_.connect(right_, now_);
        right_.connect(left_, now_);
    }
    // Both sides poll until nothing moves any more; timers do not run.
    void settle() {
        for (int i = 0; i < 100; i++) {
            now_ += kMicrosecond;
            left_.adapter->progress(now_, true);
            right_.adapter->progress(now_, true);
        }
    }
    static void expect_success(const std::vector<completion::Completion>& completions, std::size_t count) {
        ASSERT_EQ(completions.size(), count);
        for (const auto& completion : completions) EXPECT_EQ(completion.status, completion::Status::success);
    }

    Time now_ = kSecond;
    MemoryLink links_[2];
    Endpoint left_{links_[0], 1 << link::kBlockBits, Gid::from_ipv4(0x0a000001)};
    Endpoint right_{links_[1], 2 << link::kBlockBits, Gid::from_ipv4(0x0a000002)};
};

}  // namespace verbena::adapter::testing
