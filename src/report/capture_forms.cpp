#include "report/capture_forms.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "link/pcapng.h"
#include "wire/byte_order.h"

namespace verbena::report {
namespace {

using namespace link::pcapng;
using Content = std::vector<std::uint8_t>;

// https://www.tcpdump.org/linktypes.html
constexpr unsigned kCooked = 113, kCooked2 = 276;

// pcap (draft-ietf-opsawg-pcap)
constexpr std::uint32_t kMicroseconds = 0xa1b2c3d4, kNanoseconds = 0xa1b23c4d;
constexpr std::size_t kFileHeader = 24, kRecordHeader = 16;

// The bytes of the header in front of an IP packet on an interface that is read as raw IP; both are multiples
// of four, so that what follows stays aligned.
std::size_t header_of(unsigned link_type) {
    return link_type == kCooked ? 16 : link_type == kCooked2 ? 20 : 0;
}

unsigned read_as(unsigned link_type) { return header_of(link_type) ? kLinkRawIp : link_type; }

bool is_read(unsigned link_type) {
    return link_type == kLinkEthernet || link_type == kLinkRawIp || header_of(link_type) != 0;
}

void put(Content& content, std::uint32_t value) {
    for (unsigned shift = 0; shift < 32; shift += 8)
        content.push_back(static_cast<std::uint8_t>(value >> shift));
}

void append(Content& content, Bytes bytes) { content.insert(content.end(), bytes.begin(), bytes.end()); }

void put_beginning(Content& content, unsigned link_type, std::uint32_t digits) {
    for (const std::uint32_t word : {kSectionHeader, 28u, kByteOrderMagic, 1u, ~0u, ~0u, 28u})
        put(content, word);
    const std::uint32_t resolution =
        kOptionResolution | 1u << 16;  // an option of one byte, and three of padding
    for (const std::uint32_t word :
         {kInterfaceDescription, 32u, std::uint32_t{link_type}, 0u, resolution, digits, 0u, 32u})
        put(content, word);
}

void put_packet(Content& content, std::uint64_t ticks, Bytes packet, std::uint32_t original) {
    const auto size = static_cast<std::uint32_t>(packet.size());
    const std::uint32_t padding = (4 - size % 4) % 4;
    const auto length = static_cast<std::uint32_t>(kBlockHeader + kPacketHeader + kBlockEnd) + size + padding;
    for (const std::uint32_t word : {kEnhancedPacket, length, 0u, static_cast<std::uint32_t>(ticks >> 32),
                                     static_cast<std::uint32_t>(ticks), size, original})
        put(content, word);
    append(content, packet);
    content.resize(content.size() + padding);
    put(content, length);
}

// How the file's numbers are to be read; they are as its writer's machine had them.
struct ClassicForm {
    bool swapped = false, nanoseconds = false;

