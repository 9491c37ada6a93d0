// What a list of ids tells of each.
#pragma once

#include "cm/types.h"

namespace verbena::cm {

struct IdSummary {
    IdNumber id = 0;
    IdState state = IdState::idle;
    QpType qp_type = QpType::rc;
    PortSpace port_space = PortSpace::tcp;
    Endpoint local;
    Endpoint remote;
    std::uint32_t device = kNoDevice;
    std::uint32_t local_qpn = 0;  // 0: not known (yet)
};

}  // namespace verbena::cm
