#include "transport/local_operations.h"

#include "transport/shown_receives.h"

namespace verbena::transport {

VendorError execute_local(const QpSetup& setup, const SendEntry& entry) {
    memory::RegionTable& regions = *setup.regions;
    memory::WindowError error;
    if (entry.operation == Operation::bind_window) {
        memory::Binding binding;
        binding.rkey = entry.rkey;
        binding.lkey = entry.immediate_or_key;
        binding.address = entry.remote_address;
        binding.length = entry.range;
        binding.access = entry.range_access;
        error = regions.bind(binding, setup.pd, setup.number);
    } else {
        error = regions.invalidate(entry.immediate_or_key, setup.pd, setup.number);
    }
    return error == memory::WindowError::none ? VendorError::none
                                              : offset_by(VendorError::window_unknown, error);
}

void wait_for_outsiders(const QpSetup& setup, const SendEntry& entry) {
    const std::uint32_t rkey = entry.immediate_or_key;
    if (entry.operation != Operation::local_invalidate || !(rkey & memory::kRemoteBit)) return;
    // The lkey of a region lives on; a window has none.
    if (setup.regions->local(rkey & ~memory::kRemoteBit, setup.pd, 0, 0, 0))
        setup.regions->wait_for_outsiders({.region = memory::index_of(rkey)}, ShownReceives::kWritten);
}

}  // namespace verbena::transport
