// Packets of one UDP flow for queue pairs of two processes: a kernel that merges them (GRO) delivers all to
// the process whose packet came first, and that one has to pass on what is not its own (link/stray_inbox.h).
//
//     verbs_merge server DEVICE GID_INDEX PORT
//     verbs_merge client DEVICE GID_INDEX HOST PORT PORT
//
// One client has more queue pairs with each of two servers than it has sockets to send from (source_ports.h),
// and counts up a word of each by atomics, in turn. To each server they have the same flow labels, so that no
// port's flow is one server's alone. Each counts right, or the client fails. A server then prints what it
// passed on and what it was passed. run-merge makes the network that merges.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "adapter/segment.h"
#include "side.h"

namespace {

using namespace table;

constexpr unsigned kPairs = 12;     // with each server; there are 8 sockets
constexpr unsigned kRounds = 2000;  // atomics on each queue pair
constexpr Row kCountUp{"counting up", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, {}, {}, {}};

using Pairs = std::vector<std::unique_ptr<Ends>>;

// The counters that this process exports: in a memfd, the one that says what it is.
const verbena::adapter::AdapterCounters& counters() {
    for (int fd = 0; fd < 2048; fd++) {
        struct stat status;
        if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
            status.st_size < static_cast<off_t>(sizeof(verbena::adapter::SegmentHeader)))
            continue;
        void* memory = mmap(nullptr, sizeof(verbena::adapter::SegmentHeader), PROT_READ, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED) continue;
        const auto* header = static_cast<const verbena::adapter::SegmentHeader*>(memory);
        if (header->magic == verbena::adapter::kSegmentMagic &&
            header->version == verbena::adapter::kSegmentVersion)
            return header->counters;
        munmap(memory, sizeof *header);
    }
    throw Trouble("this process exports no counters");
}

std::vector<Address> connect(Wire& wire, Device& device, unsigned gid_index, bool responds, Pairs& pairs) {
    std::vector<Address> peers;
    for (unsigned i = 0; i < kPairs; i++) {
        pairs.push_back(std::make_unique<Ends>(device, gid_index, kCountUp, responds));
        peers.push_back(wire.exchange(pairs.back()->address()));
        pairs.back()->connect(peers.back(), i + 1);
    }
    wire.barrier();
    return peers;
}

int serve(Device& device, unsigned gid_index, std::uint16_t port) {
    const int listener = listen_on(port);
    if (listener < 0) throw Trouble(std::string("listen: ") + std::strerror(errno));
    Wire wire(accept(listener, nullptr, nullptr));
    close(listener);
    Pairs pairs;
    connect(wire, device, gid_index, true, pairs);
    wire.barrier();  // the client is done
    for (const auto& pair : pairs)
        if (pair->word() != kFilling + kRounds)
            throw Trouble("a word was not counted up as often as asked for");
    std::printf("strays passed on %llu, received %llu\n",
                static_cast<unsigned long long>(counters().strays.load()),
                static_cast<unsigned long long>(counters().strays_received.load()));
    return 0;
}

int request(Device& device, unsigned gid_index, const char* host, const std::uint16_t (&ports)[2]) {
    std::unique_ptr<Wire> wires[2];
    Pairs pairs[2];
    std::vector<Address> peers[2];
    for (unsigned s = 0; s < 2; s++) {
        const int socket = connect_to(host, ports[s]);
        if (socket < 0) throw Trouble(std::string("connect: ") + std::strerror(errno));
        wires[s] = std::make_unique<Wire>(socket);
        peers[s] = connect(*wires[s], device, gid_index, false, pairs[s]);
    }
    for (unsigned round = 0; round < kRounds; round++) {
        for (unsigned i = 0; i < kPairs; i++)
            for (unsigned s = 0; s < 2; s++)
                if (int error = pairs[s][i]->post_request(peers[s][i], false))
                    throw Trouble(std::string("ibv_post_send: ") + std::strerror(error));
        for (unsigned i = 0; i < kPairs; i++)
            for (unsigned s = 0; s < 2; s++) {
                ibv_wc completion;
                if (!pairs[s][i]->next(pairs[s][i]->send_cq, completion))
                    throw Trouble("an atomic does not complete");
                if (completion.status != IBV_WC_SUCCESS) throw Trouble(ibv_wc_status_str(completion.status));
                if (pairs[s][i]->word() != kFilling + round)
                    throw Trouble("an atomic was not executed exactly once");
            }
    }
    for (auto& wire : wires) wire->barrier();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const bool client = argc == 7 && std::strcmp(argv[1], "client") == 0;
    if (!client && !(argc == 5 && std::strcmp(argv[1], "server") == 0)) return 2;
    auto number = [&](int i) { return static_cast<std::uint16_t>(std::atoi(argv[i])); };
    try {
        Device device(argv[2]);
        return client ? request(device, number(3), argv[4], {number(5), number(6)})
                      : serve(device, number(3), number(4));
    } catch (const Trouble& trouble) {
        std::fprintf(stderr, "FAILED %s: %s\n", argv[1], trouble.what());
        return 1;
    }
}
