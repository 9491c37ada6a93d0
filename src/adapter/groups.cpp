#include "adapter/groups.h"

#include <algorithm>
#include <cerrno>

#include "adapter/adapter.h"
#include "base/mutation.h"
#include "base/reason.h"

namespace verbena::adapter {

std::vector<Groups::Group>::iterator Groups::find(const Gid& group, std::uint32_t interface_index) {
    return std::ranges::find_if(groups_, [&](const Group& each) {
        return each.address == group && each.interface_index == interface_index;
    });
}

int Groups::attach(link::Link& link, std::uint32_t qp_number, const Gid& group,
                   std::uint32_t interface_index) {
    auto found = find(group, interface_index);
    if (found != groups_.end()) {
        if (std::ranges::find(found->members, qp_number) != found->members.end()) return 0;
        if (found->members.size() == kMaxGroupMembers)
            return fail(ENOMEM, "group %s has %u queue pairs of this process; no more can be attached",
                        to_string(group).c_str(), kMaxGroupMembers);
        found->members.push_back(qp_number);
        return 0;
    }
    if (groups_.size() == kMaxGroups)
        return fail(ENOMEM, "this process is in %u multicast groups; it can join no more", kMaxGroups);
    Group fresh{group, interface_index, {qp_number}};
    groups_.reserve(groups_.size() + 1);
    if (int error = link.join_multicast(group, interface_index)) return error;
    groups_.push_back(std::move(fresh));
    return 0;
}

int Groups::detach(link::Link& link, std::uint32_t qp_number, const Gid& group,
                   std::uint32_t interface_index) {
    auto found = find(group, interface_index);
    if (found == groups_.end() || std::erase(found->members, qp_number) == 0)
        return fail(EINVAL, "QP 0x%06x is not attached to group %s", qp_number, to_string(group).c_str());
    if (mutated(Mutation::group_left_still_delivers)) found->members.push_back(qp_number);
    if (!found->members.empty()) return 0;
    groups_.erase(found);
    return link.leave_multicast(group, interface_index);
}

bool Groups::members(const Gid& group, std::uint32_t interface_index, std::vector<std::uint32_t>& out) const {
    const auto found = std::ranges::find_if(groups_, [&](const Group& each) {
        return each.address == group && each.interface_index == interface_index;
    });
    if (found == groups_.end()) return false;
    out.assign(found->members.begin(), found->members.end());
    return true;
}

}  // namespace verbena::adapter
