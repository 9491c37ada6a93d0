// enum ibv_rate and its relatives: multiples of 2.5 Gbit/s and Mbit/s (IBA table 63).

#include <infiniband/verbs.h>

namespace {

struct Rate {
    ibv_rate rate;
    int multiple;  // of 2.5 Gbit/s, the base rate; -1: none
    int megabits;
};

constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},     {IBV_RATE_5_GBPS, 2, 5000},         {IBV_RATE_10_GBPS, 4, 10000},
    {IBV_RATE_20_GBPS, 8, 20000},     {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},    {IBV_RATE_80_GBPS, 32, 80000},      {IBV_RATE_120_GBPS, 48, 120000},
    {IBV_RATE_14_GBPS, 6, 14062},     {IBV_RATE_56_GBPS, 22, 56250},      {IBV_RATE_112_GBPS, 45, 112500},
    {IBV_RATE_168_GBPS, 67, 168750},  {IBV_RATE_25_GBPS, 10, 25781},      {IBV_RATE_100_GBPS, 40, 103125},
    {IBV_RATE_200_GBPS, 80, 206250},  {IBV_RATE_300_GBPS, 120, 309375},   {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},    {IBV_RATE_400_GBPS, 160, 425000},   {IBV_RATE_600_GBPS, 240, 637500},
    {IBV_RATE_800_GBPS, 320, 850000}, {IBV_RATE_1200_GBPS, 480, 1275000},
};

}  // namespace

extern "C" {

int ibv_rate_to_mult(enum ibv_rate rate) {
    for (const Rate& entry : kRates)
        if (entry.rate == rate) return entry.multiple;
    return -1;
}

enum ibv_rate mult_to_ibv_rate(int mult) {
    for (const Rate& entry : kRates)
        if (entry.multiple == mult) return entry.rate;
    return IBV_RATE_MAX;
}

int ibv_rate_to_mbps(enum ibv_rate rate) {
    for (const Rate& entry : kRates)
        if (entry.rate == rate) return entry.megabits;
    return -1;
}

enum ibv_rate mbps_to_ibv_rate(int mbps) {
    for (const Rate& entry : kRates)
        if (entry.megabits == mbps) return entry.rate;
    return IBV_RATE_MAX;
}

}  // extern "C"
