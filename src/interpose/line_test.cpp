// JSON that is put together piece by piece.

#include "interpose/line.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>

#include "interpose/objects.h"
#include "interpose/show.h"

namespace verbena::interpose {
namespace {

class LineTest : public testing::Test {
   protected:
    LineTest() { line.take(); }
    ~LineTest() override { line.give_back(); }
    std::string text() { return std::string(line.view()); }
    Line line;
};

TEST_F(LineTest, CommasComeByThemselves) {
    line.open('{');
    line.key("a").number(-1);
    line.key("b").open('[');
    line.hex(16);
    line.null();
    line.close(']');
    line.key("c").open('{');
    line.close('}');
    line.close('}');
    EXPECT_EQ(text(), R"({"a":-1,"b":["0x10",null],"c":{}})");
}

TEST_F(LineTest, TextIsEscaped) {
    line.text("a\"\\\n\x01");
    EXPECT_EQ(text(), R"("a\"\\\u000a\u0001")");
}

TEST_F(LineTest, WhatIsNoUtf8IsReplaced) {
    line.text("\xe4\xb8\xad\xff\xc0\xaf\xed\xa0\x80\xf0\x9f\x98");
    std::string expected = "\"\xe4\xb8\xad";
    for (int i = 0; i < 9; i++) expected += "\xef\xbf\xbd";
    EXPECT_EQ(text(), expected + "\"");
}

TEST_F(LineTest, Addresses) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(7471);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    show(line, reinterpret_cast<const sockaddr*>(&in));
    EXPECT_EQ(text(), R"("127.0.0.1:7471")");
}

TEST_F(LineTest, OnlyWhatTheMaskNames) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = 17;
    show(line, &attributes, IBV_QP_STATE | IBV_QP_PATH_MTU);
    EXPECT_EQ(text(), R"({"qp_state":"RTR","path_mtu":1024})");
}

TEST_F(LineTest, LongListsAreCut) {
    ibv_recv_wr requests[20]{};
    for (int i = 0; i + 1 < 20; i++) requests[i].next = &requests[i + 1];
    show(line, requests);
    EXPECT_NE(text().find("\"...\"]"), std::string::npos);
}

TEST_F(LineTest, ObjectsHaveNamesWhileTheyLive) {
    int a = 0, b = 0;
    const auto shown = [&](const void* object) {
        line.cut(0);
        show_object(line, Kind::pd, object);
        return text();
    };
    add_object(Kind::pd, &a);
    add_object(Kind::pd, &b);
    const std::string name = shown(&a);
    EXPECT_EQ(name.substr(0, 4), "\"pd ");
    EXPECT_NE(name, shown(&b));
    const Known known = take_object(&a);
    EXPECT_EQ(shown(&a).substr(0, 3), "\"0x");
    put_back(&a, known);
    EXPECT_EQ(shown(&a), name);
    EXPECT_EQ(shown(nullptr), "null");
}

}  // namespace
}  // namespace verbena::interpose
