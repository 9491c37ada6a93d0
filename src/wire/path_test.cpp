#include "wire/path.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

TEST(Path, Ipv4NeedsBothMapped) {
    Path path;
    EXPECT_FALSE(path.is_ipv4());
    path.source = Gid::from_ipv4(0x0a000001);
    EXPECT_FALSE(path.is_ipv4());
    path.destination = Gid::from_ipv4(0x0a000002);
    EXPECT_TRUE(path.is_ipv4());
}

TEST(Path, SourcePortFoldsTheFlowLabel) {
    EXPECT_EQ(udp_source_port(0), 0xc000);
    EXPECT_EQ(udp_source_port(0x3fff), 0xffff);
    EXPECT_EQ(udp_source_port(0x4000), 0xc001);
    EXPECT_EQ(udp_source_port(0xfffff), 0xc000 | (0x3fff ^ 0x3f));
    EXPECT_EQ(udp_source_port(0xfff00000), 0xc000) << "bits above the label count for nothing";
}

TEST(Path, FlowLabelFromQpnsIsSymmetric) {
    EXPECT_EQ(flow_label_from_qpns(0x11, 0x12), 0x11u * 0x12u);
    EXPECT_EQ(flow_label_from_qpns(0xabcdef, 0x123456), flow_label_from_qpns(0x123456, 0xabcdef));
    // 0xffffff^2 = 0xfffffe000001: bits 20.. (0xfffffe0) are folded down once, bits 40.. of the result once
    // more.
    EXPECT_EQ(flow_label_from_qpns(0xffffff, 0xffffff), (0x00001u ^ 0xfffe0u ^ 0xffu) & 0xfffff);
}

TEST(Path, FlowLabelFromPorts) {
    EXPECT_EQ(flow_label_from_ports(1, 2), 33u);
    EXPECT_EQ(flow_label_from_ports(0xffff, 0xffff), 0xffffu * 32 & 0xfffff);
    EXPECT_NE(flow_label_from_ports(1, 2), flow_label_from_ports(2, 1));
}

TEST(Path, UdSourcePort) {
    EXPECT_EQ(udp_source_port_for_ud(1), 55410);
    EXPECT_EQ(udp_source_port_for_ud(0), 0xc000);
    for (std::uint32_t qpn = 0; qpn < 100'000; qpn += 7) EXPECT_GE(udp_source_port_for_ud(qpn), 0xc000);
}

}  // namespace
}  // namespace verbena::wire
