#include "daemon/requests.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <set>
#include <string>
#include <vector>

namespace verbena::daemon {
namespace {

std::vector<std::uint8_t> datagram(const host::RequestHeader& header, std::span<const std::uint8_t> body) {
    std::vector<std::uint8_t> out(sizeof header + body.size());
    std::memcpy(out.data(), static_cast<const void*>(&header), sizeof header);
    std::copy(body.begin(), body.end(), out.begin() + sizeof header);
    return out;
}

template <class Body>
std::vector<std::uint8_t> well_formed(host::Command command, const Body& body) {
    host::RequestHeader header;
    header.command = command;
    header.length = sizeof body;
    const auto* bytes = static_cast<const std::uint8_t*>(static_cast<const void*>(&body));
    return datagram(header, std::span(bytes, sizeof body));
}

Malformed judge(const std::vector<std::uint8_t>& bytes, unsigned descriptors = 0) {
    std::span<const std::uint8_t> rest(bytes);
    Malformed malformed;
    do {
        Request request;
        malformed = take_request(rest, descriptors, request);
    } while (malformed == Malformed::none && !rest.empty());
    return malformed;
}

constexpr unsigned kLastCommand = static_cast<unsigned>(host::Command::capture);

TEST(Requests, EveryCommandIsKnown) {
    std::set<std::string> names;
    for (unsigned number = 1; number <= kLastCommand; number++) {
        const CommandInfo* info = find_command(static_cast<host::Command>(number));
        ASSERT_NE(info, nullptr) << number;
        EXPECT_TRUE(names.insert(info->name).second) << info->name;
        EXPECT_GT(info->request_size, 0u);
        EXPECT_GT(info->reply_size, 0u);
    }
    EXPECT_EQ(find_command(host::Command{}), nullptr);
    EXPECT_EQ(find_command(static_cast<host::Command>(kLastCommand + 1)), nullptr);
}

TEST(Requests, ExactLengthsOnly) {
    for (unsigned number = 1; number <= kLastCommand; number++) {
        const CommandInfo& info = *find_command(static_cast<host::Command>(number));
        const unsigned descriptors = info.descriptors == Descriptors::one ? 1 : 0;
        for (int difference : {-1, 0, 1}) {
            if (info.request_size == 0 && difference < 0) continue;
            const auto size = static_cast<std::uint32_t>(static_cast<int>(info.request_size) + difference);
            const std::vector<std::uint8_t> body(size);
            host::RequestHeader header;
            header.command = info.command;
            header.length = size;
            EXPECT_EQ(judge(datagram(header, body), descriptors),
                      difference == 0 ? Malformed::none : Malformed::length)
                << info.name;
            header.length = info.request_size;  // says one thing, brings another
            // What is superfluous is no request, and who has a descriptor must be the last.
            const Malformed extra = descriptors ? Malformed::descriptors : Malformed::too_short;
            EXPECT_EQ(judge(datagram(header, body), descriptors), difference == 0  ? Malformed::none
                                                                  : difference < 0 ? Malformed::length
                                                                                   : extra);
        }
    }
}

TEST(Requests, Descriptors) {
    const auto file = well_formed(host::Command::create_file, host::Empty{});
    EXPECT_EQ(judge(file, 0), Malformed::descriptors);
    EXPECT_EQ(judge(file, 1), Malformed::none);
    EXPECT_EQ(judge(file, 2), Malformed::descriptors);
    const auto queue = well_formed(host::Command::open_queue, host::OpenQueueRequest{});
    EXPECT_EQ(judge(queue, 0), Malformed::none);
    EXPECT_EQ(judge(queue, 1), Malformed::none);
    EXPECT_EQ(judge(queue, 2), Malformed::descriptors);
    EXPECT_EQ(judge(well_formed(host::Command::status, host::Empty{}), 1), Malformed::descriptors);
}

TEST(Requests, HeadersThatAreNone) {
    EXPECT_EQ(judge({}), Malformed::too_short);
    EXPECT_EQ(judge({1, 2, 3, 4, 5}), Malformed::too_short);
    auto good = well_formed(host::Command::status, host::Empty{});
    auto bytes = good;
    bytes[0] ^= 1;
    EXPECT_EQ(judge(bytes), Malformed::magic);
    bytes = good;
    bytes[4] ^= 1;
    EXPECT_EQ(judge(bytes), Malformed::version);
    bytes.resize(6);  // another version's header may be shorter than ours
    EXPECT_EQ(judge(bytes), Malformed::version);
    bytes = good;
    bytes.resize(sizeof(host::RequestHeader) - 1);
    EXPECT_EQ(judge(bytes), Malformed::too_short);
    bytes = good;
    bytes[6] = 0xff;
    EXPECT_EQ(judge(bytes), Malformed::command);
    for (int i = 0; i <= static_cast<int>(Malformed::field); i++)
        EXPECT_STRNE(to_string(static_cast<Malformed>(i)), "?");
    EXPECT_STREQ(to_string(static_cast<Malformed>(99)), "?");
}

TEST(Requests, FieldsBeyondTheirArrays) {
    host::ConnectRequest connect;
    connect.parameters.private_data_length = cm::kMaxPrivateData;
    EXPECT_EQ(judge(well_formed(host::Command::connect, connect)), Malformed::none);
    connect.parameters.private_data_length++;
    EXPECT_EQ(judge(well_formed(host::Command::connect, connect)), Malformed::field);

    host::AcceptRequest accept;
    accept.parameters.private_data_length = 255;
    EXPECT_EQ(judge(well_formed(host::Command::accept, accept)), Malformed::field);

    host::RejectRequest reject;
    reject.private_data_length = 225;
    EXPECT_EQ(judge(well_formed(host::Command::reject, reject)), Malformed::field);

    host::OptionRequest option;
    option.length = 256;
    EXPECT_EQ(judge(well_formed(host::Command::set_option, option)), Malformed::none);
    option.length = 257;
    EXPECT_EQ(judge(well_formed(host::Command::set_option, option)), Malformed::field);

    host::RequeueRequest requeue;
    requeue.event.connection.private_data_length = 255;
    EXPECT_EQ(judge(well_formed(host::Command::requeue, requeue)), Malformed::field);
    requeue.event.connection.private_data_length = 0;
    requeue.count = host::kMostRequeued;
    EXPECT_EQ(judge(well_formed(host::Command::requeue, requeue)), Malformed::none);
    requeue.count++;
    EXPECT_EQ(judge(well_formed(host::Command::requeue, requeue)), Malformed::field);
}

TEST(Requests, AddressFamilies) {
    for (int family : {AF_UNSPEC, AF_INET, AF_INET6, 27 /* AF_IB */, AF_UNIX, 0xffff}) {
        const bool good = family != AF_UNIX && family != 0xffff;
        const Malformed expected = good ? Malformed::none : Malformed::field;
        host::BindRequest bind;
        bind.local.family = static_cast<std::uint16_t>(family);
        EXPECT_EQ(judge(well_formed(host::Command::bind, bind)), expected);
        host::ResolveAddressRequest resolve;
        resolve.source.family = static_cast<std::uint16_t>(family);
        EXPECT_EQ(judge(well_formed(host::Command::resolve_address, resolve)), expected);
        host::MulticastRequest multicast;
        multicast.group.family = static_cast<std::uint16_t>(family);
        EXPECT_EQ(judge(well_formed(host::Command::join_multicast, multicast)), expected);
    }
}

TEST(Requests, TheBodyIsTheRequest) {
    host::ListenRequest listen;
    listen.id = 7;
    listen.backlog = -3;
    const auto bytes = well_formed(host::Command::listen, listen);
    std::span<const std::uint8_t> rest(bytes);
    Request request;
    ASSERT_EQ(take_request(rest, 0, request), Malformed::none);
    EXPECT_TRUE(rest.empty());
    EXPECT_STREQ(request.info->name, "listen");
    EXPECT_EQ(request.as<host::ListenRequest>().id, 7u);
    EXPECT_EQ(request.as<host::ListenRequest>().backlog, -3);
}

TEST(Requests, SeveralComeOneBehindTheOther) {
    host::CreateIdRequest create;
    create.id = 7;
    host::IdRequest destroy{8};
    auto bytes = well_formed(host::Command::create_id, create);
    const auto second = well_formed(host::Command::destroy_id, destroy);
    bytes.insert(bytes.end(), second.begin(), second.end());
    std::span<const std::uint8_t> rest(bytes);
    Request request;
    ASSERT_EQ(take_request(rest, 0, request), Malformed::none);
    EXPECT_EQ(request.as<host::CreateIdRequest>().id, 7u);
    EXPECT_EQ(rest.size(), second.size());
    ASSERT_EQ(take_request(rest, 0, request), Malformed::none);
    EXPECT_EQ(request.as<host::IdRequest>().id, 8u);
    EXPECT_TRUE(rest.empty());

    bytes.pop_back();
    EXPECT_EQ(judge(bytes), Malformed::length);
}

TEST(Requests, ADescriptorIsTheLastOnes) {
    const auto ends = well_formed(host::Command::destroy_id, host::IdRequest{8});
    const auto file = well_formed(host::Command::create_file, host::Empty{});
    auto bytes = ends;
    bytes.insert(bytes.end(), file.begin(), file.end());
    EXPECT_EQ(judge(bytes, 1), Malformed::none);
    bytes = file;
    bytes.insert(bytes.end(), ends.begin(), ends.end());
    EXPECT_EQ(judge(bytes, 1), Malformed::descriptors);
}

}  // namespace
}  // namespace verbena::daemon
