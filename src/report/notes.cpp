// What stands at one end of a ladder beside the packets: the calls that set up, use and end the connection,
// the events and completions that the program got, and its queue pair's states.

#include <algorithm>
#include <set>
#include <string_view>

#include "report/conversation.h"

namespace verbena::report {
namespace {

constexpr unsigned kFewDataNotes = 32;    // more posts and completions than that are left to the tables
constexpr std::uint64_t kLong = 100'000;  // nanoseconds
constexpr unsigned kMostNotes = 80;       // at one end

// Calls that a reader follows a connection by. What only asks, waits or acknowledges is not among them.
constexpr std::string_view kControl[] = {
    "ibv_alloc_pd",
    "ibv_attach_mcast",
    "ibv_create_ah",
    "ibv_create_cq",
    "ibv_create_cq_ex",
    "ibv_create_qp",
    "ibv_create_qp_ex",
    "ibv_create_srq",
    "ibv_create_srq_ex",
    "ibv_dereg_mr",
    "ibv_destroy_qp",
    "ibv_open_device",
    "ibv_reg_mr",
    "ibv_reg_mr_iova",
    "ibv_reg_mr_iova2",
    "rdma_accept",
    "rdma_bind_addr",
    "rdma_connect",
    "rdma_create_ep",
    "rdma_create_event_channel",
    "rdma_create_id",
    "rdma_create_qp",
    "rdma_create_qp_ex",
    "rdma_create_srq",
    "rdma_create_srq_ex",
    "rdma_destroy_ep",
    "rdma_destroy_event_channel",
    "rdma_destroy_id",
    "rdma_destroy_qp",
    "rdma_disconnect",
    "rdma_establish",
    "rdma_get_request",
    "rdma_join_multicast",
    "rdma_join_multicast_ex",
    "rdma_leave_multicast",
    "rdma_listen",
    "rdma_reg_msgs",
    "rdma_reg_read",
    "rdma_reg_write",
    "rdma_reject",
    "rdma_resolve_addr",
    "rdma_resolve_route",
};

bool is_control(std::string_view call) {
    return std::binary_search(std::begin(kControl), std::end(kControl), call);
}

bool is_data(std::string_view call) {
    return call.starts_with("ibv_post_") || call.starts_with("rdma_post_") || call == "ibv_wr_complete";
}

// "id 1" in "id 1, channel 1" but not in "id 12".
bool names(const std::string& text, const std::string& object) {
    for (std::size_t at = text.find(object); at != std::string::npos; at = text.find(object, at + 1)) {
        const std::size_t end = at + object.size();
        if ((at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]))) &&
            (end == text.size() || !std::isalnum(static_cast<unsigned char>(text[end]))))
            return true;
    }
    return false;
}

bool names(const Pairs& pairs, const std::string& object) {
    return std::any_of(pairs.begin(), pairs.end(),
                       [&](const auto& pair) { return names(pair.second, object); });
}

std::string value_of(const Pairs& pairs, std::string_view name) {
    const auto found =
        std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == name; });
    return found == pairs.end() ? std::string() : found->second;
}

std::string qp_name(std::uint32_t qpn) {
    char text[24];
    std::snprintf(text, sizeof text, "qp 0x%x", qpn);
    return text;
}

class Notes {
   public:
    Notes(const Recording& recording, const std::vector<Conversation>& all, const Conversation& conversation,
          int side)
        : recording_(recording),
          end_(conversation.ends[side]),
          peer_(conversation.ends[1 - side]),
          side_(side) {
        // A program with one conversation did everything for it; otherwise the objects' names decide.
        const auto takes_part = [&](const Conversation& each) {
            return each.ends[kLeft].process == end_.process || each.ends[kRight].process == end_.process;
        };
        alone_ = std::count_if(all.begin(), all.end(), takes_part) == 1 &&
                 conversation.ends[kLeft].process != conversation.ends[kRight].process;
        if (conversation.kind == Kind::connection && side == kRight && !conversation.packets.empty())
            requested_ = recording.packets[conversation.packets[0]].captured.nanoseconds;
        // The members' queue pairs have numbers of their own; the group's is nobody's.
        any_qp_ = conversation.kind == Kind::multicast && side == kRight && alone_;
        if (!alone_) find_objects();
    }

    std::vector<Step> take(unsigned& left_out) {
        unsigned data = 0;
        for (const Call& call : recording_.calls) data += mine(call) && is_data(call.name) && concerns(call);
        for (const Completion& wc : recording_.completions) data += mine(wc) && ours(wc.qp);
        few_ = data <= kFewDataNotes;
        for (const Call& call : recording_.calls) take(call);
        for (const CmEvent& event : recording_.cm_events) take(event);
        for (const AsyncEvent& event : recording_.async_events) take(event);
        for (const Transition& transition : recording_.transitions) take(transition);
        for (const Completion& completion : recording_.completions) take(completion);
        std::stable_sort(steps_.begin(), steps_.end(),
                         [](const Step& a, const Step& b) { return a.time < b.time; });
        if (steps_.size() > kMostNotes) {
            left_out += static_cast<unsigned>(steps_.size() - kMostNotes);
            steps_.resize(kMostNotes);
        }
        return std::move(steps_);
    }

   private:
    static std::string completion_label(const Completion& completion) {
        const std::string& name = completion.failed() ? completion.status : completion.opcode;
        return "completion " + (name.empty() ? completion.status : name);
    }

    bool mine(const Entry& entry) const { return entry.process == end_.process; }

    bool ours(std::uint32_t qpn) const { return any_qp_ || qpn == end_.qpn; }

