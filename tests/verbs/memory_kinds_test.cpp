// What the memory behind a region is must not matter: SEND, WRITE, READ and atomics carry the right data from
// and into anonymous memory, huge pages, mapped files, memfds, the stack, and from what can only be read.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kMemory = 2 * kHugePage;
constexpr std::size_t kWord = 64;  // where the atomics work
constexpr int kReadOnlyAccess = IBV_ACCESS_REMOTE_READ;

enum class Kind { anonymous, shared, transparent_huge, reserved_huge, file, private_file, memfd };
constexpr std::array kKinds{Kind::anonymous,     Kind::shared, Kind::transparent_huge,
                            Kind::reserved_huge, Kind::file,   Kind::private_file,
                            Kind::memfd};

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::anonymous:
            return "Anonymous";
        case Kind::shared:
            return "Shared";
        case Kind::transparent_huge:
            return "TransparentHugePages";
        case Kind::reserved_huge:
            return "ReservedHugePages";
        case Kind::file:
            return "File";
        case Kind::private_file:
            return "PrivateFile";
        case Kind::memfd:
            return "Memfd";
    }
    return "?";
}

int temporary_file() {
    std::string path = testing::TempDir() + "verbena-memory-XXXXXX";
    const int fd = mkstemp(path.data());
    if (fd >= 0) unlink(path.c_str());
    return fd;
}

// kMemory bytes of a kind, whole huge pages' worth at a huge page's boundary where that is asked for.
class Mapping {
   public:
    explicit Mapping(Kind kind) {
        const bool from_file = kind == Kind::file || kind == Kind::private_file;
        const int fd = from_file             ? temporary_file()
                       : kind == Kind::memfd ? memfd_create("verbena-test", MFD_CLOEXEC)
                                             : -1;
        if (fd >= 0 && ftruncate(fd, kMapped) != 0) return;
        int flags =
            kind == Kind::shared || kind == Kind::file || kind == Kind::memfd ? MAP_SHARED : MAP_PRIVATE;
        if (fd < 0) flags |= MAP_ANONYMOUS;
        if (kind == Kind::reserved_huge) flags |= MAP_HUGETLB;
        mapped_ = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, flags, fd, 0);
        if (fd >= 0) close(fd);
        if (mapped_ == MAP_FAILED) return;
        const auto at = reinterpret_cast<std::uintptr_t>(mapped_);
        data_ = reinterpret_cast<std::uint8_t*>((at + kHugePage - 1) / kHugePage * kHugePage);
        if (kind == Kind::transparent_huge) madvise(data_, kMemory, MADV_HUGEPAGE);
    }
    ~Mapping() {
        if (mapped_ != MAP_FAILED) munmap(mapped_, kMapped);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    std::uint8_t* data() const { return data_; }

   private:
    static constexpr std::size_t kMapped = kMemory + kHugePage;
    void* mapped_ = MAP_FAILED;
    std::uint8_t* data_ = nullptr;
};

void fill(std::uint8_t* bytes, std::size_t length, std::uint8_t seed) {
    for (std::size_t i = 0; i < length; i++) bytes[i] = static_cast<std::uint8_t>(seed + i + (i >> 8));
}

bool holds(const std::uint8_t* bytes, std::size_t length, std::uint8_t seed) {
    for (std::size_t i = 0; i < length; i++)
        if (bytes[i] != static_cast<std::uint8_t>(seed + i + (i >> 8))) return false;
    return true;
}

// One region of either side, and what goes between them.
struct Regions {
    Regions(std::uint8_t* from, int from_access, std::uint8_t* to, int to_access, std::size_t length)
        : a(ibv_reg_mr(pair.a.pd, from, length, from_access)),
          b(ibv_reg_mr(pair.b.pd, to, length, to_access)) {}
    ~Regions() {
        if (a) ibv_dereg_mr(a);
        if (b) ibv_dereg_mr(b);
    }
    Regions(const Regions&) = delete;
    Regions& operator=(const Regions&) = delete;

