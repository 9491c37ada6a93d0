// The ibv_wr_* interface (ibv_wr_post(3)): requests are collected between wr_start and wr_complete, and
// posted together or not at all.
//
// Every error until then is kept, the first one counts, and wr_complete returns it. Elements and inline data
// are copied when they are given. Room for kFirstRoom requests is there from the beginning and grows to what
// has been needed once, so that nothing is allocated while a program does what it did before.
//
// Thread safety: wr_start takes the builder's lock, and wr_complete or wr_abort gives it back, so that
// several threads can post to one queue pair, each its own requests.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "transport/requests.h"

namespace verbena::verbs {

struct QueuePair;

class WorkBuilder {
   public:
    WorkBuilder(QueuePair& qp, std::uint64_t send_ops);

    // 0, or EOPNOTSUPP or EINVAL with a reason: whether a queue pair of that type can have these operations
    // (IBV_QP_EX_WITH_...).
    static int check_operations(int qp_type, std::uint64_t send_ops);
    // Fills the public structure's functions.
    void install();

    void start();
    int complete();
    void abort();

    // A new request, with the id and flags that the program has set; the setters below are about the last
    // one. If it is refused, the answer is a place that nobody reads.
    transport::SendRequest& add(transport::Operation operation);

    void set_elements(std::span<const transport::Sge> elements);
    void set_inline(std::span<const ibv_data_buf> buffers);
    // The last request, or a place that nobody reads.
    transport::SendRequest& last();

    // The list is refused as a whole, with the first error.
    void refuse(int error) {
        if (!error_) error_ = error;
    }

   private:
    // Where a request's elements lie until the vectors stop moving.
    struct Place {
        std::uint32_t first_element = 0;
        std::uint32_t elements = 0;
        std::uint32_t first_byte = 0;
    };

    // Whether there was memory for what `add` appends; otherwise the list is refused.
    template <class Add>
    bool grow(const char* call_name, Add add);

    QueuePair& qp_;
    const std::uint64_t send_ops_;
    const std::uint32_t max_requests_;
    std::mutex lock_;
    int error_ = 0;
    std::vector<transport::SendRequest> requests_;
    std::vector<Place> places_;
    std::vector<transport::Sge> elements_;
    std::vector<std::uint8_t> bytes_;
    transport::SendRequest spare_;
};

}  // namespace verbena::verbs
