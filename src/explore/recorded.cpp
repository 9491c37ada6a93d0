#include "explore/recorded.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <tuple>

#include "faults/words.h"
#include "link/capture_reader.h"
#include "trace/text.h"
#include "wire/describe.h"
#include "wire/packet.h"

namespace verbena::explore {
namespace {

using trace::Json;
using trace::object_kind;

constexpr std::uint32_t kGsi = 1;

bool begins_with_one_of(const std::string& call, std::initializer_list<const char*> beginnings) {
    return std::any_of(beginnings.begin(), beginnings.end(),
                       [&](const char* each) { return call.rfind(each, 0) == 0; });
}

bool makes(const std::string& call) {
    return begins_with_one_of(
        call, {"ibv_alloc_", "ibv_create_", "ibv_open_", "ibv_reg_", "rdma_create_", "rdma_reg_"});
}

bool destroys(const std::string& call) {
    return begins_with_one_of(call, {"ibv_dealloc_", "ibv_destroy_", "ibv_close_", "ibv_dereg_",
                                     "ibv_free_dm", "rdma_destroy_", "rdma_dereg_"});
}

class Reader {
   public:
    void read(const Json& event) {
        const std::string kind = event.value("k", "");
        if (kind == "packet") return packet(event);
        if (kind == "fault") recorded_.faults_fired += event.value("fired", 0u);
        const int pid = event.value("pid", 0);
        if (kind == "process") {
            if (event.contains("argv") && !event["argv"].empty()) names_[pid] = name_of(event["argv"][0]);
            alive_.erase(pid);  // of another program before exec()
            return;
        }
        const auto place = std::tuple(pid, event.value("tid", 0), event.value("t", std::uint64_t{0}));
        if (kind == "begin") open_[place] = event;
        if (kind == "cm_event" && event.value("event", "") == "RDMA_CM_EVENT_CONNECT_REQUEST")
            alive_[pid].insert(event.value("id", ""));
        if (kind != "call") return;
        open_.erase(place);
        if (event.value("depth", 0) == 0) call(pid, event.value("call", ""), event);
    }

    Recorded take() {
        for (const auto& [pid, objects] : alive_)
            for (const std::string& object : objects)
                recorded_.left[{names_[pid], object.substr(0, object.find(' '))}]++;
        for (const auto& [place, event] : open_) {
            if (event.value("depth", 0) != 0) continue;
            std::string line = names_[std::get<0>(place)] + " in " + event.value("call", "") + "(";
            if (event.contains("args") && !event["args"].empty() && event["args"].begin()->is_string())
                line += event["args"].begin()->get<std::string>();
            recorded_.unfinished.push_back(line + ")");
        }
        return std::move(recorded_);
    }

   private:
    static std::string name_of(const Json& path) {
        const std::string text = path.is_string() ? path.get<std::string>() : "?";
        return text.substr(text.rfind('/') + 1);
    }

    void packet(const Json& event) {
        link::CapturedPacket captured;
        wire::Packet packet;
        if (!link::read_ip_packet(trace::from_base64(event.value("frame", "")), captured) ||
            wire::parse(captured.bytes, packet) != wire::ParseError::none)
            return;
        if (packet.headers.bth.destination_qp == kGsi) {
            if (packet.payload.size() != wire::kMadLength) return;
            const std::string text = wire::describe_mad(packet.payload.first<wire::kMadLength>());
            if (const std::string name = text.substr(0, text.find(' ')); faults::message_of(name))
                recorded_.messages[name]++;
            return;
        }
        std::string name = wire::info(packet.headers.bth.opcode).name;
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
        recorded_.packets[name]++;
    }

    void call(int pid, const std::string& name, const Json& event) {
        recorded_.calls[name]++;
        if (event.contains("errno")) return;
        std::set<std::string>& alive = alive_[pid];
        const Json none = Json::object();
        const Json& arguments = event.contains("args") ? event["args"] : none;
        const std::string first = arguments.empty() || object_kind(*arguments.begin()).empty()
                                      ? ""
                                      : arguments.begin()->get<std::string>();
        if (makes(name)) {
            std::string made;
            if (event.contains("ret") && !object_kind(event["ret"]).empty()) made = event["ret"];
            if (event.contains("out"))
                for (const Json& value : event["out"])
                    if (made.empty() && !object_kind(value).empty()) made = value;
            if (made.empty()) return;
            alive.insert(made);
            if (name.rfind("rdma_create_qp", 0) == 0) queue_pair_of_[{pid, first}] = made;
        } else if (destroys(name)) {
            // rdma_destroy_qp() and _ep() name the id.
            if (name == "rdma_destroy_qp" || name == "rdma_destroy_ep")
                alive.erase(queue_pair_of_[{pid, first}]);
            if (name != "rdma_destroy_qp") alive.erase(first);
        }
    }

    Recorded recorded_;
    std::map<int, std::string> names_;
    std::map<int, std::set<std::string>> alive_;
    std::map<std::pair<int, std::string>, std::string> queue_pair_of_;
    std::map<std::tuple<int, int, std::uint64_t>, Json> open_;
};

}  // namespace

Recorded read_run(const std::vector<Json>& events) {
    Reader reader;
    for (const Json& event : events) try {
            reader.read(event);
        } catch (const Json::exception&) {  // of another form: left out
        }
    return reader.take();
}

}  // namespace verbena::explore