    static ibv_sge part(ibv_mr* mr, std::size_t offset, std::size_t length) {
        return {reinterpret_cast<std::uintptr_t>(mr->addr) + offset, static_cast<std::uint32_t>(length),
                mr->lkey};
    }
    // From one side to the other's memory or back, and waits for it.
    static void execute(Side& side, ibv_mr* local, ibv_mr* remote, ibv_wr_opcode opcode, std::size_t length,
                        std::size_t offset = 0) {
        ibv_sge sge = part(local, offset, length);
        Request request(1, opcode, &sge, 1);
        const std::uint64_t there = reinterpret_cast<std::uintptr_t>(remote->addr) + offset;
        if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            request.wr.atomic.remote_addr = there;
            request.wr.atomic.rkey = remote->rkey;
            request.wr.atomic.compare_add = 5;
        } else {
            request.wr.rdma = {there, remote->rkey};
        }
        ASSERT_EQ(request.post(side.qp), 0);
        success(side.send_cq);
    }
    void send(Side& from, ibv_mr* source, Side& to, ibv_mr* target, std::size_t length) {
        ASSERT_EQ(to.post_receive(2, part(target, 0, length)), 0);
        ibv_sge sge = part(source, 0, length);
        Request request(1, IBV_WR_SEND, &sge, 1);
        ASSERT_EQ(request.post(from.qp), 0);
        success(from.send_cq);
        EXPECT_EQ(success(to.receive_cq).byte_len, length);
    }

    Pair pair;
    ibv_mr* a;
    ibv_mr* b;
};

// Reserves as many huge pages as one mapping needs, where none are and this user may.
class ReservedPages {
   public:
    ReservedPages() {
        std::ifstream(kFile) >> before_;
        if (before_ < kNeeded) set(kNeeded);
    }
    ~ReservedPages() {
        if (before_ < kNeeded) set(before_);
    }

   private:
    static constexpr const char* kFile = "/proc/sys/vm/nr_hugepages";
    static constexpr unsigned kNeeded = 4;
    static void set(unsigned pages) { std::ofstream(kFile) << pages; }
    unsigned before_ = 0;
};

// KiB of transparent huge pages that the mapping with this address has.
unsigned long huge_kib(const void* address) {
    std::ifstream maps("/proc/self/smaps");
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    bool inside = false;
    for (std::string line; std::getline(maps, line);) {
        std::uintptr_t from, to;
        if (std::sscanf(line.c_str(), "%zx-%zx ", &from, &to) == 2) inside = from <= at && at < to;
        unsigned long kib;
        if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu", &kib) == 1) return kib;
    }
    return 0;
}

class KindOfMemory : public testing::TestWithParam<Kind> {
   protected:
    static void SetUpTestSuite() { reserved.emplace(); }
    static void TearDownTestSuite() { reserved.reset(); }
    void SetUp() override {
        if (!kind.data()) {
            ASSERT_EQ(GetParam(), Kind::reserved_huge) << std::strerror(errno);
            GTEST_SKIP() << "no huge pages are reserved here, and none can be";
        }
        if (GetParam() != Kind::transparent_huge) return;
        std::memset(kind.data(), 1, kMemory);
        if (huge_kib(kind.data()) == 0) GTEST_SKIP() << "the kernel gives no transparent huge pages here";
    }
    static inline std::optional<ReservedPages> reserved;
    Mapping kind{GetParam()}, plain{Kind::anonymous};
};

