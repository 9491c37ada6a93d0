// What a stream makes of its settings, and what it tells of itself to rgetsockopt.
#include <endian.h>

#include <utility>

#include "rsocket/stream.h"

namespace verbena::rsocket {

Settings Stream::settings() {
    Lock lock(mutex_);
    return settings_;
}

// The buffers and queues of a connection stay as they are.
int Stream::change(const Settings& settings) {
    Lock lock(mutex_);
    Settings changed = settings;
    if (connection_.exists()) {
        changed.receive_buffer = settings_.receive_buffer;
        changed.send_buffer = settings_.send_buffer;
        changed.send_queue = settings_.send_queue;
        changed.receive_queue = settings_.receive_queue;
        changed.inline_data = settings_.inline_data;
        changed.map_entries = settings_.map_entries;
    }
    const bool keepalive = changed.keepalive && phase_ == Phase::connected &&
                           (!settings_.keepalive || changed.keepalive_idle != settings_.keepalive_idle);
    const bool reuse = changed.reuse_address != settings_.reuse_address;
    const bool only_v6 = changed.only_v6 != settings_.only_v6;
    settings_ = changed;
    if (id_ && phase_ == Phase::idle) {
        int value = settings_.reuse_address;
        if (reuse) rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &value, sizeof value);
        value = settings_.only_v6;
        if (only_v6) rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &value, sizeof value);
    }
    lock.unlock();
    if (keepalive)
        service_.wake_at(std::static_pointer_cast<Stream>(shared_from_this()),
                         now() + changed.keepalive_idle * kSecond);
    return 0;
}

int Stream::take_error() {
    Lock lock(mutex_);
    progress();
    const int error = std::exchange(error_, 0);
    if (phase_ == Phase::connected) reported_ = true;
    return error;
}

std::vector<ibv_path_data> Stream::route() {
    Lock lock(mutex_);
    std::vector<ibv_path_data> paths;
    if (!id_ || !id_->route.path_rec) return settings_.route;
    for (int i = 0; i < id_->route.num_paths; i++) {
        ibv_path_data path{};
        path.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
        const ibv_sa_path_rec& from = id_->route.path_rec[i];
        path.path.dgid = from.dgid;
        path.path.sgid = from.sgid;
        path.path.dlid = from.dlid;
        path.path.slid = from.slid;
        path.path.flowlabel_hoplimit = htobe32((be32toh(from.flow_label) << 8) | from.hop_limit);
        path.path.tclass = from.traffic_class;
        path.path.reversible_numpath = static_cast<std::uint8_t>((from.reversible << 7) | 1);
        path.path.pkey = from.pkey;
        path.path.qosclass_sl = htobe16(from.sl);
        path.path.mtu = static_cast<std::uint8_t>(from.mtu | 2 << 6);  // exactly
        path.path.rate = static_cast<std::uint8_t>(from.rate | 2 << 6);
        path.path.packetlifetime = static_cast<std::uint8_t>(from.packet_life_time | 2 << 6);
        paths.push_back(path);
    }
    return paths;
}

bool Stream::has_connection() {
    Lock lock(mutex_);
    return connection_.exists();
}

bool Stream::is_listening() {
    Lock lock(mutex_);
    return phase_ == Phase::listening;
}

bool Stream::is_connected() {
    Lock lock(mutex_);
    progress();
    return phase_ == Phase::connected;
}

}  // namespace verbena::rsocket
