// Where this installation's libraries and daemon are: beside the command, in the build tree or where it was
// installed.
#pragma once

#include <string>

namespace verbena::tool {

// In the folder of the libraries.
inline constexpr const char* kLibraries[] = {"/libibverbs.so.1", "/librdmacm.so.1"};

struct Installation {
    std::string obstacle;    // why nothing can be found, whatever is there; empty if nothing is in the way
    std::string libraries;   // the folder with libibverbs.so.1 and librdmacm.so.1; empty if not found
    std::string headers;     // the folder with verbena.h; empty if not found
    std::string daemon;      // verbenad; empty if not found
    std::string sockets;     // librspreload.so; empty if not found
    std::string view;        // libverbena-view.so; empty if not found
    std::string interposer;  // libverbena-interpose.so; empty if not found
    std::string commands;    // the folder with the `rdma` that shows our devices; empty if not found
};

Installation find_installation();

}  // namespace verbena::tool
