#include "wire/mad.h"

#include "wire/byte_order.h"

namespace verbena::wire {

void encode(const MadHeader& header, std::span<std::uint8_t, kMadHeaderLength> out) {
    std::uint8_t* p = out.data();
    p[0] = header.base_version;
    p[1] = header.management_class;
    p[2] = header.class_version;
    p[3] = header.method;
    store_be16(p + 4, header.status);
    store_be16(p + 6, header.class_specific);
    store_be64(p + 8, header.transaction_id);
    store_be16(p + 16, static_cast<std::uint16_t>(header.attribute_id));
    store_be16(p + 18, header.reserved);
    store_be32(p + 20, header.attribute_modifier);
}

void decode(std::span<const std::uint8_t, kMadHeaderLength> in, MadHeader& out) {
    const std::uint8_t* p = in.data();
    out.base_version = p[0];
    out.management_class = p[1];
    out.class_version = p[2];
    out.method = p[3];
    out.status = load_be16(p + 4);
    out.class_specific = load_be16(p + 6);
    out.transaction_id = load_be64(p + 8);
    out.attribute_id = static_cast<CmAttribute>(load_be16(p + 16));
    out.reserved = load_be16(p + 18);
    out.attribute_modifier = load_be32(p + 20);
}

bool is_cm(const MadHeader& header) {
    return header.base_version == kMadBaseVersion && header.management_class == kMadClassCm &&
           header.class_version == kMadClassVersionCm && header.method == kMadMethodSend;
}

const char* to_string(CmAttribute attribute) {
    switch (attribute) {
        case CmAttribute::class_port_info:
            return "CLASS_PORT_INFO";
        case CmAttribute::req:
            return "REQ";
        case CmAttribute::mra:
            return "MRA";
        case CmAttribute::rej:
            return "REJ";
        case CmAttribute::rep:
            return "REP";
        case CmAttribute::rtu:
            return "RTU";
        case CmAttribute::dreq:
            return "DREQ";
        case CmAttribute::drep:
            return "DREP";
        case CmAttribute::sidr_req:
            return "SIDR_REQ";
        case CmAttribute::sidr_rep:
            return "SIDR_REP";
        case CmAttribute::lap:
            return "LAP";
        case CmAttribute::apr:
            return "APR";
    }
    return "unknown";
}

}  // namespace verbena::wire
