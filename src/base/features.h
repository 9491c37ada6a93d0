// What the environment may switch off: VERBENA_DISABLE=gso,gro,steering,... Each feature is also probed where
// it is used, so a machine that lacks one needs no setting; the switches are for tests and for narrowing down
// a problem.
#pragma once

#include <string>
#include <string_view>

namespace verbena {

struct Features {
    bool gso = true;  // segmentation offload for sending (UDP_SEGMENT)
    bool gro = true;  // receive offload (UDP_GRO)
    bool steering =
        true;           // queues chosen by destination QPN in the kernel; off: packets are passed on by hand
    bool memfd = true;  // the process's tables in an exported file; off: on the heap
    bool local = true;  // the shared-memory link to peers of this host
    bool view = true;   // what `verbena run` shows of the devices in sysfs, /dev and `rdma`
    bool inline_progress = true;  // packets are handled in the caller's thread; off: by the helper only
    bool gather = true;  // by packets, requests that follow each other wait for each other to leave together
    // Large payloads of SENDs between processes of one host are fetched from the sender's memory or copied
    // through the ring, whichever is faster. Without `copy` they are fetched if they can be; without `fetch`
    // never. The largest are not fetched but written by the sender, with `place`.
    bool fetch = true;
    bool copy = true;
    bool place = true;
    bool procmem = true;     // a few bytes of a peer's memory by its file in /proc; off: by process_vm_* only
    bool membarrier = true;  // locks come to be owned by a thread, rings are published lightly
    bool precedence = true;  // the helper's share of a processor is larger than the program's, if it may be
};

// Names separated by commas or spaces, those of feature_names(). `unknown`, if given, is set to the first
// name that is none of these (a view into `disabled`).
Features parse_features(std::string_view disabled, std::string_view* unknown = nullptr);

// "gso, gro, ..., all", for messages.
std::string feature_names();

// The same of the environment, read once. An unknown name is logged.
const Features& features();

}  // namespace verbena
