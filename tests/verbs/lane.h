// One cell's way for the operations matrix: a sending and a receiving queue pair of any service, the sender's
// with either posting interface.
#pragma once

#include "harness.h"
#include "transport/operations.h"
#include "verbs/abi/verbs_context_ex.h"

namespace verbena::verbs_test {

enum class Interface { work_requests, functions };

// What one request is; the fields that an operation does not have are ignored.
struct Move {
    transport::Operation operation{};
    unsigned flags = 0;
    std::uint64_t wr_id = 0;
    std::size_t length = 0;
    std::uint32_t key = 0;  // to invalidate
};

class Lane {
   public:
    static constexpr std::size_t kBytes = (1 << 20) + 4096;
    static constexpr std::uint32_t kInline = 1024;
    static constexpr std::uint64_t kAddend = 5;
    static constexpr std::uint32_t kImmediate = 0x12345678;

    Lane(transport::Service service, Interface interface);
    ~Lane();
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    // 0, or why the sender cannot be created with that operation.
    static int creatable(transport::Service service, transport::Operation operation);

    int post(const Move& move);
    int post_receive(std::uint64_t wr_id, std::size_t length);
    ibv_cq* receive_cq() { return service_ == transport::Service::xrc_send ? xrc_cq_ : b_.receive_cq; }
    bool is_datagram() const { return service_ == transport::Service::ud; }

    // A window of the receiver's over all of remote(), or of the sender's over local(), bound and ready.
    std::uint32_t bound_window(bool of_receiver);

    Side& a() { return a_; }
    Side& b() { return b_; }
    Memory& local() { return local_; }
    Memory& remote() { return remote_; }

   private:
    int post_work_request(const Move& move);
    int post_functions(const Move& move);
    void connect();
    void connect_datagrams();
    void connect_shared_domains();
    ibv_mw* new_window(Side& side);

    const transport::Service service_;
    const Interface interface_;
    Side a_, b_;
    Memory local_, remote_;
    ibv_ah* ah_ = nullptr;
    ibv_xrcd* xrcd_ = nullptr;
    ibv_srq* xrc_srq_ = nullptr;
    ibv_cq* xrc_cq_ = nullptr;
    std::uint32_t xrc_srqn_ = 0;
    std::vector<ibv_mw*> windows_;
};

}  // namespace verbena::verbs_test
