// Any 256 bytes as a MAD: nothing is lost in decoding, whichever message they are taken for.
#include <algorithm>
#include <cstdlib>

#include "wire/cm_messages.h"
#include "wire/cma.h"
#include "wire/describe.h"

using namespace verbena::wire;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

template <class M>
void check(CmConstBytes in) {
    M message;
    require(decode(in, message));
    std::array<std::uint8_t, kCmMessageLength> out;
    out.fill(0xee);
    encode(message, out);
    require(std::equal(in.begin(), in.end(), out.begin()));
    require(!describe(message).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < kMadLength) return 0;
    std::span<const std::uint8_t, kMadLength> mad(data, kMadLength);
    CmConstBytes message = cm_message(mad);
    check<Req>(message);
    check<Mra>(message);
    check<Rej>(message);
    check<Rep>(message);
    check<Rtu>(message);
    check<Dreq>(message);
    check<Drep>(message);
    check<Lap>(message);
    check<Apr>(message);
    check<SidrReq>(message);
    check<SidrRep>(message);
    require(!describe_mad(mad).empty());

    MadHeader header;
    decode(mad_header(mad), header);
    std::array<std::uint8_t, kMadHeaderLength> header_out{};
    encode(header, header_out);
    require(std::equal(header_out.begin(), header_out.end(), data));

    CmaHeader cma;
    decode(message.first<kCmaHeaderLength>(), cma);
    std::array<std::uint8_t, kCmaHeaderLength> cma_out{};
    encode(cma, cma_out);
    require(std::equal(cma_out.begin(), cma_out.end(), message.begin()));
    return 0;
}
