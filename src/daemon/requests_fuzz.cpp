// The parser of programs' requests. The first byte is the number of descriptors; half of the inputs get a
// header that is right as far as it can be, so that the checks behind it are reached.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "daemon/requests.h"

using namespace verbena;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const unsigned descriptors = data[0] & 3;
    const bool repair = data[0] & 4;
    std::vector<std::uint8_t> bytes(data + 1, data + size);
    if (repair && bytes.size() >= sizeof(host::RequestHeader)) {
        host::RequestHeader header;
        header.command = static_cast<host::Command>(bytes[6] % 32);
        if (const daemon::CommandInfo* info = daemon::find_command(header.command)) {
            header.length = info->request_size;
            bytes.resize(sizeof header + info->request_size);
        }
        std::memcpy(bytes.data(), static_cast<const void*>(&header), sizeof header);
    }
    std::span<const std::uint8_t> rest(bytes);
    for (auto result = daemon::Malformed::none; result == daemon::Malformed::none && !rest.empty();) {
        const std::size_t before = rest.size();
        daemon::Request request;
        result = daemon::take_request(rest, descriptors, request);
        if (!*daemon::to_string(result)) std::abort();
        if (result != daemon::Malformed::none) break;
        // What the daemon relies on.
        if (!request.info || request.body.size() != request.info->request_size) std::abort();
        if (request.body.size() + sizeof request.header + rest.size() != before) std::abort();
        if (request.header.command == host::Command::connect &&
            request.as<host::ConnectRequest>().parameters.private_data_length > cm::kMaxPrivateData)
            std::abort();
    }
    return 0;
}
