#include "trace/tail.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <span>
#include <string_view>

#include "link/capture_reader.h"
#include "link/pcapng.h"

namespace verbena::trace {
namespace {

using namespace link::pcapng;

constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Calls take(data, size) for what the file has behind `at`, which moves on.
template <class Take>
void read_new(int fd, off_t& at, Take take) {
    std::array<char, 65536> buffer;
    for (ssize_t size; (size = pread(fd, buffer.data(), buffer.size(), at)) > 0; at += size)
        take(buffer.data(), static_cast<std::size_t>(size));
}

// Gives back the memory of what is in front of `end`; the file keeps its length, and writers their place.
void let_go(int fd, off_t begin, off_t end) {
    if (end > begin) fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin);
}

Json packet_event(std::span<const std::uint8_t> block, const link::CapturedPacket& packet) {
    const std::size_t captured = le32(block, kBlockHeader + 12);
    Json event{{"k", "packet"},
               {"t", packet.nanoseconds},
               {"frame", to_base64(block.data() + kBlockHeader + kPacketHeader, captured)}};
    if (packet.direction == link::Direction::outbound) event["dir"] = "out";
    if (packet.direction == link::Direction::inbound) event["dir"] = "in";
    if (!packet.comment.empty()) event["comment"] = packet.comment;
    return event;
}

}  // namespace

std::vector<Json> EventTail::read() {
    std::vector<Json> events;
    const off_t before = at_;
    read_new(fd_, at_, [&](const char* data, std::size_t size) { rest_.append(data, size); });
    if (afterwards_ == Afterwards::goes) let_go(fd_, before, at_);
    std::size_t begin = 0;
    for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
        if (std::string_view(rest_).substr(begin, end - begin).find(wanted_) == std::string_view::npos)
            continue;
        Json event = Json::parse(rest_.begin() + static_cast<std::ptrdiff_t>(begin),
                                 rest_.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
        if (event.is_object() && event.contains("k") && event.contains("t"))
            events.push_back(std::move(event));
        else
            left_out_++;
    }
    rest_.erase(0, begin);
    return events;
}

std::vector<Json> PacketTail::read() {
    std::vector<Json> events;
    const off_t before = at_;
    read_new(fd_, at_,
             [&](const char* data, std::size_t size) { rest_.insert(rest_.end(), data, data + size); });
    let_go(fd_, before, at_);
    Blocks blocks(rest_);
    for (Bytes block; !(block = blocks.next()).empty();) {
        if (le32(block, 0) != kEnhancedPacket) {
            beginning_.insert(beginning_.end(), block.begin(), block.end());
        } else {
            std::vector<std::uint8_t> content = beginning_;
            content.insert(content.end(), block.begin(), block.end());
            for (const link::CapturedPacket& packet : link::packets_of_capture(content))
                events.push_back(packet_event(block, packet));
        }
    }
    rest_.erase(rest_.begin(), rest_.end() - static_cast<std::ptrdiff_t>(blocks.rest().size()));
    return events;
}

std::string to_base64(const std::uint8_t* bytes, std::size_t size) {
    std::string text;
    text.reserve((size + 2) / 3 * 4);
    for (std::size_t at = 0; at < size; at += 3) {
        std::uint32_t group = std::uint32_t{bytes[at]} << 16;
        if (at + 1 < size) group |= std::uint32_t{bytes[at + 1]} << 8;
        if (at + 2 < size) group |= bytes[at + 2];
        for (unsigned digit = 0; digit < 4; digit++)
            text += at + digit <= size ? kDigits[group >> (18 - 6 * digit) & 63] : '=';
    }
    return text;
}

std::vector<std::uint8_t> from_base64(const std::string& text) {
    static const auto kValues = [] {
        std::array<std::int16_t, 256> table;
        table.fill(-1);
        for (std::int16_t i = 0; i < 64; i++) table[static_cast<unsigned char>(kDigits[i])] = i;
        return table;
    }();
    std::vector<std::uint8_t> bytes;
    bytes.reserve(text.size() / 4 * 3);
    std::uint32_t group = 0;
    unsigned bits = 0;
    for (const char c : text) {
        const int value = kValues[static_cast<unsigned char>(c)];
        if (value < 0) break;
        group = group << 6 | static_cast<std::uint32_t>(value);
        if ((bits += 6) < 8) continue;
        bits -= 8;
        bytes.push_back(static_cast<std::uint8_t>(group >> bits & 0xff));
    }
    return bytes;
}

}  // namespace verbena::trace
