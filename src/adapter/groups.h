// Which queue pairs of the process are attached to which multicast groups (IBA 10.5). A group is an address
// on an interface, as for the sockets that join it.
//
// Thread safety: none (the adapter's progress lock).
#pragma once

#include <cstdint>
#include <vector>

#include "link/link.h"

namespace verbena::adapter {

class Groups {
   public:
    // The link joins with the first member. 0; ENOMEM; or the link's errno, with a reason.
    int attach(link::Link& link, std::uint32_t qp_number, const Gid& group, std::uint32_t interface_index);
    // The link leaves with the last one. EINVAL: it is not attached.
    int detach(link::Link& link, std::uint32_t qp_number, const Gid& group, std::uint32_t interface_index);

    // The members' numbers; false if there are none.
    bool members(const Gid& group, std::uint32_t interface_index, std::vector<std::uint32_t>& out) const;

   private:
    struct Group {
        Gid address;
        std::uint32_t interface_index;
        std::vector<std::uint32_t> members;
    };

    std::vector<Group>::iterator find(const Gid& group, std::uint32_t interface_index);

    std::vector<Group> groups_;
};

}  // namespace verbena::adapter