    void find_objects() {
        if (!end_.qpn) return find_ids_without_qp();
        const std::string qp = qp_name(end_.qpn);
        objects_.insert(qp);
        // Calls that name both, and calls of an id inside which librdmacm works on the queue pair.
        std::vector<const Call*> on_qp;
        for (const Call& call : recording_.calls)
            if (mine(call) && (names(call.arguments, qp) || names(call.out, qp) || names(call.result, qp)))
                on_qp.push_back(&call);
        for (const Call& call : recording_.calls) {
            if (!mine(call) || call.depth != 0) continue;
            const bool about = std::any_of(on_qp.begin(), on_qp.end(), [&](const Call* inner) {
                return inner == &call || (inner->thread == call.thread && inner->time >= call.time &&
                                          inner->time <= call.time + call.duration);
            });
            if (about && !call.name.starts_with("rdma_get_cm_event")) add_ids(call);
        }
        find_ids_without_qp();
    }

    void add_ids(const Call& call) {
        for (const Pairs* pairs : {&call.arguments, &call.out})
            for (const auto& [name, value] : *pairs)
                if (value.starts_with("id ") && name.find("listen") == std::string::npos)
                    objects_.insert(value);
    }

    // A request or reply tells the peer's queue pair; rdma_get_request hides its event, but comes back with
    // the request.
    void find_ids_without_qp() {
        if (!peer_.qpn) return;
        for (const CmEvent& event : recording_.cm_events)
            if (mine(event) &&
                std::strtoul(value_of(event.parameters, "qp_num").c_str(), nullptr, 0) == peer_.qpn)
                objects_.insert(event.id);
        if (!requested_ || objects_.size() > (end_.qpn ? 1U : 0U)) return;
        for (const Call& call : recording_.calls)
            if (mine(call) && call.name == "rdma_get_request" && !call.failed() &&
                call.time + call.duration > requested_)
                return add_ids(call);
    }

    bool concerns(const Call& call) const {
        return alone_ || std::any_of(objects_.begin(), objects_.end(), [&](const std::string& object) {
                   return names(call.arguments, object) || names(call.out, object) ||
                          names(call.result, object);
               });
    }

    Step& add(const Entry& entry, What what, std::string label) {
        Step& step = steps_.emplace_back();
        step.what = what;
        step.time = entry.time;
        step.side = side_;
        step.label = std::move(label);
        return step;
    }

    // What tells calls of one name apart: where to, which operation, which keys.
    static void add_details(const Call& call, Step& step) {
        static constexpr std::string_view kShown[] = {"addr", "dst_addr", "backlog", "length"};
        const bool memory = call.name.find("reg_") != std::string::npos;
        for (const auto& [name, value] : call.arguments) {
            const bool shown = std::find(std::begin(kShown), std::end(kShown), name) != std::end(kShown);
            if (shown && memory && name == "length") step.details.push_back(value + " bytes");
            if (shown && !memory && value != "null") step.details.push_back(value);
            if (name != "wr") continue;
            constexpr std::string_view kOpcode = "\"opcode\":\"";
            if (const std::size_t at = value.find(kOpcode); at != std::string::npos)
                step.details.push_back(value.substr(
                    at + kOpcode.size(), value.find('"', at + kOpcode.size()) - at - kOpcode.size()));
        }
        if (memory)
            if (const std::string rkey = value_of(call.out, "rkey"); !rkey.empty())
                step.details.push_back("keys " + value_of(call.out, "lkey") + ", " + rkey);
    }

    void take(const Call& call) {
        if (!mine(call)) return;
        const bool shown = call.failed() || call.hung ||
                           (call.depth == 0 && (is_control(call.name) || (few_ && is_data(call.name))));
        if (!shown || !concerns(call)) return;
        // A call that took long and failed stands where it began, and where it failed.
        const bool took_long = call.failed() && call.duration > kLong;
        Step& step = add(call, What::call, call.name);
        step.bad = !took_long && (call.failed() || call.hung);
        const std::string why = call.error + (call.reason.empty() ? "" : ": " + call.reason);
        if (call.failed() && !took_long) step.remark = why;
        add_details(call, step);
        if (!took_long) return;
        Step& end = add(call, What::call, call.name);
        end.time += call.duration;
        end.bad = true;
        end.remark = why;
    }

    void take(const CmEvent& event) {
        if (!mine(event) || !(alone_ || objects_.contains(event.id))) return;
        Step& step = add(event, What::event, event.event);
        step.bad = event.status != 0 || !event.reason.empty();
        if (event.status) step.details.push_back("status " + std::to_string(event.status));
        step.remark = event.reason;
    }

    void take(const AsyncEvent& event) {
        if (!mine(event) || !(alone_ || objects_.contains(event.element))) return;
        Step& step = add(event, What::event, event.event);
        step.bad = true;
        step.remark = event.reason;
    }

    void take(const Transition& transition) {
        if (!mine(transition) || !ours(transition.qp) || transition.to.empty() || transition.from.empty())
            return;
        add(transition, What::transition, "QP " + transition.from + " → " + transition.to).bad =
            transition.to == "ERR";
    }

    void take(const Completion& completion) {
        if (!mine(completion) || !ours(completion.qp) || !(few_ || completion.failed())) return;
        Step& step = add(completion, What::completion, completion_label(completion));
        step.bad = completion.failed();
        step.remark = completion.reason;
    }

    const Recording& recording_;
    const End &end_, &peer_;
    const int side_;
    std::uint64_t requested_ = 0;  // when the REQ came
    bool alone_ = false, any_qp_ = false, few_ = true;
    std::set<std::string> objects_;
    std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> notes_of(const Recording& recording, const std::vector<Conversation>& all,
                           const Conversation& conversation, int side, unsigned& left_out) {
    if (conversation.ends[side].process == kNone) return {};
    return Notes(recording, all, conversation, side).take(left_out);
}

}  // namespace verbena::report
