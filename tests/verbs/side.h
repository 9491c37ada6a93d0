// One side of the table's runs: a device, the side channel to the other side, and what a row needs of verbs.
// Plain libibverbs calls only, so that the same binary runs on any implementation.
//
// Every call reports trouble as an exception: the row ends as failed, and the run goes on with the next.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "table.h"

namespace table {

inline constexpr int kPatienceMs = 15'000;
inline constexpr std::uint64_t kFilling = 0x6c6d6e6f70717273;  // of regions
inline constexpr std::uint64_t kAhead = 7;                     // wr_id of the requests before the row's

struct Trouble : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The side channel's sockets; -1 with errno. Port 0: any, which is then in `port`.
int listen_on(std::uint16_t& port);
int connect_to(const char* host, std::uint16_t port);

// A connected TCP socket over which both sides exchange structures of equal size and byte order.
class Wire {
   public:
    explicit Wire(int socket) : socket_(socket) {}
    ~Wire();
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    // Both call it; each gets what the other gave.
    template <class Record>
    Record exchange(const Record& mine) {
        Record theirs;
        send_all(&mine, sizeof mine);
        receive_all(&theirs, sizeof theirs);
        return theirs;
    }
    void barrier() { exchange(char{0}); }

   private:
    void send_all(const void* data, std::size_t size);
    void receive_all(void* data, std::size_t size);

    int socket_;
};

struct Device {
    explicit Device(const std::string& name);  // empty: the first
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    ibv_context* context = nullptr;
    bool is_verbena = false;
    ibv_mtu mtu = IBV_MTU_1024;
};

// A buffer that is registered in `pd`.
class Region {
   public:
    Region(ibv_pd* pd, int access);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    void deregister();
    ibv_mr* handle() const { return mr_; }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(bytes_.data()); }
    std::uint64_t word() const;  // the first

    std::uint32_t lkey = 0, rkey = 0;

   private:
    std::vector<std::uint64_t> bytes_;  // aligned, for the atomics
    ibv_mr* mr_;
};

// What the other side has to know of a queue pair and of the memory behind it.
struct Address {
    std::uint32_t number, psn;
    std::uint32_t lkey, rkey;
    std::uint64_t memory;
    ibv_gid gid;
    ibv_mtu mtu;
    bool is_verbena;
};

// The objects of one row on one side.
class Ends {
   public:
    Ends(Device& device, unsigned gid_index, const Row& row, bool responds);
    ~Ends();
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;

    Address address() const;
    // `flow_label`: 0 leaves the flow to the library.
    void connect(const Address& peer, std::uint32_t flow_label = 0);
    // The key of the row's window, made through the connected queue pair; 0 without one.
    std::uint32_t window_key(const Address& peer);
    void post_receive();
    void destroy_qp();
    std::uint64_t word() const { return data_.word(); }  // the first that requests read and write
    // `followed`: a SEND behind it, so that there is something to flush.
    int post_request(const Address& peer, bool followed);

    // The next completion of the queue; false after `milliseconds` without one.
    bool next(ibv_cq* cq, ibv_wc& completion, int milliseconds = kPatienceMs);
    ibv_qp_state state(ibv_qp_state expected);
    int event(int expected);

    ibv_cq* send_cq = nullptr;
    ibv_cq* receive_cq = nullptr;

   private:
    Region& region_for(Key key);
    ibv_qp* create_qp();
    void bring_up(ibv_qp* qp, const Address& peer);
    void bind_window(ibv_qp* qp, std::uint32_t key);
    void invalidate_window(std::uint32_t key);
    void finish(const char* what);

    Device& device_;
    const unsigned gid_index_;
    const Row& row_;
    ibv_pd* pd_;
    ibv_pd* other_pd_;
    Region data_;     // what requests read and write
    Region foreign_;  // the same in the other PD
    Region gone_;
    Region receive_;
    ibv_qp* qp_ = nullptr;
    ibv_qp* other_qp_ = nullptr;  // for the window of another queue pair
    ibv_mw* window_ = nullptr;
    std::uint32_t psn_;
    std::uint32_t flow_label_ = 0;
};

}  // namespace table
