#include "transport/local_operations.h"

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

}  // namespace verbena::transport
