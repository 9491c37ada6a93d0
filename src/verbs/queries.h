// Look-ups that several calls share, and the query calls that programs reach through slots of their context.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "host/device_table.h"
#include "wire/path.h"

namespace verbena::verbs {

struct Context;

// The daemon's entry of the context's device, with the daemon's name of it, not the program's (that is
// context.device->base.name); false if the device is gone, or has failed.
bool find_device(Context& context, host::Device& out);
// The same; 0, or EIO with the reason.
int require_device(Context& context, host::Device& out);

// 0, or EINVAL: there is one port.
int check_port(unsigned port);

// Turns an address vector into a path: checks what RoCE needs of it. 0, EINVAL, or what check_route() says.
// The UDP source port is left to the caller (0) unless the vector has a flow label.
int resolve_path(Context& context, const ibv_ah_attr& attr, wire::Path& path);

// Whether the kernel's routing table leads to the path's destination, as a device asks when it resolves an
// address vector. 0, or ENETUNREACH or EHOSTUNREACH with the reason. Groups need no route.
int check_route(const wire::Path& path);

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t size);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

}  // namespace verbena::verbs
