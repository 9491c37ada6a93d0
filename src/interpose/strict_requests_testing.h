// A queue pair with a region and a completion queue, what it posts and completes, and which mistakes are
// told.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "interpose/strict_requests.h"

namespace verbena::interpose {

inline constexpr std::uint32_t kLkey = 7;
inline constexpr Regions::Key kKey{nullptr, kLkey};

class StrictRequests : public testing::Test {
   protected:
    StrictRequests() {
        requests.region_made(kKey, region_of(&region, "mr 1", address(0), sizeof memory));
        requests.completion_queue_made(&cq, "cq 1", 8);
        make(qp, 17, 4);
    }
    void make(int& object, std::uint32_t number, std::uint32_t max_send, const void* shared = nullptr) {
        requests.queue_pair_made(&object, {"qp", number, max_send, &cq, &cq, shared});
        requests.queue_pair_works(&object);
    }
    static Regions::Region region_of(const void* object, const char* name, std::uint64_t address,
                                     std::uint64_t length) {
        return {object, name, address, address, length, Regions::Backing::memory};
    }
    std::uint64_t address(std::size_t offset) { return reinterpret_cast<std::uintptr_t>(memory) + offset; }
    StrictBuffer buffer(std::size_t offset, std::uint32_t length = 8) {
        return {address(offset), length, kLkey};
    }
    void send(std::uint64_t wr_id, std::size_t offset, bool signaled = true) {
        post(&qp, {StrictSend{wr_id, signaled, true, {buffer(offset)}}});
    }
    void post(const void* queue, const std::vector<StrictSend>& all, std::size_t accepted = 99) {
        requests.posted_send(queue, requests.post_send(queue, all), accepted);
    }
    void post(const void* queue, const std::vector<StrictReceive>& all, std::size_t accepted = 99) {
        requests.posted_receive(queue, requests.post_receive(queue, all), accepted);
    }
    void receive(std::uint64_t wr_id, std::size_t offset) {
        post(&qp, {StrictReceive{wr_id, {buffer(offset)}}});
    }
    void sent(std::uint64_t wr_id, bool success = true) { completed({17, wr_id, success, false}); }
    void received(std::uint64_t wr_id, bool success = true) { completed({17, wr_id, success, true}); }
    void completed(const Requests::Completion& completion) {
        const std::uint64_t began = requests.poll_begins(&cq, 1);
        requests.completed(&cq, completion, began);
        requests.poll_ends(&cq, 1);
    }
    void deregister(bool success = true) {
        requests.region_left(requests.region_leaves(kKey, "ibv_dereg_mr"), success);
    }

    char memory[256] = {};
    int region = 0, cq = 0, qp = 0;
    std::string mistakes;
    Requests requests{[this](const char* mistake, const void*, const std::string&) {
        mistakes += std::string(mistake) + " ";
    }};
};

}  // namespace verbena::interpose
