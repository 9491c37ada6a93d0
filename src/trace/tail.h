// What has been added to files that grow: events (lines of JSON) and packets (blocks of pcapng).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace verbena::trace {

using Json = nlohmann::ordered_json;

// Whether what has been read stays in the file. In memory, a program's traffic would soon fill it.
enum class Afterwards : std::uint8_t { stays, goes };

// Reads what is there and has not been read: whole lines, of which those that are no JSON object are left out
// and counted.
class EventTail {
   public:
    explicit EventTail(int fd, Afterwards afterwards = Afterwards::stays)
        : fd_(fd), afterwards_(afterwards) {}
    // Only lines that contain these characters: parsing is most of the work.
    EventTail(int fd, std::string wanted) : fd_(fd), wanted_(std::move(wanted)) {}
    std::vector<Json> read();
    unsigned left_out() const { return left_out_; }

   private:
    const int fd_;
    const Afterwards afterwards_ = Afterwards::stays;
    const std::string wanted_;
    off_t at_ = 0;
    std::string rest_;  // a line that has not ended
    unsigned left_out_ = 0;
};

// The same of a capture of raw IP, as link::PcapWriter writes it: each packet as an event
// {"k":"packet","t":..,"frame":base64 of the IP packet,"comment":..}. What has been read is gone.
class PacketTail {
   public:
    explicit PacketTail(int fd) : fd_(fd) {}
    std::vector<Json> read();

   private:
    const int fd_;
    off_t at_ = 0;
    std::vector<std::uint8_t> rest_;
    std::vector<std::uint8_t> beginning_;  // the blocks that describe the others
};

// What is wrong with an event of the program's is no reason to end it.
template <class Body>
void leniently(Body body) {
    try {
        body();
    } catch (const Json::exception&) {
    }
}

std::string to_base64(const std::uint8_t* bytes, std::size_t size);
std::vector<std::uint8_t> from_base64(const std::string& text);  // what is no base64 ends it

}  // namespace verbena::trace