    std::uint32_t number(Bytes bytes, std::size_t at) const {
        return swapped ? wire::load_be32(bytes.data() + at) : le32(bytes, at);
    }
};

bool form_of(Bytes content, ClassicForm& form) {
    if (content.size() < kFileHeader) return false;
    for (const bool swapped : {false, true}) {
        form.swapped = swapped;
        const std::uint32_t magic = form.number(content, 0);
        form.nanoseconds = magic == kNanoseconds;
        if (magic == kMicroseconds || form.nanoseconds) return true;
    }
    return false;
}

bool describes_interface(Bytes block) {
    return le32(block, 0) == kInterfaceDescription && block.size() >= kBlockHeader + kBlockEnd + 8;
}

unsigned link_type_of(Bytes interface) { return le32(interface, kBlockHeader) & 0xffff; }

}  // namespace

bool is_classic_pcap(Bytes content) {
    ClassicForm form;
    return form_of(content, form);
}

Content from_classic_pcap(Bytes content, Unread& unread) {
    Content made;
    ClassicForm form;
    if (!form_of(content, form)) return made;
    constexpr std::uint32_t kTypeBits = 0x0fffffff;  // the rest says whether frames have checksums
    const unsigned type = form.number(content, 20) & kTypeBits;
    const std::size_t header = header_of(type);
    put_beginning(made, read_as(type), form.nanoseconds ? 9 : 6);
    for (Bytes rest = content.subspan(kFileHeader); rest.size() >= kRecordHeader;) {
        const std::uint64_t second = form.nanoseconds ? 1'000'000'000 : 1'000'000;
        const std::uint64_t ticks = form.number(rest, 0) * second + form.number(rest, 4);
        const std::size_t size = form.number(rest, 8);
        if (size > rest.size() - kRecordHeader) {
            unread.gaps.cut_off = true;
            break;
        }
        const Bytes packet = rest.subspan(kRecordHeader, size);
        if (!is_read(type))
            unread.links[type]++;
        else if (size >= header)
            put_packet(
                made, ticks, packet.subspan(header),
                std::max(form.number(rest, 12), form.number(rest, 8)) - static_cast<std::uint32_t>(header));
        rest = rest.subspan(kRecordHeader + size);
    }
    return made;
}

bool has_other_links(Bytes content) {
    Blocks blocks(content);
    for (Bytes block; !(block = blocks.next()).empty();)
        if (describes_interface(block) && (header_of(link_type_of(block)) || !is_read(link_type_of(block))))
            return true;
    return false;
}

Content without_link_headers(Bytes content, Unread& unread) {
    Content made;
    std::vector<unsigned> types;  // of the section's interfaces
    Blocks blocks(content);
    for (Bytes block; !(block = blocks.next()).empty();) {
        const std::uint32_t kind = le32(block, 0);
        const auto length = static_cast<std::uint32_t>(block.size());
        const std::size_t at = made.size();
        append(made, block);
        if (kind == kSectionHeader) types.clear();
        if (describes_interface(block)) {
            types.push_back(link_type_of(block));
            made[at + kBlockHeader] = static_cast<std::uint8_t>(read_as(types.back()));
            made[at + kBlockHeader + 1] = static_cast<std::uint8_t>(read_as(types.back()) >> 8);
        }
        if (kind != kEnhancedPacket || length < kBlockHeader + kPacketHeader + kBlockEnd ||
            le32(block, kBlockHeader) >= types.size())
            continue;
        const unsigned type = types[le32(block, kBlockHeader)];
        const std::uint32_t captured = le32(block, kBlockHeader + 12);
        const auto header = static_cast<std::uint32_t>(header_of(type));
        if (!is_read(type)) unread.links[type]++;
        if (!header || captured < header || captured > length - kBlockHeader - kPacketHeader - kBlockEnd)
            continue;
        // The packet again, without those bytes in front: the lengths of block and packet change.
        made.resize(at);
        for (const std::uint32_t word : {kind, length - header, le32(block, 8), le32(block, 12),
                                         le32(block, 16), captured - header, le32(block, 24) - header})
            put(made, word);
        append(made, block.subspan(kBlockHeader + kPacketHeader + header,
                                   length - kBlockHeader - kPacketHeader - header - kBlockEnd));
        put(made, length - header);
    }
    unread.gaps.damaged = blocks.gaps();
    unread.gaps.cut_off = !blocks.rest().empty();
    return made;
}

std::vector<std::string> sentences_of(const Unread& unread) {
    std::vector<std::string> sentences;
    for (const auto& [type, packets] : unread.links)
        sentences.push_back(std::to_string(packets) + " packets of link type " + std::to_string(type) +
                            ": not read, since only Ethernet, Linux cooked and raw IP are");
    if (const unsigned count = unread.gaps.damaged)
        sentences.push_back("it is damaged in " + std::to_string(count) +
                            (count == 1 ? " place" : " places") + ", and what was there is missing");
    if (unread.gaps.cut_off) sentences.emplace_back("it ends in the middle of a packet, which is missing");
    if (const unsigned count = unread.gaps.shortened)
        sentences.push_back(std::to_string(count) + (count == 1 ? " packet was" : " packets were") +
                            " captured in part; a longer snapshot (tcpdump -s 0) has all of them");
    return sentences;
}

}  // namespace verbena::report
