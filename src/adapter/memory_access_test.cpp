// Against the tables of this very process: process_vm_writev works on oneself, too.
#include "adapter/memory_access.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace verbena::adapter {
namespace {

constexpr std::uint32_t kOurs = 0x5123, kTheirs = 0x6456, kPd = 7;
constexpr memory::Access kAll = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead;

using Fetched = link::PeerMemory::Fetched;

class ForeignMemoryTest : public ::testing::Test {
   protected:
    void SetUp() override {
        segment_ = Segment::create_shared({.regions = 100, .queue_pairs = 100, .objects = 10}, 5);
        ASSERT_NE(segment_, nullptr);
        path_.source.bytes[15] = 1;
        path_.destination.bytes[15] = 2;
        describe(record(), kTheirs);
        segment_->queue_pairs()[0].created = 1;
        regions_ = std::make_unique<memory::RegionTable>(segment_->regions(), segment_->sections());
        ASSERT_EQ(regions_->add(kPd, target_.data(), target_.size(), kIova, kAll, keys_), 0);
        memory_ = open(address());
        ASSERT_NE(memory_, nullptr);
    }

    void describe(QpRecord& qp, std::uint32_t number) const {
        qp.number = number;
        qp.state = static_cast<std::uint32_t>(transport::QpState::rts);
        qp.service = static_cast<std::uint32_t>(transport::Service::rc);
        qp.pd = kPd;
        qp.peer_qp = kOurs;
        qp.local = path_.destination;
        qp.peer = path_.source;
        qp.access = kAll;
        qp.max_destination_rd_atomic = 1;
        qp.created = 1;
    }
    QpRecord& record() { return segment_->queue_pairs()[1]; }
    transport::BusyCounters& busy() { return segment_->busy_counters_of(record()); }
    std::uint64_t address() { return reinterpret_cast<std::uintptr_t>(&segment_->header()); }
    std::unique_ptr<ForeignMemory> open(std::uint64_t at) {
        return ForeignMemory::open(getpid(), segment_->fd(), at);
    }
    // Their head lies somewhere else, as another program's might.
    SegmentHeader& move_tables() {
        moved_ = std::make_unique<Moved>();
        std::memcpy(moved_->bytes, static_cast<const void*>(&segment_->header()), sizeof moved_->bytes);
        return *reinterpret_cast<SegmentHeader*>(moved_->bytes);
    }
    bool run(bool write, std::uint64_t at, std::uint32_t length, std::uint32_t rkey,
             std::uint32_t in_first = 0) {
        const iovec pieces[2] = {{local_.data(), in_first}, {local_.data() + in_first, length - in_first}};
        const std::span<const iovec> all(pieces);
        return memory_->transfer({path_, kOurs, kTheirs, rkey, at, length, 0, 1, 1},
                                 in_first ? all : all.subspan(1), write) == transport::Direct::done;
    }
    bool write(std::uint64_t at, std::uint32_t length) { return run(true, at, length, keys_.rkey); }

