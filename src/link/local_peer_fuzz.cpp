// What a process of this host can give another one to read (link/local_ring.h, link/local_meeting.h): any
// positions and records in a ring, any datagram with any number of descriptors as a greeting.
//
//     byte 0: 0x80 a greeting, its low bits the descriptors; else the ring: head (8 bytes), then its slots,
//     of which so many have the right number, and the same again as its data

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "link/ack_row.h"
#include "link/local_meeting.h"
#include "link/local_ring.h"
#include "wire/opcode.h"

using namespace verbena;

namespace {

using Bytes = std::span<const std::uint8_t>;

using Layout = link::RingLayout;

void require(bool condition) {
    if (!condition) std::abort();
}

void require_readable(Bytes bytes) {
    unsigned sum = 0;
    for (const std::uint8_t byte : bytes) sum += byte;
    require(sum <= bytes.size() * 255);
}

void read_ring(Bytes input) {
    const auto ring = link::LocalRing::create();
    require(ring != nullptr);
    void* const file = mmap(nullptr, Layout::kFile, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd(), 0);
    require(file != MAP_FAILED);
    auto* const bytes = static_cast<std::uint8_t*>(file);
    std::uint64_t head;
    std::memcpy(&head, input.data(), sizeof head);
    const Bytes data = input.subspan(sizeof head);
    std::memcpy(bytes + Layout::kSlotsAt, data.data(),
                std::min(data.size(), Layout::kBesidesAt - Layout::kSlotsAt));
    std::memcpy(bytes + Layout::kBesidesAt, data.data(),
                std::min(data.size(), Layout::kDataAt - Layout::kBesidesAt));
    std::memcpy(bytes + Layout::kDataAt, data.data(), std::min(data.size(), Layout::kCapacity));
    const std::uint64_t slots = std::min<std::uint64_t>(head, link::LocalRing::kSlots);
    for (std::uint32_t i = 0; i < slots; i++) {
        const std::uint32_t number = i + 1;
        std::memcpy(bytes + Layout::kSlotsAt + link::line_of_slot(i) * sizeof(Layout::Slot), &number,
                    sizeof number);
    }
    reinterpret_cast<Layout::Control*>(file)->head.slots.store(head);

    Bytes packet;
    std::size_t taken = 0;
    std::array<wire::InPacket, 16> together;
    while (ring->front(packet)) {
        const std::size_t count = ring->together(together);
        require(count <= together.size());
        for (const wire::InPacket& each : std::span(together).first(count)) {
            require_readable(each.bytes);
            require(each.bytes.size() <= link::LocalRing::kInSlot + wire::kIcrcLength &&
                    each.aside.psns >= 1);
        }
        if (count > 1 && head % 2 != 0) {
            ring->release(count);
            taken += count;
            continue;
        }
        if (ring->form() == link::LocalRing::Form::row)
            for (std::size_t at = 0; at < link::AckRow::size(packet); at++) {
                std::array<std::uint8_t, link::AckRow::kHeaders> headers;
                link::AckRow::read(packet, at, headers.data());
                require_readable(headers);
            }
        // All of it is there to be read, and it was paid for.
        require_readable(packet);
        require(packet.size() <= link::LocalRing::kCapacity && ++taken <= link::LocalRing::kSlots);
        ring->release();
    }
    require(!ring->front(packet));
    munmap(file, Layout::kFile);
}

int next_descriptor() {
    const int next = dup(STDERR_FILENO);
    require(next >= 0);
    close(next);
    return next;
}

void read_greeting(unsigned descriptors, Bytes text) {
    const int next = next_descriptor();  // the fuzzer itself opens some as it goes
    const std::string fabric = "fuzz-" + std::to_string(getpid());
    std::unique_ptr<link::NamedInbox> inbox = link::open_inbox(fabric, 1);
    const int connection = link::connect_to_inbox({"local", fabric, 1}, link::Trust::own_user);
    require(inbox && connection >= 0);
    alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(16 * sizeof(int))> control{};
    iovec piece{const_cast<std::uint8_t*>(text.data()), text.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (descriptors > 0) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
        for (unsigned i = 0; i < descriptors; i++)
            std::memcpy(CMSG_DATA(header) + i * sizeof(int), &connection, sizeof(int));
    }
    require(sendmsg(connection, &message, 0) >= 0);
    close(connection);
    {
        link::Greeting greeting;
        const link::Received received = link::receive_greeting(*inbox, greeting);
        require(received != link::Received::nothing);
        if (received == link::Received::greeting) {
            require(text.size() == sizeof greeting.text && (descriptors == 0 || descriptors == 3));
            require(greeting.pid == getpid() && greeting.has_descriptors() == (descriptors == 3));
            require(!link::LocalRing::open(greeting.fds[0]));  // it is a socket
        } else {
            require(!greeting.has_descriptors());
        }
    }
    inbox.reset();
    require(next_descriptor() == next);  // none is left open, whatever came
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1 + sizeof(std::uint64_t)) return 0;
    const Bytes rest{data + 1, size - 1};
    if (data[0] & 0x80)
        read_greeting(data[0] & 15, rest);
    else
        read_ring(rest);
    return 0;
}