// Small messages, and some that the link fetches or executes in the peer's memory; the other side has plain
// memory.
TEST_P(KindOfMemory, CarriesTheRightData) {
    Regions regions(kind.data(), kAllAccess, plain.data(), kAllAccess, kMemory);
    ASSERT_TRUE(regions.a && regions.b);
    Side &a = regions.pair.a, &b = regions.pair.b;
    std::uint8_t seed = 1;
    for (std::size_t length : {std::size_t{8}, std::size_t{3000}, std::size_t{100'000}, kMemory}) {
        SCOPED_TRACE(length);
        const auto carries = [&](std::uint8_t* from, std::uint8_t* to, auto&& work) {
            fill(from, length, ++seed);
            work();
            return holds(to, length, seed);
        };
        EXPECT_TRUE(
            carries(kind.data(), plain.data(), [&] { regions.send(a, regions.a, b, regions.b, length); }));
        EXPECT_TRUE(
            carries(plain.data(), kind.data(), [&] { regions.send(b, regions.b, a, regions.a, length); }));
        for (ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            const bool write = opcode == IBV_WR_RDMA_WRITE;
            // Posted by the side of the kind, then by the other.
            EXPECT_TRUE(carries((write ? kind : plain).data(), (write ? plain : kind).data(),
                                [&] { Regions::execute(a, regions.a, regions.b, opcode, length); }));
            EXPECT_TRUE(carries((write ? plain : kind).data(), (write ? kind : plain).data(),
                                [&] { Regions::execute(b, regions.b, regions.a, opcode, length); }));
        }
    }
    const auto word = [](const Mapping& memory) {
        std::uint64_t value;
        std::memcpy(&value, memory.data() + kWord, sizeof value);
        return value;
    };
    const std::uint64_t before = word(kind);
    Regions::execute(b, regions.b, regions.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, kWord);
    EXPECT_EQ(word(kind), before + 5);
    EXPECT_EQ(word(plain), before);
    const std::uint64_t other = word(plain);
    Regions::execute(a, regions.a, regions.b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, kWord);
    EXPECT_EQ(word(plain), other + 5);
    EXPECT_EQ(word(kind), other);
}

// What cannot be written cannot be registered for writing, and gives what it holds.
TEST_P(KindOfMemory, ThatCanOnlyBeRead) {
    fill(kind.data(), kMemory, 7);
    ASSERT_EQ(mprotect(kind.data(), kMemory, PROT_READ), 0) << std::strerror(errno);
    Regions regions(kind.data(), kReadOnlyAccess, plain.data(), kAllAccess, kMemory);
    ASSERT_TRUE(regions.a && regions.b);
    Side &a = regions.pair.a, &b = regions.pair.b;
    const int writable = kAllAccess;
    EXPECT_TRUE(refused_null(EFAULT, [&] { return ibv_reg_mr(a.pd, kind.data(), kMemory, writable); }));
    for (std::size_t length : {std::size_t{8}, std::size_t{3000}, kMemory}) {
        SCOPED_TRACE(length);
        const auto arrives = [&](auto&& work) {
            std::memset(plain.data(), 0, length);
            work();
            return holds(plain.data(), length, 7);
        };
        EXPECT_TRUE(arrives([&] { regions.send(a, regions.a, b, regions.b, length); }));
        EXPECT_TRUE(arrives([&] { Regions::execute(a, regions.a, regions.b, IBV_WR_RDMA_WRITE, length); }));
        EXPECT_TRUE(arrives([&] { Regions::execute(b, regions.b, regions.a, IBV_WR_RDMA_READ, length); }));
    }
}

INSTANTIATE_TEST_SUITE_P(Each, KindOfMemory, testing::ValuesIn(kKinds),
                         [](const auto& instance) { return name_of(instance.param); });

TEST(KindsOfMemory, StackAndStatic) {
    std::array<std::uint8_t, 9000> stack{};
    static std::array<std::uint8_t, 9000> fixed;
    fill(stack.data(), stack.size(), 3);
    Regions regions(stack.data(), kAllAccess, fixed.data(), kAllAccess, stack.size());
    ASSERT_TRUE(regions.a && regions.b);
    regions.send(regions.pair.a, regions.a, regions.pair.b, regions.b, stack.size());
    EXPECT_TRUE(holds(fixed.data(), fixed.size(), 3));
    fill(fixed.data(), fixed.size(), 4);
    Regions::execute(regions.pair.a, regions.a, regions.b, IBV_WR_RDMA_READ, stack.size());
    EXPECT_TRUE(holds(stack.data(), stack.size(), 4));
}

}  // namespace
}  // namespace verbena::verbs_test