    static constexpr std::uint64_t kIova = 0x10000;
    struct Moved {
        alignas(SegmentHeader) std::uint8_t bytes[sizeof(SegmentHeader)];
    };
    std::unique_ptr<Segment> segment_;
    std::unique_ptr<Moved> moved_;
    std::unique_ptr<memory::RegionTable> regions_;
    std::unique_ptr<ForeignMemory> memory_;
    wire::Path path_;
    memory::Keys keys_{};
    std::vector<std::uint8_t> target_ = std::vector<std::uint8_t>(256, 0xee);
    std::vector<std::uint8_t> local_ = std::vector<std::uint8_t>(256, 0x11);
};

TEST_F(ForeignMemoryTest, EveryLengthAndAlignmentIsWrittenExactly) {
    for (std::uint32_t length = 1; length <= 40; length++)
        for (std::uint32_t at = 0; at < 16; at++)
            for (const std::uint32_t in_first : {0u, length / 2}) {
                std::fill(target_.begin(), target_.end(), 0xee);
                for (std::uint32_t i = 0; i < length; i++) local_[i] = static_cast<std::uint8_t>(i + 1);
                ASSERT_TRUE(run(true, kIova + at, length, keys_.rkey, in_first));
                for (std::uint32_t i = 0; i < target_.size(); i++)
                    ASSERT_EQ(target_[i], i >= at && i < at + length ? i - at + 1 : 0xee)
                        << length << " at " << at;
            }
}

TEST_F(ForeignMemoryTest, ReadBringsTheTargetsBytes) {
    for (std::size_t i = 0; i < target_.size(); i++) target_[i] = static_cast<std::uint8_t>(i);
    for (const std::uint32_t in_first : {0u, 77u}) {
        std::fill(local_.begin(), local_.end(), 0x11);
        ASSERT_TRUE(run(false, kIova + 3, 200, keys_.rkey, in_first));
        EXPECT_EQ(std::memcmp(local_.data(), target_.data() + 3, 200), 0);
        EXPECT_EQ(local_[200], 0x11);
    }
}

// What the program must not write itself tells the two ways apart (memory_file.h).
TEST_F(ForeignMemoryTest, AWordIsWrittenThroughTheFile) {
    constexpr std::size_t kPage = 4096;
    void* page = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    ASSERT_EQ(regions_->add(kPd, static_cast<std::uint8_t*>(page), kPage, kIova, kAll, keys_), 0);
    for (const std::uint32_t length : {1u, 4u, 8u}) EXPECT_TRUE(write(kIova + 8, length)) << length;
    EXPECT_FALSE(write(kIova + 4, 8)) << "unaligned";
    EXPECT_FALSE(write(kIova, 2));
    EXPECT_FALSE(write(kIova, 16));
    memory_->abandon();
    EXPECT_FALSE(write(kIova + 8, 8));
    munmap(page, kPage);
}

// It was interrupted, perhaps. (Here it has no right to a single descriptor.)
TEST_F(ForeignMemoryTest, APollThatFailsTellsOfNoDeath) {
    const int life_fd = dup(STDERR_FILENO);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool alive = memory_->verify(life_fd, 5 * kMillisecond);
    setrlimit(RLIMIT_NOFILE, &before);
    close(life_fd);
    EXPECT_TRUE(alive);
    EXPECT_TRUE(write(kIova, 8));
}

TEST_F(ForeignMemoryTest, WithoutTheFileEverythingGoesOn) {
    memory_->abandon();
    EXPECT_TRUE(write(kIova, 8));
    EXPECT_TRUE(run(false, kIova, 8, keys_.rkey));
    EXPECT_TRUE(memory_->verify(-1, 5 * kMillisecond));
}

TEST_F(ForeignMemoryTest, BoundsAndKeysAreChecked) {
    EXPECT_TRUE(write(kIova, 256));
    EXPECT_FALSE(write(kIova + 1, 256));
    EXPECT_FALSE(write(kIova - 1, 1));
    EXPECT_FALSE(write(kIova + 256, 1));
    EXPECT_FALSE(run(true, kIova, 8, keys_.lkey));
    EXPECT_FALSE(run(true, kIova, 8, keys_.rkey + 2));
    EXPECT_FALSE(run(true, kIova, 8, 0xffffff01));
    ASSERT_EQ(regions_->invalidate(keys_.rkey, kPd, 0), memory::WindowError::none);
    EXPECT_FALSE(write(kIova, 8));
}

TEST_F(ForeignMemoryTest, APayloadIsFetchedWhileItsQueuePairCanSend) {
    for (std::size_t i = 0; i < target_.size(); i++) target_[i] = static_cast<std::uint8_t>(i);
    const iovec from[2] = {{target_.data(), 100}, {target_.data() + 150, 50}};
    const iovec into[1] = {{local_.data(), 150}};
    ASSERT_EQ(memory_->fetch(kTheirs, from, into), Fetched::done);
    EXPECT_EQ(std::memcmp(local_.data(), target_.data(), 100), 0);
    EXPECT_EQ(std::memcmp(local_.data() + 100, target_.data() + 150, 50), 0);
    EXPECT_EQ(local_[150], 0x11);
    EXPECT_EQ(memory_->fetch(kTheirs + 1, from, into), Fetched::not_sent);
    record().state = static_cast<std::uint32_t>(transport::QpState::error);
    EXPECT_EQ(memory_->fetch(kTheirs, from, into), Fetched::not_sent);
}

TEST_F(ForeignMemoryTest, APayloadThatIsNotThereIsNotFetched) {
    const iovec from[1] = {{reinterpret_cast<void*>(std::uintptr_t{64}), 100}};
    const iovec into[1] = {{local_.data(), 100}};
    EXPECT_EQ(memory_->fetch(kTheirs, from, into), Fetched::refused);
}

class ForeignAnswers : public ForeignMemoryTest {
   protected:
    bool store(std::uint32_t qp, std::uint64_t right, std::uint64_t at, std::size_t length = 100) {
        link::LocalMark mark(*ring_, {.qp = qp});
        return memory_->store({qp, right, at}, -1, std::span(local_).first(length), mark);
    }
    transport::ShownReceives& shown() { return record().shown; }

