// For tests: a random program between two queue pairs over a bad wire, which checks what it sees. Groups of
// requests of all kinds; the target posts receives late, sleeps until completion events, and reuses memory
// once its data was confirmed; the wire loses, repeats, delays and at times goes dead. A seed decides
// everything.
#pragma once

#include <cstdio>
#include <map>
#include <random>

#include "transport/rc_harness.h"
#include "transport/retransmission.h"

namespace verbena::transport::testing {

class Workload {
   public:
    explicit Workload(unsigned seed) : seed_(seed), random_(seed) {}

    // "" if everything that was promised held, otherwise the first thing that did not.
    std::string run() {
        set_up();
        for (unsigned group = 0; group < kGroups && error_.empty(); group++) run_group(group);
        if (error_.empty()) check_end();
        if (error_.empty()) write_past_the_end();
        return error_;
    }

   private:
    static constexpr unsigned kGroups = 6, kPerGroup = 8;
    static constexpr std::size_t kSpan = 9000;  // bytes a request may touch
    static constexpr std::size_t kSources = 0, kResults = 600'000, kCounter = 1'040'000;
    static constexpr std::uint8_t kReused = 0xa5;

    enum class Kind : std::uint8_t { send, write, write_immediate, read, add };
    struct Request {
        Kind kind;
        std::size_t source, target;  // offsets: of the requester's or the target's memory, by kind
        std::uint32_t length;
        bool signaled;
        std::uint64_t before;  // add: the counter's value
        bool confirmed = false;
    };

    unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

    void fail(const char* what, std::size_t which) {
        if (!error_.empty()) return;
        char text[160];
        std::snprintf(text, sizeof text, "seed %u: %s (%zu)", seed_, what, which);
        error_ = text;
    }

