#include "link/pcap_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/reason.h"
#include "base/uncancelled.h"
#include "link/pcapng.h"
#include "wire/byte_order.h"
#include "wire/ip_header.h"

namespace verbena::link {
namespace {

using namespace pcapng;

constexpr std::uint32_t kInbound = 1, kOutbound = 2;
constexpr std::uint8_t kNanoseconds = 9;

class Block {
   public:
    Block(std::vector<std::uint8_t>& bytes, std::uint32_t type) : bytes_(bytes) {
        bytes_.clear();
        put(type);
        put(std::uint32_t{0});
    }
    template <typename Value>
    void put(Value value) {
        append(&value, sizeof value);
    }
    void append(const void* data, std::size_t size) {
        const auto* bytes = static_cast<const std::uint8_t*>(data);
        bytes_.insert(bytes_.end(), bytes, bytes + size);
    }
    void pad() { bytes_.resize((bytes_.size() + 3) / 4 * 4); }
    void option(std::uint16_t code, const void* data, std::size_t size) {
        put(code);
        put(static_cast<std::uint16_t>(size));
        append(data, size);
        pad();
    }
    void finish() {
        const auto total = static_cast<std::uint32_t>(bytes_.size() + 4);
        put(total);
        std::memcpy(bytes_.data() + 4, &total, sizeof total);
    }

   private:
    std::vector<std::uint8_t>& bytes_;
};

constexpr std::size_t kMaxHeaders = wire::kIpv6HeaderLength + wire::kUdpHeaderLength;

// IP and UDP header of the event's packet; returns their length.
std::size_t build_headers(const PacketEvent& event, std::uint8_t* out) {
    const wire::Path& path = *event.path;
    std::memset(out, 0, kMaxHeaders);
    const auto udp_length = static_cast<std::uint16_t>(wire::kUdpHeaderLength + event.bytes.size());
    const std::size_t ip = wire::write_ip_header(path, udp_length, event.ip_id, out);
    wire::InternetSum udp_sum;
    const std::size_t addresses = path.is_ipv4() ? 12 : 8;  // both, up to the header's end
    udp_sum.add(out + addresses, ip - addresses);
    std::uint8_t* udp = out + ip;
    wire::store_be16(udp, path.udp_source_port);
    wire::store_be16(udp + 2, event.destination_port);
    wire::store_be16(udp + 4, udp_length);
    const std::uint8_t pseudo[4] = {0, wire::kProtocolUdp, static_cast<std::uint8_t>(udp_length >> 8),
                                    static_cast<std::uint8_t>(udp_length)};
    udp_sum.add(pseudo, sizeof pseudo);
    udp_sum.add(udp, wire::kUdpHeaderLength);
    udp_sum.add(event.bytes.data(), event.bytes.size());
    const std::uint16_t checksum = udp_sum.result();
    wire::store_be16(udp + 6, checksum == 0 ? 0xffff : checksum);  // 0 would say that there is none (RFC 768)
    return ip + wire::kUdpHeaderLength;
}

}  // namespace

std::unique_ptr<PcapWriter> PcapWriter::create(const std::string& path, const std::string& application,
                                               const std::string& interface) {
    int fd = out_of_the_way(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
    if (fd < 0) return fail_null(errno, "capture file %s: %s", path.c_str(), std::strerror(errno));
    return begin(fd, application, interface);
}

std::unique_ptr<PcapWriter> PcapWriter::begin(int fd, const std::string& application,
                                              const std::string& interface) {
    std::unique_ptr<PcapWriter> writer(new PcapWriter(fd));
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~kLacksPackets);  // as which it may have been opened
    if (!writer->start(application, interface))
        return fail_null(errno, "the capture file: %s", std::strerror(errno));
    return writer;
}

std::unique_ptr<PcapWriter> PcapWriter::join(int fd) {
    return std::unique_ptr<PcapWriter>(new PcapWriter(fd));
}

PcapWriter::~PcapWriter() {
    if (file_.is(fd_)) close(fd_);
}

bool PcapWriter::start(const std::string& application, const std::string& interface) {
    Block section(block_, kSectionHeader);
    section.put(kByteOrderMagic);
    section.put(std::uint16_t{1});  // version 1.0
    section.put(std::uint16_t{0});
    section.put(std::int64_t{-1});  // the section's length: not given
    section.option(kOptionApplication, application.data(), application.size());
    section.option(kOptionEnd, nullptr, 0);
    section.finish();
    if (!put()) return false;

    Block description(block_, kInterfaceDescription);
    description.put(kLinkRawIp);
    description.put(std::uint16_t{0});
    description.put(std::uint32_t{0});  // no limit of packet length
    description.option(kOptionName, interface.data(), interface.size());
    description.option(kOptionResolution, &kNanoseconds, 1);
    description.option(kOptionEnd, nullptr, 0);
    description.finish();
    return put();
}

bool PcapWriter::put() {
    if (!file_.is(fd_)) {
        errno = EBADF;
        return false;
    }
    const ssize_t written = uncancelled::write(fd_, block_.data(), block_.size());
    if (written == static_cast<ssize_t>(block_.size())) return true;
    if (written >= 0) {
        take_back(written);
        errno = ENOSPC;
    }
    return false;
}

// A half block at the file's end. If somebody has written behind it readers pass it over; who writes between
// these calls, to a disk that is full, loses that block.
void PcapWriter::take_back(off_t size) const {
    const off_t end = lseek(fd_, 0, SEEK_CUR);
    struct stat status {};
    if (size > 0 && end >= size && fstat(fd_, &status) == 0 && status.st_size == end) [[maybe_unused]]
        const int gone = ftruncate(fd_, end - size);
}

// Once for all who write to the file.
void PcapWriter::note_a_loss(int error) const {
    const int flags = fcntl(fd_, F_GETFL);
    if (error == EBADF || flags < 0 || flags & kLacksPackets) return;
    fcntl(fd_, F_SETFL, flags | kLacksPackets);
    log(LogLevel::error, "the capture lacks packets from here on: %s", std::strerror(error));
}

bool PcapWriter::lacks_packets(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && flags & kLacksPackets;
}

void PcapWriter::write(const PacketEvent& event, Time time) {
    std::uint8_t headers[kMaxHeaders];
    const std::size_t header_length = build_headers(event, headers);
    const auto length = static_cast<std::uint32_t>(header_length + event.bytes.size());

    std::lock_guard guard(lock_);
    Block packet(block_, kEnhancedPacket);
    packet.put(std::uint32_t{0});  // interface
    packet.put(static_cast<std::uint32_t>(time >> 32));
    packet.put(static_cast<std::uint32_t>(time));
    packet.put(length);  // captured
    packet.put(length);  // on the wire
    packet.append(headers, header_length);
    packet.append(event.bytes.data(), event.bytes.size());
    packet.pad();
    const std::uint32_t direction = event.sent ? kOutbound : kInbound;
    packet.option(kOptionPacketFlags, &direction, sizeof direction);
    if (event.note) {
        const std::string comment = std::string("Verbena fault: ") + event.note;
        packet.option(kOptionComment, comment.data(), comment.size());
    }
    packet.option(kOptionEnd, nullptr, 0);
    packet.finish();
    if (!put()) note_a_loss(errno);
}

}  // namespace verbena::link