    const std::unique_ptr<link::LocalRing> ring_ = link::LocalRing::create();
};

TEST_F(ForeignAnswers, AreWrittenWhereTheyAreWanted) {
    const std::uint64_t right = shown().right_to_answer(keys_.lkey);
    EXPECT_FALSE(store(kTheirs + 1, right, kIova + 50));
    EXPECT_FALSE(store(kTheirs, shown().right_to_answer(keys_.rkey), kIova + 50));
    EXPECT_FALSE(store(kTheirs, right, kIova + 157));
    EXPECT_FALSE(store(kTheirs, right, kIova - 1));
    EXPECT_EQ(target_, std::vector<std::uint8_t>(256, 0xee));
    ASSERT_TRUE(store(kTheirs, right, kIova + 50));
    for (std::size_t i = 0; i < target_.size(); i++)
        EXPECT_EQ(target_[i], i >= 50 && i < 150 ? 0x11 : 0xee) << i;
    record().state = static_cast<std::uint32_t>(transport::QpState::error);
    EXPECT_FALSE(store(kTheirs, right, kIova + 50));
}

// The queue pair may have been connected anew, and ask for other things.
TEST_F(ForeignAnswers, AreNotWrittenWhenTheirReadHasBeenFlushed) {
    const std::uint64_t before = shown().right_to_answer(keys_.lkey);
    shown().withdraw();
    EXPECT_FALSE(store(kTheirs, before, kIova));
    const std::uint64_t now = shown().right_to_answer(keys_.lkey);
    EXPECT_FALSE(store(kTheirs, before, kIova));
    EXPECT_TRUE(store(kTheirs, now, kIova));
    EXPECT_FALSE(store(kTheirs, keys_.lkey, kIova)) << "no number";
}

TEST_F(ForeignAnswers, AreNotWrittenWhereNobodyMayWrite) {
    memory::Keys keys{};
    ASSERT_EQ(regions_->add(kPd, target_.data(), target_.size(), kIova, memory::kRemoteRead, keys), 0);
    EXPECT_FALSE(store(kTheirs, shown().right_to_answer(keys.lkey), kIova));
    ASSERT_EQ(regions_->add(kPd, reinterpret_cast<std::uint8_t*>(64), 256, kIova, kAll, keys), 0);
    EXPECT_FALSE(store(kTheirs, shown().right_to_answer(keys.lkey), kIova));
}

TEST_F(ForeignMemoryTest, ADeregisteredRegionIsDeclined) {
    ASSERT_EQ(regions_->remove(keys_.lkey), 0);
    EXPECT_FALSE(write(kIova, 8));
}

TEST_F(ForeignMemoryTest, TheQueuePairHasToBeOursAndReady) {
    const auto declined = [&](auto change, auto restore) {
        change(record());
        EXPECT_FALSE(write(kIova, 8));
        restore(record());
        EXPECT_TRUE(write(kIova, 8));
    };
    declined([](QpRecord& r) { r.peer_qp = 1; }, [](QpRecord& r) { r.peer_qp = kOurs; });
    declined([](QpRecord& r) { r.pd = kPd + 1; }, [](QpRecord& r) { r.pd = kPd; });
    declined([](QpRecord& r) { r.number = 0; }, [](QpRecord& r) { r.number = kTheirs; });
    declined([](QpRecord& r) { r.access = memory::kRemoteRead; }, [](QpRecord& r) { r.access = kAll; });
    declined([](QpRecord& r) { r.peer.bytes[15] = 9; }, [](QpRecord& r) { r.peer.bytes[15] = 1; });
    declined([](QpRecord& r) { r.state = static_cast<std::uint32_t>(transport::QpState::error); },
             [](QpRecord& r) { r.state = static_cast<std::uint32_t>(transport::QpState::rts); });
}

// In whatever order, after others have been found, and when numbers and records have changed hands.
TEST_F(ForeignMemoryTest, AQueuePairIsFoundWhereverItsRecordIs) {
    constexpr std::uint32_t kFirst = 1, kCount = 60;
    const std::span<QpRecord> records = segment_->queue_pairs();
    for (std::uint32_t i = kFirst; i < kFirst + kCount; i++) describe(records[i], 0x1000 + i * 0x333);
    const iovec piece{local_.data(), 8};
    const auto is_found = [&](std::uint32_t number) {
        return memory_->transfer({path_, kOurs, number, keys_.rkey, kIova, 8, 0, 1, 1}, {&piece, 1}, true) ==
               transport::Direct::done;
    };
    const auto find_all = [&](std::uint32_t step) {
        for (std::uint32_t n = 0, i = kFirst; n < kCount; n++, i = kFirst + (i - kFirst + step) % kCount)
            EXPECT_TRUE(is_found(records[i].number)) << i << " by " << step;
    };
    for (const std::uint32_t step : {1u, kCount - 1, 7u}) {
        find_all(step);
        EXPECT_FALSE(is_found(0x7777));
        records[kCount / 2].number = records[kFirst + step].number.exchange(records[kCount / 2].number);
        records[kFirst + 5].number += 0x10000;  // the same low bits
        find_all(step);
    }
}

// IBA 11.5.1: the first packet tells the target's program that somebody is there.
TEST_F(ForeignMemoryTest, NotBeforeTheFirstPacket) {
    const iovec piece{local_.data(), 8};
    const transport::DirectTarget target{path_, kOurs, kTheirs, keys_.rkey, kIova, 8, 0, 1, 1};
    record().state = static_cast<std::uint32_t>(transport::QpState::rtr);
    EXPECT_EQ(memory_->transfer(target, {&piece, 1}, true), transport::Direct::not_yet);
    busy().packets_received = 1;
    EXPECT_EQ(memory_->transfer(target, {&piece, 1}, true), transport::Direct::done);
}

// IBA 9.7.4.1.7: the responder is to refuse them.
TEST_F(ForeignMemoryTest, NotMoreReadsThanThePeerTakes) {
    record().max_destination_rd_atomic = 0;
    EXPECT_FALSE(run(false, kIova, 8, keys_.rkey));
    EXPECT_TRUE(write(kIova, 8));
    record().max_destination_rd_atomic = 2;
    const iovec piece{local_.data(), 8};
    EXPECT_EQ(memory_->transfer({path_, kOurs, kTheirs, keys_.rkey, kIova, 8, 0, 2, 1}, {&piece, 1}, false),
              transport::Direct::done);
    EXPECT_EQ(memory_->transfer({path_, kOurs, kTheirs, keys_.rkey, kIova, 8, 0, 3, 1}, {&piece, 1}, false),
              transport::Direct::declined);
}

TEST_F(ForeignMemoryTest, APartIsWrittenWhereItBelongs) {
    const iovec piece{local_.data(), 8};
    ASSERT_EQ(
        memory_->transfer({path_, kOurs, kTheirs, keys_.rkey, kIova + 16, 100, 64, 1, 1}, {&piece, 1}, true),
        transport::Direct::done);
    EXPECT_EQ(target_[79], 0xee);
    EXPECT_EQ(target_[80], 0x11);
    EXPECT_EQ(target_[87], 0x11);
    EXPECT_EQ(target_[88], 0xee);
    // A part that is longer than what is left of its operation.
    EXPECT_EQ(
        memory_->transfer({path_, kOurs, kTheirs, keys_.rkey, kIova + 16, 70, 64, 1, 1}, {&piece, 1}, true),
        transport::Direct::declined);
}

// A SEND's payload into the receive that the target shows, which only its lkey opens.
TEST_F(ForeignMemoryTest, APayloadIsWrittenIntoAShownReceive) {
    using transport::Direct;
    transport::ReceiveQueue queue(8, 2);
    const auto post = [&](const transport::Sge& sge) { ASSERT_EQ(queue.post({1, {&sge, 1}}), 0); };
    post({kIova + 16, 100, keys_.lkey});
    post({kIova + 200, 57, keys_.lkey});
    post({kIova, 100, keys_.rkey});
    memory::Keys null{};
    ASSERT_EQ(regions_->add_null(kPd, null), 0);
    post({reinterpret_cast<std::uintptr_t>(target_.data()), 100, null.lkey});
    const auto ring = link::LocalRing::create();
    const auto place = [&](std::uint32_t receive, std::uint32_t offset, std::size_t length) {
        const iovec piece{local_.data(), length};
        link::LocalMark mark(*ring, {.qp = kTheirs});
        return memory_->place({path_, kOurs, kTheirs, receive, offset, 1}, {&piece, 1}, mark);
    };
    EXPECT_FALSE(memory_->shown(kTheirs));
    EXPECT_EQ(place(0, 0, 100), Direct::not_yet);
    record().shown.show(queue, 77, 0);
    ASSERT_TRUE(memory_->shown(kTheirs));
    EXPECT_EQ(memory_->shown(kTheirs)->psn, 77u);
    EXPECT_FALSE(memory_->shown(kTheirs + 1));

    ASSERT_EQ(place(0, 10, 90), Direct::done);
    EXPECT_EQ(target_[25], 0xee);
    EXPECT_EQ(target_[26], 0x11);
    EXPECT_EQ(target_[115], 0x11);
    EXPECT_EQ(target_[116], 0xee);
    EXPECT_EQ(place(0, 10, 91), Direct::declined) << "longer than the receive";
    EXPECT_EQ(place(0, 101, 1), Direct::declined);
    EXPECT_EQ(place(0, 0, 0), Direct::declined);
    EXPECT_EQ(place(1, 0, 8), Direct::declined) << "the receive leaves its region";
    EXPECT_EQ(place(2, 0, 8), Direct::declined) << "an rkey";
    EXPECT_EQ(place(3, 0, 8), Direct::declined) << "a null region";
    EXPECT_EQ(place(4, 0, 8), Direct::not_yet);
    // What has been received since has taken some.
    busy().messages_received = 2;
    EXPECT_FALSE(memory_->shown(kTheirs));

    const auto declined = [&](auto change, auto restore) {
        change(record());
        EXPECT_EQ(place(0, 0, 8), Direct::declined);
        restore(record());
        EXPECT_EQ(place(0, 0, 8), Direct::done);
    };
    declined([](QpRecord& r) { r.peer_qp = 1; }, [](QpRecord& r) { r.peer_qp = kOurs; });
    declined([](QpRecord& r) { r.pd = kPd + 1; }, [](QpRecord& r) { r.pd = kPd; });
    declined([](QpRecord& r) { r.peer.bytes[15] = 9; }, [](QpRecord& r) { r.peer.bytes[15] = 1; });
    declined([](QpRecord& r) { r.state = static_cast<std::uint32_t>(transport::QpState::error); },
             [](QpRecord& r) { r.state = static_cast<std::uint32_t>(transport::QpState::rts); });
    record().shown.withdraw();
    EXPECT_EQ(place(0, 0, 8), Direct::not_yet);
    record().shown.show(queue, 78, 1);
    ASSERT_EQ(regions_->remove(keys_.lkey), 0);
    EXPECT_EQ(place(0, 0, 8), Direct::declined);
}

// exec() keeps the pid and the pidfd, but not what lies in the memory.
TEST_F(ForeignMemoryTest, AnotherProgramInTheSameProcessIsNoticed) {
    EXPECT_TRUE(memory_->verify(-1, 1));
    const std::uint64_t nonce = segment_->header().nonce[0];
    SegmentHeader& moved = move_tables();
    auto other = open(reinterpret_cast<std::uintptr_t>(&moved));
    ASSERT_NE(other, nullptr);
    EXPECT_TRUE(other->verify(-1, 1));
    moved.nonce[0] = nonce + 1;
    EXPECT_TRUE(other->verify(-1, kMillisecond));  // not yet
    EXPECT_FALSE(other->verify(-1, 1 + kMillisecond));
    moved.nonce[0] = nonce;
    EXPECT_FALSE(other->verify(-1, 2));  // gone is gone
}

// Who shows no presence is asked for the nonce with each payload; who does, is believed until he is over.
TEST_F(ForeignMemoryTest, APayloadIsOfTheProcessThatWasMet) {
    SegmentHeader& moved = move_tables();
    auto other = open(reinterpret_cast<std::uintptr_t>(&moved));
    ASSERT_NE(other, nullptr);
    const iovec from{target_.data(), 8}, into{local_.data(), 8};
    const auto fetches = [&] { return other->fetch(kTheirs, {&from, 1}, {&into, 1}) == Fetched::done; };
    EXPECT_TRUE(fetches());
    moved.nonce[0]++;
    EXPECT_FALSE(fetches());
    std::atomic<std::uint32_t>& present = segment_->header().present;
    present = static_cast<std::uint32_t>(gettid());
    EXPECT_TRUE(fetches());
    EXPECT_EQ(local_[0], 0xee);
    present = FUTEX_OWNER_DIED;
    EXPECT_FALSE(fetches());
    EXPECT_FALSE(memory_->verify(-1, 1));
}

TEST_F(ForeignMemoryTest, AProcessThatEndedIsDeclined) {
    segment_->header().generation.fetch_add(1);
    EXPECT_FALSE(write(kIova, 8));
}

TEST_F(ForeignMemoryTest, TablesThatAreNotThatProcesssAreRefused) {
    EXPECT_EQ(open(address() + 8), nullptr);  // another nonce there
    segment_->header().version++;
    EXPECT_EQ(open(address()), nullptr);
}

TEST_F(ForeignMemoryTest, TheTablesTellWhetherTheirOwnerSharesItsProcessor) {
    EXPECT_TRUE(memory_->serves(kSecond));
    segment_->header().crowded = 1;
    EXPECT_TRUE(memory_->serves(kSecond));
    EXPECT_FALSE(memory_->serves(kSecond + 2 * Confidence::kMoment));
}

}  // namespace
}  // namespace verbena::adapter
