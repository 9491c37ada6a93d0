#include "wire/icrc.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace verbena::wire {
namespace {

using Bytes = std::vector<std::uint8_t>;

Path ipv4_path() {
    Path path;
    path.source = Gid::from_ipv4(0x0a4d0003);
    path.destination = Gid::from_ipv4(0x0a4d0002);
    path.udp_source_port = 55410;
    return path;
}

Path ipv6_path() {
    Path path;
    path.source.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    path.destination.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
    path.udp_source_port = 0xc123;
    return path;
}

Bytes noise(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    return bytes;
}

// The definition, byte by byte, apart from the code under test.
std::uint32_t by_definition(const Path& path, const Bytes& payload, std::uint16_t ip_id, bool dont_fragment) {
    Bytes m(8, 0xff);
    auto put16 = [&](std::size_t v) {
        m.push_back(static_cast<std::uint8_t>(v >> 8));
        m.push_back(static_cast<std::uint8_t>(v));
    };
    if (path.is_ipv4()) {
        m.insert(m.end(), {0x45, 0xff});
        put16(payload.size() + 28);
        put16(ip_id);
        put16(dont_fragment ? 0x4000 : 0);
        m.insert(m.end(), {0xff, 17, 0xff, 0xff});
        m.insert(m.end(), path.source.bytes.begin() + 12, path.source.bytes.end());
        m.insert(m.end(), path.destination.bytes.begin() + 12, path.destination.bytes.end());
    } else {
        m.insert(m.end(), {0x6f, 0xff, 0xff, 0xff});
        put16(payload.size() + 8);
        m.insert(m.end(), {17, 0xff});
        m.insert(m.end(), path.source.bytes.begin(), path.source.bytes.end());
        m.insert(m.end(), path.destination.bytes.begin(), path.destination.bytes.end());
    }
    put16(path.udp_source_port);
    put16(4791);
    put16(payload.size() + 8);
    put16(0xffff);
    std::size_t bth = m.size();
    m.insert(m.end(), payload.begin(), payload.end() - 4);
    m[bth + 4] = 0xff;
    std::uint32_t crc = ~0u;
    for (std::uint8_t byte : m) {
        crc ^= byte;
        for (int i = 0; i < 8; i++) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    return ~crc;
}

// A datagram of `size` bytes with its ICRC.
Bytes sealed(const Path& path, std::size_t size, std::uint16_t ip_id, bool dont_fragment = true) {
    Bytes bytes = noise(size, static_cast<unsigned>(size));
    store_icrc(bytes.data() + size - 4, by_definition(path, bytes, ip_id, dont_fragment));
    return bytes;
}

TEST(Icrc, FollowsTheDefinition) {
    for (const Path& path : {ipv4_path(), ipv6_path()})
        for (std::size_t size : {16, 20, 76, 276, 1044, 4116}) {
            Bytes bytes = noise(size, 7);
            EXPECT_EQ(icrc_compute(path, kUdpPort, bytes, 0x1234, true),
                      by_definition(path, bytes, 0x1234, true));
            EXPECT_EQ(icrc_compute(path, kUdpPort, bytes, 0, false), by_definition(path, bytes, 0, false));
        }
}

TEST(Icrc, InPieces) {
    Path path = ipv4_path();
    Bytes bytes = noise(1072, 3);
    for (std::size_t headers : {12, 16, 28, 40, 44, 60}) {
        std::uint32_t state = icrc_begin(path, kUdpPort, bytes.size(), 5, true);
        state = icrc_bth(state, bytes.data(), headers);
        state = crc32_update(state, bytes.data() + headers, bytes.size() - 4 - headers);
        EXPECT_EQ(icrc_end(state), icrc_compute(path, kUdpPort, bytes, 5, true)) << headers;
    }
}

TEST(Icrc, StoredLeastSignificantByteFirst) {
    std::uint8_t out[4];
    store_icrc(out, 0x01020304);
    EXPECT_EQ(out[0], 4);
    EXPECT_EQ(out[3], 1);
}

// Fields that change on the way do not count: the fifth byte of the BTH, traffic class and hop limit.
TEST(Icrc, MaskedFieldsDoNotCount) {
    for (Path path : {ipv4_path(), ipv6_path()}) {
        Bytes bytes = sealed(path, 60, 0);
        for (unsigned value = 0; value < 256; value++) {
            bytes[4] = static_cast<std::uint8_t>(value);
            path.traffic_class = static_cast<std::uint8_t>(value);
            path.hop_limit = static_cast<std::uint8_t>(value);
            EXPECT_EQ(icrc_verify(path, kUdpPort, bytes), IcrcCheck::good);
        }
    }
}

TEST(Icrc, EveryIdentificationIsFound) {
    Path path = ipv4_path();
    // Sizes on both sides of a step of the table of powers, and the largest there is.
    for (std::size_t size : {16, 20, 280, 4116, 4328, 4332, 4336, 65'507}) {
        SCOPED_TRACE(size);
        Bytes bytes = sealed(path, size, 0);
        std::uint32_t with_zero = load_le32(bytes.data() + size - 4);
        // The CRC is linear: the effect of an identification is that of its bits, each measured by the
        // definition.
        std::uint32_t effect[16];
        for (unsigned bit = 0; bit < 16; bit++)
            effect[bit] = by_definition(path, bytes, static_cast<std::uint16_t>(1 << bit), true) ^ with_zero;
        unsigned step = size > 4116 ? 251 : 1;
        for (unsigned id = 0; id < 65'536; id += step) {
            std::uint32_t icrc = with_zero;
            for (unsigned bit = 0; bit < 16; bit++)
                if ((id >> bit & 1) != 0) icrc ^= effect[bit];
            store_icrc(bytes.data() + size - 4, icrc);
            // The whole packet is checked for some; for all, that would take minutes on the longest.
            if (size > 300 && id % 17 != 0) continue;
            std::uint32_t found = 0xffffffff;
            ASSERT_EQ(icrc_verify(path, kUdpPort, bytes, &found), IcrcCheck::good) << id;
            ASSERT_EQ(found, id);
        }
    }
}

TEST(Icrc, Ipv6IsStrict) {
    Path path = ipv6_path();
    Bytes bytes = sealed(path, 60, 0);
    std::uint32_t id = 7;
    EXPECT_EQ(icrc_verify(path, kUdpPort, bytes, &id), IcrcCheck::good);
    EXPECT_EQ(id, 0u);
    for (unsigned bit = 0; bit < 8 * bytes.size(); bit++) {
        if (bit / 8 == 4) continue;
        bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
        EXPECT_EQ(icrc_verify(path, kUdpPort, bytes), IcrcCheck::bad) << bit;
        bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    }
}

// The very differences that the IPv4 rule forgives are errors over IPv6.
TEST(Icrc, Ipv6ForgivesNoIdentification) {
    Path path = ipv6_path();
    Bytes bytes = sealed(path, 60, 0);
    Bytes behind_field(2 + 14 + 8 + 56);  // the field, the rest of an IPv4 header, UDP, what the ICRC covers
    behind_field[1] = 5;
    std::uint32_t effect = crc32_update(0, behind_field.data(), behind_field.size());
    store_icrc(bytes.data() + 56, load_le32(bytes.data() + 56) ^ effect);
    EXPECT_EQ(icrc_verify(path, kUdpPort, bytes), IcrcCheck::bad);

    bytes = sealed(ipv4_path(), 60, 0);
    store_icrc(bytes.data() + 56, load_le32(bytes.data() + 56) ^ effect);
    std::uint32_t id = 0;
    EXPECT_EQ(icrc_verify(ipv4_path(), kUdpPort, bytes, &id), IcrcCheck::good);
    EXPECT_EQ(id, 5u);
}

// Over IPv4 a single wrong bit is never taken for an identification, whatever that was.
TEST(Icrc, Ipv4FindsEverySingleBit) {
    Path path = ipv4_path();
    for (std::size_t size : {16, 60, 1044})
        for (unsigned id : {0, 1, 63, 0x8000, 0xffff}) {
            Bytes bytes = sealed(path, size, static_cast<std::uint16_t>(id));
            for (unsigned bit = 0; bit < 8 * size; bit++) {
                if (bit / 8 == 4) continue;
                bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
                EXPECT_EQ(icrc_verify(path, kUdpPort, bytes), IcrcCheck::bad)
                    << size << " " << id << " " << bit;
                bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
            }
        }
}

TEST(Icrc, Ipv4FindsABurstInTheHeaderOrAWrongAddress) {
    Path path = ipv4_path();
    Bytes bytes = sealed(path, 60, 0x1234);
    Path other = path;
    other.source.bytes[15] ^= 1;
    EXPECT_EQ(icrc_verify(other, kUdpPort, bytes), IcrcCheck::bad);
    other = path;
    other.udp_source_port ^= 1;
    EXPECT_EQ(icrc_verify(other, kUdpPort, bytes), IcrcCheck::bad);
    EXPECT_EQ(icrc_verify(path, kUdpPort + 1, bytes), IcrcCheck::bad);
}

TEST(Icrc, PacketsWithoutDontFragmentAreRefused) {
    Path path = ipv4_path();
    for (unsigned id : {0, 1, 0xffff}) {
        Bytes bytes = sealed(path, 60, static_cast<std::uint16_t>(id), false);
        EXPECT_EQ(icrc_verify(path, kUdpPort, bytes), IcrcCheck::bad);
    }
}

// What the IPv4 rule gives up: about one corruption in 2^16. Many more would be an error of the solver.
TEST(Icrc, Ipv4AcceptsFewRandomCorruptions) {
    Path path = ipv4_path();
    Bytes bytes = sealed(path, 60, 99);
    std::mt19937 random(5);
    int accepted = 0;
    for (int i = 0; i < 200'000; i++) {
        store_icrc(bytes.data() + 56, static_cast<std::uint32_t>(random()));
        accepted += icrc_verify(path, kUdpPort, bytes) == IcrcCheck::good;
    }
    EXPECT_LE(accepted, 20) << "expected about 3";
}

TEST(Icrc, TooShortIsBad) {
    for (std::size_t size = 0; size < 16; size++)
        EXPECT_EQ(icrc_verify(ipv4_path(), kUdpPort, Bytes(size)), IcrcCheck::bad);
}

// Of short packets and long ones, whose beginnings change now and then, each is as if it were alone.
TEST(IcrcSeries, GivesEachPacketItsOwn) {
    for (const Path& path : {ipv4_path(), ipv6_path()})
        for (const std::size_t size : {16u, 20u, 24u, 76u, 80u, 84u, 1040u}) {
            IcrcSeries series(path, kUdpPort, size);
            EXPECT_EQ(series.length(), size);
            Bytes bytes(size, 7);
            for (const std::uint32_t id : {0u, 1u, 2u, 63u, 255u, 256u, 0x1234u, 0xffffu})
                for (const std::size_t changed : {0u, 1u, 4u, 7u, 8u, 11u}) {
                    bytes[changed]++;
                    EXPECT_EQ(icrc_end(series.behind(bytes.data(), static_cast<std::uint16_t>(id))),
                              icrc_compute(path, kUdpPort, bytes, static_cast<std::uint16_t>(id), true))
                        << size << " " << id << " " << changed;
                }
        }
}

TEST(IcrcSeries, FindsTheIdentificationWhateverWasLikely) {
    const Path path = ipv4_path();
    Bytes bytes(200, 3);
    IcrcSeries series(path, kUdpPort, bytes.size());
    for (const std::uint32_t id : {0u, 5u, 0xabcdu}) {
        store_icrc(bytes.data() + 196,
                   icrc_compute(path, kUdpPort, bytes, static_cast<std::uint16_t>(id), true));
        for (const std::uint32_t likely : {0u, 5u, 0x7001u}) {
            std::uint32_t found = 99;
            EXPECT_EQ(icrc_verify(series, bytes, static_cast<std::uint16_t>(likely), &found),
                      IcrcCheck::good);
            EXPECT_EQ(found, id);
        }
        bytes[50] ^= 1;
        EXPECT_EQ(icrc_verify(series, bytes, static_cast<std::uint16_t>(id)), IcrcCheck::bad);
        bytes[50] ^= 1;
    }
}

// Whatever it was asked for before, and by which of them a place was taken.
TEST(RecentIcrcs, AreThoseOfThePathAndLength) {
    RecentIcrcs recent(kUdpPort);
    std::mt19937 random(1);
    for (int i = 0; i < 5000; i++) {
        Path path = random() % 2 ? ipv4_path() : ipv6_path();
        path.destination.bytes[15] = static_cast<std::uint8_t>(random() % 3);
        path.udp_source_port = static_cast<std::uint16_t>(0xc000 + random() % 3);
        const std::size_t length = 16 + random() % 8 * (random() % 2 ? 4 : 20);
        const Bytes bytes = noise(length, static_cast<unsigned>(random() % 3));
        IcrcSeries& series = recent.of(path, length);
        if (random() % 2) series.begin_like(noise(length, static_cast<unsigned>(random() % 3)).data());
        EXPECT_EQ(series.length(), length);
        EXPECT_EQ(icrc_end(series.behind(bytes.data(), 1)), icrc_compute(path, kUdpPort, bytes, 1, true));
        EXPECT_EQ(&recent.of(path, length), &series);
    }
}

}  // namespace
}  // namespace verbena::wire
