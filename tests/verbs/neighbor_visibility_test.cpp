// Two processes of one host: what one that polls the end of a WRITE in its memory, without any call, sees of
// the bytes before it. Each round has a byte of its own, which fills what is written, and the next one begins
// when everything was looked at: so whatever is not of this round is of the one before.
#include <algorithm>
#include <thread>

#include "neighbor.h"

namespace verbena::verbs_test {
namespace {

struct Shape {
    const char* name;
    std::size_t length;
    std::size_t before_page;  // bytes of it; 0: it begins at a page
    std::size_t together;     // WRITEs in a list, one behind the other in memory
    bool behind_atomic;       // so that all leave as packets, through the ring
    // Where the last word of each is at the source.
    enum class Source { one_page, two_pages, two_pieces } source = Source::one_page;
};
constexpr Shape kShapes[] = {
    {"8 bytes", 8, 0, 1, false},
    {"12 bytes", 12, 0, 1, false},
    {"64 bytes", 64, 0, 1, false},
    {"1 KiB", 1024, 0, 1, false},
    // Of words that others share, the last byte.
    {"unaligned, across a page", 1402, 701, 1, false},
    {"1403 bytes, across a page, ending with an aligned word of two", 1403, 701, 1, false},
    {"14 bytes, ending with an aligned word of two, behind an atomic", 14, 0, 1, true},
    {"8 bytes from two pages", 8, 0, 1, false, Shape::Source::two_pages},
    {"1 KiB, the last word from two pages", 1024, 0, 1, false, Shape::Source::two_pages},
    {"1 KiB, the last word from two pieces", 1024, 0, 1, false, Shape::Source::two_pieces},
    {"a list of 64 bytes", 64, 0, 16, false},
    {"a list of 8 bytes behind an atomic", 8, 0, 16, true},
    {"a list of 12 bytes behind an atomic", 12, 0, 16, true},
    {"a list of 1 KiB behind an atomic", 1024, 0, 16, true},
};
constexpr std::chrono::milliseconds kEach{1100};

struct Pace {
    std::atomic<std::uint64_t> looked_at;  // rounds
    std::atomic<bool> ends;
};

constexpr std::size_t kPage = 4096;

// Where it begins in a region at that address.
std::size_t offset_of(const Shape& shape, std::uint64_t memory) {
    return kPage - memory % kPage + kPage - shape.before_page;
}

std::uint8_t byte_of(std::uint64_t round) { return static_cast<std::uint8_t>(round % 251 + 1); }

// What is written, as who polls sees it: by aligned words, which others may be writing.
class View {
   public:
    View(std::uint64_t begin, std::size_t length) : begin_(begin), end_(begin + length) {}
    static std::uint64_t all(std::uint8_t byte) { return byte * 0x0101'0101'0101'0101u; }

    // The largest aligned word of at most eight bytes that ends there and lies in it, once it does not
    // consist of this byte any more; false: it still does, after a while.
    bool wait_for_last(std::uint8_t before, std::uint64_t& seen) const {
        const std::uint64_t size = std::min<std::uint64_t>({end_ & -end_, 8, end_ - begin_});
        if (size >= 8) return wait<std::uint64_t>(before, seen);
        if (size >= 4) return wait<std::uint32_t>(before, seen);
        if (size >= 2) return wait<std::uint16_t>(before, seen);
        return wait<std::uint8_t>(before, seen);
    }

    // How many aligned words have another byte in it, from the last down to the first.
    unsigned others(std::uint8_t byte) const {
        unsigned count = 0;
        for (std::uint64_t at = (end_ - 1) & ~std::uint64_t{7};; at -= 8) {
            std::uint64_t different = load<std::uint64_t>(at) ^ all(byte);
            if (at + 8 > end_) different &= ~std::uint64_t{0} >> 8 * (at + 8 - end_);
            if (at < begin_) different &= ~std::uint64_t{0} << 8 * (begin_ - at);
            count += different != 0;
            if (at <= begin_) return count;
        }
    }

   private:
    // `seen` as eight bytes, which are the same if those of the word are.
    template <class Word>
    bool wait(std::uint8_t byte, std::uint64_t& seen) const {
        const auto before = static_cast<Word>(all(byte));
        for (int spins = 0; spins < 4096; spins++)
            if (const Word now = load<Word>(end_ - sizeof now); now != before) {
                seen = ~std::uint64_t{0} / static_cast<Word>(~Word{0}) * now;
                return true;
            }
        return false;
    }
    template <class Word>
    static Word load(std::uint64_t at) {
        return __atomic_load_n(reinterpret_cast<const Word*>(static_cast<std::uintptr_t>(at)),
                               __ATOMIC_ACQUIRE);
    }
    std::uint64_t begin_, end_;
};

void poll_memory(Here& there, const Shape& shape, Pace& pace) {
    const View view(there.memory.address(offset_of(shape, there.memory.address())),
                    shape.length * shape.together);
    std::uint64_t torn = 0, stale = 0, round = 1, seen = 0;
    while (!pace.ends) {
        if (!view.wait_for_last(round == 1 ? 0 : byte_of(round - 1), seen)) {
            std::this_thread::yield();
            continue;
        }
        stale += view.others(byte_of(round)) != 0;
        torn += seen != View::all(byte_of(round));
        // Torn, it may not be complete yet.
        EXPECT_TRUE(wait_until([&] { return view.others(byte_of(round)) == 0; }));
        pace.looked_at = round++;
    }
    EXPECT_EQ(torn, 0u) << "of " << round - 1 << " rounds: the last word was seen in parts";
    EXPECT_EQ(stale, 0u) << "of " << round - 1 << " rounds: bytes before the last word were not there";
}

void write_rounds(Here& here, const Shape& shape, Pace& pace) {
    const std::size_t offset = offset_of(shape, here.peer.memory), all = shape.length * shape.together;
    // Not aligned as in the target.
    const std::size_t from = 2 * kPage + 5 - (shape.source == Shape::Source::two_pages ? shape.length : 0);
    const std::size_t last_piece = shape.source == Shape::Source::two_pieces ? 5 : 0;
    std::vector<ibv_sge> sges;
    std::vector<Request> list;
    for (std::size_t i = 0; i < shape.together; i++)
        sges.push_back(here.memory.sge(from + i * shape.length, shape.length - last_piece));
    if (last_piece > 0) sges.push_back(here.memory.sge(from + shape.length - last_piece, last_piece));
    ibv_sge word = here.memory.sge(0, 8);
    if (shape.behind_atomic) {
        list.emplace_back(0, IBV_WR_ATOMIC_FETCH_AND_ADD, &word, 1, 0);
        here.aim(list[0], 0);
    }
    for (std::size_t i = 0; i < shape.together; i++) {
        list.emplace_back(1, IBV_WR_RDMA_WRITE, &sges[i], last_piece > 0 ? 2 : 1,
                          i + 1 == shape.together ? IBV_SEND_SIGNALED : 0);
        here.aim(list.back(), offset + i * shape.length);
    }
    for (std::size_t i = 0; i + 1 < list.size(); i++) list[i].next = &list[i + 1];
    const auto until = Clock::now() + kEach;
    std::uint64_t round = 0;
    while (Clock::now() < until && !testing::Test::HasFailure()) {
        round++;
        std::memset(here.memory.data() + from, byte_of(round), all);
        EXPECT_EQ(list[0].post(here.side.qp), 0);
        success(here.side.send_cq);
        EXPECT_TRUE(wait_until([&] { return pace.looked_at == round; })) << "round " << round;
    }
    pace.ends = true;
    EXPECT_GT(round, 0u);
}

TEST(Neighbor, TheLastWordComesLastAndWhole) {
    for (const Shape& shape : kShapes) {
        SCOPED_TRACE(shape.name);
        Shared<Pace> pace;
        Neighbor neighbor([&](Here& there) {
            there.meet();
            poll_memory(there, shape, *pace);
            there.meet();
        });
        Here here(neighbor.in, neighbor.out);
        here.meet();
        write_rounds(here, shape, *pace);
        here.meet();
        neighbor.end(0);
        if (HasFailure()) break;
    }
}

}  // namespace
}  // namespace verbena::verbs_test