    void set_up() {
        constexpr std::uint32_t kMtus[] = {256, 1024, 4096};
        h_.attributes[0].path_mtu = h_.attributes[1].path_mtu = kMtus[below(3)];
        h_.attributes[0].retry_count = 3;
        h_.attributes[0].timeout = 10;
        h_.attributes[0].rnr_retry = 4;
        h_.attributes[1].min_rnr_timer = 20;  // 10 ms
        h_.attributes[0].max_rd_atomic = static_cast<std::uint8_t>(1 + below(4));
        h_.start_psn[0] = seed_ % 3 == 0 ? 0xffff80 : below(1 << 24);
        h_.start_psn[1] = seed_ % 3 == 1 ? 0xfffff0 : below(1 << 24);
        h_.memory_size = 1'048'576;
        h_.polls = below(2) == 0;
        h_.start();
        h_.fill(0, kSources, 500'000, seed_);
        h_.fill(1, kSources, 500'000, seed_ + 1);
        loss_ = below(15);
        h_.filter = [this](const Sent& s) { return fate(s); };
        h_.after_step = [this] { programs(); };
        h_.side[1].receive_cq.arm(false);
    }

    Fate fate(const Sent& s) {
        if (s.at < dead_until_ || below(100) < loss_) return kDrop;
        Fate fate{below(10) == 0 ? Duration{below(60)} * kMicrosecond : 0};
        if (below(20) == 0) fate.push_back(Duration{below(300)} * kMicrosecond);
        return fate;
    }

    void run_group(unsigned group) {
        if (group % 2 == 1 && seed_ % 2 == 0) dead_until_ = h_.now + kAcknowledgeTimeoutFloor * 3 / 2;
        const Time late = below(3) == 0 ? h_.now + Duration{below(10)} * 2 * kMillisecond : h_.now;
        std::vector<std::pair<std::uint64_t, Sge>> receives;
        for (unsigned n = 0; n < kPerGroup; n++) post(receives);
        const auto post_receives = [&] {
            for (const auto& [id, sge] : receives) h_.post_receive(1, id, {sge});
        };
        if (late > h_.now) h_.run(late - h_.now);
        post_receives();
        const Time began = h_.now;
        while (error_.empty() && !all_confirmed() && h_.now - began < 10 * kSecond) {
            h_.run(1 * kSecond);
            if (h_.side[0].qp->next_deadline() == kNever && h_.side[1].qp->next_deadline() == kNever) break;
        }
        programs();
        for (std::size_t i = 0; i < requests_.size() && error_.empty(); i++)
            if (requests_[i].signaled && !requests_[i].confirmed) fail("request did not complete", i);
    }

    bool all_confirmed() const {
        for (const Request& r : requests_)
            if (r.signaled && !r.confirmed) return false;
        return true;
    }

    void post(std::vector<std::pair<std::uint64_t, Sge>>& receives) {
        const std::uint64_t id = requests_.size();
        const std::size_t place = id * kSpan;
        Request r{static_cast<Kind>(below(5)),
                  kSources + place,
                  kResults + place,
                  1 + below(kSpan - 1),
                  below(4) != 0 || id % kPerGroup == kPerGroup - 1,
                  counter_};
        SendRequest w;
        w.wr_id = id;
        w.flags = r.signaled ? kSignaled : 0;
        w.rkey = h_.side[1].keys.rkey;
        w.remote_address = h_.side[1].address(r.target);
        w.immediate_or_key = static_cast<std::uint32_t>(id);
        if (below(4) == 0) w.flags |= kFence;
        // A fenced request sends what the READ before it brought.
        if (!requests_.empty() && requests_.back().kind == Kind::read && (w.flags & kFence) &&
            r.kind != Kind::read) {
            r.source = requests_.back().target;
            r.length = requests_.back().length;
        }
        Sge sge = h_.side[0].sge(r.source, r.length);
        switch (r.kind) {
            case Kind::send:
                w.operation = Operation::send_with_immediate;
                receives.push_back({id, h_.side[1].sge(r.target, r.length)});
                break;
            case Kind::write:
                w.operation = Operation::rdma_write;
                break;
            case Kind::write_immediate:
                w.operation = Operation::rdma_write_with_immediate;
                receives.push_back({id, h_.side[1].sge(r.target, 0)});
                break;
            case Kind::read:
                w.operation = Operation::rdma_read;
                w.remote_address = h_.side[1].address(r.source);
                sge = h_.side[0].sge(r.target, r.length);
                break;
            case Kind::add:
                w.operation = Operation::fetch_add;
                w.compare_add = id + 1;
                counter_ += id + 1;
                w.remote_address = h_.side[1].address(kCounter);
                sge = h_.side[0].sge(r.target, 8);
                break;
        }
        requests_.push_back(r);
        if (h_.post(0, w, {sge})) fail("post refused", id);
    }

    // What both programs do whenever something happened.
    void programs() {
        for (const auto& c : h_.sends(0)) sent(c);
        if (h_.side[1].cq_events.count == events_seen_) return;
        events_seen_ = h_.side[1].cq_events.count;
        h_.side[1].receive_cq.arm(false);
        for (const auto& c : h_.receives(1)) received(c);
    }

    void sent(const completion::Completion& c) {
        if (c.status != completion::Status::success) return fail("request failed", c.wr_id);
        while (next_sent_ < requests_.size() && !requests_[next_sent_].signaled) check(next_sent_++);
        if (c.wr_id != next_sent_) return fail("completions out of order", c.wr_id);
        requests_[next_sent_].confirmed = true;
        check(next_sent_++);
    }

    // The request was acknowledged: its effect is there.
    void check(std::size_t i) {
        const Request& r = requests_[i];
        switch (r.kind) {
            case Kind::send:
            case Kind::write_immediate:
                break;  // the receiver looks, and may have reused the memory by now
            case Kind::write:
                if (!h_.equal(r.source, r.target, r.length)) return fail("WRITE acknowledged, not placed", i);
                std::memset(h_.side[1].memory.data() + r.target, kReused, r.length);
                break;
            case Kind::read:
                if (!h_.equal(r.target, r.source, r.length)) return fail("READ brought something else", i);
                break;
            case Kind::add: {
                std::uint64_t value;
                std::memcpy(&value, h_.side[0].memory.data() + r.target, 8);
                if (value != r.before) return fail("atomic result", i);
                break;
            }
        }
    }

    void received(const completion::Completion& c) {
        if (c.status != completion::Status::success) return fail("receive failed", c.wr_id);
        const auto id = static_cast<std::size_t>(c.immediate);
        if (id >= requests_.size() || c.wr_id != id) return fail("receives out of order", c.wr_id);
        const Request& r = requests_[id];
        if (c.byte_length != r.length) return fail("receive length", id);
        if (!h_.equal(r.source, r.target, r.length)) return fail("received something else", id);
        std::memset(h_.side[1].memory.data() + r.target, kReused, r.length);
        received_++;
    }

    void check_end() {
        h_.run(1 * kSecond);  // late duplicates
        programs();
        std::uint64_t counter;
        std::memcpy(&counter, h_.side[1].memory.data() + kCounter, 8);
        if (counter != counter_) return fail("counter", static_cast<std::size_t>(counter));
        std::size_t expected = 0;
        for (std::size_t i = 0; i < requests_.size(); i++) {
            const Request& r = requests_[i];
            expected += r.kind == Kind::send || r.kind == Kind::write_immediate;
            if (r.kind == Kind::read || r.kind == Kind::add) continue;
            for (std::size_t n = 0; n < r.length; n++)
                if (h_.side[1].memory[r.target + n] != kReused)
                    return fail("memory written again after use", i);
        }
        if (received_ != expected) fail("receives missing", expected - received_);
    }

    // The last request is refused; the target's queue then flushes.
    void write_past_the_end() {
        for (std::uint64_t id = 0; id < 3; id++) h_.post_receive(1, id, {});
        h_.after_step = nullptr;
        SendRequest w;
        w.operation = Operation::rdma_write;
        w.rkey = h_.side[1].keys.rkey;
        w.remote_address = h_.side[1].address(h_.memory_size - 8);
        if (h_.post(0, w, {h_.side[0].sge(kSources, 32)})) return fail("post refused", 0);
        h_.run(10 * kSecond);
        const auto sent = h_.sends(0);
        for (std::size_t n = 0; n < kGuard; n++)
            if (h_.side[1].memory[h_.memory_size + n] != 0) return fail("written behind the region", n);
        // The NAK can be lost, and then nobody answers any more.
        if (sent.size() != 1 || (sent[0].status != completion::Status::remote_access_error &&
                                 sent[0].status != completion::Status::retry_exceeded))
            return fail("WRITE past the end", sent.size());
        const auto flushed = h_.receives(1);
        if (flushed.size() != 3) return fail("flushed receives", flushed.size());
        for (std::size_t i = 0; i < 3; i++)
            if (flushed[i].wr_id != i || flushed[i].status != completion::Status::work_request_flushed)
                return fail("flush order", i);
    }

    unsigned seed_;
    std::mt19937 random_;
    Harness h_;
    unsigned loss_ = 0;
    Time dead_until_ = 0;
    std::vector<Request> requests_;
    std::size_t next_sent_ = 0, received_ = 0;
    std::uint64_t counter_ = 0;
    int events_seen_ = 0;
    std::string error_;
};

}  // namespace verbena::transport::testing
