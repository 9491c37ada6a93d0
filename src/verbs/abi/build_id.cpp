// verbena_build_id: what a mixed installation is recognised by when a person or a tool asks. The loader does
// not need it: the version node VERBENA_1 keeps foreign pairs apart.
#include <cstdio>

#include "host/protocol.h"
#include "verbs/abi/verbs_context_ex.h"

extern "C" const char* verbena_build_id() {
    struct Text {
        char text[64];
        Text() {
            std::snprintf(text, sizeof text, "%s (protocol %u)", VERBENA_BUILD_ID,
                          verbena::host::kProtocolVersion);
        }
    };
    static const Text id;
    return id.text;
}
