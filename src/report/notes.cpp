// What stands at one end of a ladder beside the packets: the calls that set up, use and end the connection,
// the events and completions that the program got, and its queue pair's states.

#include <algorithm>
#include <iterator>
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
    Notes(const Recording& recording, const std::vector<ProgramIndex>& programs,
          const std::vector<Conversation>& all, const Conversation& conversation, int side)
        : recording_(recording),
          index_(programs[conversation.ends[side].process]),
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
        const Places calls = calls_that_concern_it();
        const Places& completions =
            any_qp_ ? index_.completions : ProgramIndex::find(index_.completions_of, end_.qpn);
        const Places& transitions =
            any_qp_ ? index_.transitions : ProgramIndex::find(index_.transitions_of, end_.qpn);
        const auto posts = std::count_if(calls.begin(), calls.end(),
                                         [&](std::size_t i) { return is_data(recording_.calls[i].name); });
        few_ = static_cast<std::size_t>(posts) + completions.size() <= kFewDataNotes;
        for (const std::size_t i : calls) take(recording_.calls[i]);
        for (const CmEvent& event : recording_.cm_events) take(event);
        for (const AsyncEvent& event : recording_.async_events) take(event);
        for (const std::size_t i : transitions) take(recording_.transitions[i]);
        for (const std::size_t i : completions) take(recording_.completions[i]);
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

    void find_objects() {
        if (!end_.qpn) return find_ids_without_qp();
        const std::string qp = qp_name(end_.qpn);
        objects_.insert(qp);
        // Calls that name both, and calls of an id inside which librdmacm works on the queue pair.
        for (const std::size_t i : ProgramIndex::find(index_.calls_of, qp)) {
            const Call* const outer = outer_call(recording_, index_, recording_.calls[i]);
            if (outer && !outer->name.starts_with("rdma_get_cm_event")) add_ids(*outer);
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
        for (const std::size_t i : index_.calls) {
            const Call& call = recording_.calls[i];
            if (call.name == "rdma_get_request" && !call.failed() && call.time + call.duration > requested_)
                return add_ids(call);
        }
    }

    Places calls_that_concern_it() const {
        if (alone_) return index_.calls;
        Places all;
        for (const std::string& object : objects_) {
            const Places& named = ProgramIndex::find(index_.calls_of, object);
            all.insert(all.end(), named.begin(), named.end());
        }
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        return all;
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
        const bool shown = call.failed() || call.hung ||
                           (call.depth == 0 && (is_control(call.name) || (few_ && is_data(call.name))));
        if (!shown) return;
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
        if (transition.to.empty() || transition.from.empty()) return;
        add(transition, What::transition, "QP " + transition.from + " → " + transition.to).bad =
            transition.to == "ERR";
    }

    void take(const Completion& completion) {
        if (!few_ && !completion.failed()) return;
        Step& step = add(completion, What::completion, completion_label(completion));
        step.bad = completion.failed();
        step.remark = completion.reason;
    }

    const Recording& recording_;
    const ProgramIndex& index_;
    const End &end_, &peer_;
    const int side_;
    std::uint64_t requested_ = 0;  // when the REQ came
    bool alone_ = false, any_qp_ = false, few_ = true;
    std::set<std::string> objects_;
    std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> notes_of(const Recording& recording, const std::vector<ProgramIndex>& programs,
                           const std::vector<Conversation>& all, const Conversation& conversation, int side,
                           unsigned& left_out) {
    if (conversation.ends[side].process == kNone) return {};
    return Notes(recording, programs, all, conversation, side).take(left_out);
}

}  // namespace verbena::report
