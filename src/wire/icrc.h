// The invariant CRC of RoCE v2 (IBA 7.8.1, annex A17): CRC-32 over eight bytes of ones, the IP and UDP
// headers and the BTH with the fields that change on the way set to ones, and everything behind them, pad
// included.
//
// Sending:
//     auto state = icrc_begin(path, kUdpPort, udp_payload_length, 0, true);
//     state = icrc_bth(state, packet, length);  // from the BTH to the pad bytes
//     store_icrc(packet + length, icrc_end(state));
//
// or, where many have one path and length, by an IcrcSeries.
//
// Receiving: the ICRC covers the IPv4 identification, which a UDP socket does not show. The CRC is linear, so
// the difference between the ICRC received and the one computed for identification 0 (DF set) depends only on
// the identification and on the number of bytes behind it. Shifted back over those bytes it must touch the 16
// bits of that field only; they are then its value. What this gives up: one in 2^16 corrupted packets passes
// on IPv4. IPv6 has no such field and is checked strictly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/byte_order.h"
#include "wire/crc32.h"
#include "wire/opcode.h"
#include "wire/path.h"

namespace verbena::wire {

// The state behind the masked IP and UDP headers. `udp_payload_length` counts BTH to ICRC inclusive; `ip_id`
// and `dont_fragment` are ignored over IPv6.
std::uint32_t icrc_begin(const Path& path, std::uint16_t destination_port, std::size_t udp_payload_length,
                         std::uint16_t ip_id, bool dont_fragment);

// ICRCs of many packets of one path and length, with DF set, that differ in their identification and mostly
// begin alike: what the first words of the last one's BTH added is kept. Thread safety: none.
class IcrcSeries {
   public:
    IcrcSeries() = default;
    IcrcSeries(const Path& path, std::uint16_t destination_port, std::size_t udp_payload_length)
        : state_(icrc_begin(path, destination_port, udp_payload_length, 0, true)),
          length_(udp_payload_length),
          ipv4_(path.is_ipv4()) {}

    // The state behind a packet of that length, from its BTH to the pad bytes.
    std::uint32_t behind(const std::uint8_t* packet, std::uint16_t ip_id);
    // What those that begin like this BTH need, in advance: for who copies the series.
    void begin_like(const std::uint8_t* packet) {
        if (is_split()) static_cast<void>(behind_head(packet));
    }
    std::size_t length() const { return length_; }
    bool ipv4() const { return ipv4_; }

   private:
    // The words of the BTH in front of the PSN's, and up to which size a packet is worth the look at them.
    // What is longer takes the header along at once.
    static constexpr std::size_t kHead = 8;
    static constexpr std::size_t kLongestSplit = kBthLength + 64;

    std::size_t covered() const { return length_ - kIcrcLength; }
    bool is_split() const { return covered() <= kLongestSplit; }
    std::uint32_t behind_head(const std::uint8_t* packet);

    std::uint32_t state_ = 0;
    std::uint32_t behind_head_ = 0;
    std::uint64_t head_ = 0;  // no packet's: its masked byte is zero
    std::size_t length_ = 0;
    bool ipv4_ = false;
};

// The series of a few paths and lengths of late. Thread safety: none.
class RecentIcrcs {
   public:
    explicit RecentIcrcs(std::uint16_t destination_port) : destination_port_(destination_port) {}

    // Valid until the next call.
    IcrcSeries& of(const Path& path, std::size_t udp_payload_length) {
        Entry& entry = entries_[(udp_payload_length / 4 + path.udp_source_port) % kEntries];
        if (entry.series.length() != udp_payload_length || entry.path != path)
            entry = {path, {path, destination_port_, udp_payload_length}};
        return entry.series;
    }

   private:
    static constexpr std::size_t kEntries = 8;
    struct Entry {
        Path path;
        IcrcSeries series;  // of no length at first, as of no packet
    };

    const std::uint16_t destination_port_;
    std::array<Entry, kEntries> entries_;
};

// Feeds a packet from its BTH on: `size` bytes, at least a BTH, whose fifth byte counts as ones.
std::uint32_t icrc_bth(std::uint32_t state, const std::uint8_t* packet, std::size_t size);

constexpr std::uint32_t icrc_end(std::uint32_t state) { return ~state; }
inline void store_icrc(std::uint8_t* out, std::uint32_t icrc) { store_le32(out, icrc); }

// The ICRC of a datagram whose last four bytes are the ICRC's (and are not read). At least 16 bytes.
std::uint32_t icrc_compute(const Path& path, std::uint16_t destination_port,
                           std::span<const std::uint8_t> udp_payload, std::uint16_t ip_id,
                           bool dont_fragment);

enum class IcrcCheck { good, bad };

// Checks a received datagram (whole UDP payload, ICRC last). `from_sender_view`: source is the sender's
// address and udp_source_port the port it came from. If good over IPv4, *ip_id_out (if not null) is the
// identification it was sent with; 0 over IPv6. Less than 16 bytes are bad.
IcrcCheck icrc_verify(const Path& from_sender_view, std::uint16_t destination_port,
                      std::span<const std::uint8_t> udp_payload, std::uint32_t* ip_id_out = nullptr);

// The same, cheaper if the identification is `likely_ip_id`; `series` is of that path and length.
IcrcCheck icrc_verify(IcrcSeries& series, std::span<const std::uint8_t> udp_payload,
                      std::uint16_t likely_ip_id, std::uint32_t* ip_id_out = nullptr);

}  // namespace verbena::wire
