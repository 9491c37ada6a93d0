#include "report/trouble.h"

#include <algorithm>
#include <map>
#include <set>

#include "wire/cm_messages.h"

namespace verbena::report {
namespace {

using meanings::Meaning;

class Collector {
   public:
    Collector(const Recording& recording, const std::vector<ViewedPacket>& views, Language language)
        : recording_(recording), views_(views), language_(language) {}

    std::vector<Trouble> run() {
        for (const Completion& completion : recording_.completions) {
            if (completion.failed() && !flushed(completion))
                broken_.insert({completion.process, completion.qp});
        }
        for (const Call& call : recording_.calls)
            if (call.name == "rdma_disconnect" || call.name == "ibv_modify_qp")
                torn_down_.insert(call.process);
        for (const CmEvent& event : recording_.cm_events)
            if (event.event == "RDMA_CM_EVENT_DISCONNECTED") torn_down_.insert(event.process);
        for (const Call& call : recording_.calls) take(call);
        for (const Completion& completion : recording_.completions) take(completion);
        for (const CmEvent& event : recording_.cm_events) take(event);
        for (const AsyncEvent& event : recording_.async_events) take(event);
        for (std::size_t i = 0; i < views_.size(); i++) take_packet(i);
        std::vector<Trouble> all;
        for (auto& [key, trouble] : found_) all.push_back(std::move(trouble));
        std::stable_sort(all.begin(), all.end(),
                         [](const auto& a, const auto& b) { return a.time < b.time; });
        return all;
    }

   private:
    // The entry for `title` at this program, new or counted once more; nullptr in the latter case.
    Trouble* add(const std::string& who, const std::string& title, std::uint64_t time) {
        auto [at, added] = found_.try_emplace(who + '\n' + title);
        Trouble& trouble = at->second;
        if (!added) {
            trouble.count++;
            return nullptr;
        }
        trouble.who = who;
        trouble.title = title;
        trouble.time = time;
        return &trouble;
    }

    static bool flushed(const Completion& completion) {
        const Meaning* status = meanings::find_name(completion.status);
        return status && status->name == "IBV_WC_WR_FLUSH_ERR";
    }

    std::string who(const Entry& entry) const { return recording_.processes[entry.process].name(); }

    void explain(Trouble& trouble, const Meaning* meaning) const {
        if (!meaning) return;
        std::string heading = meanings::heading(*meaning, language_);
        if (!meaning->name.empty()) heading = meaning->name + " (" + heading + ")";
        // The Chinese text of a vendor_err begins with what the English sentence says.
        std::string said = meanings::sentence_of(*meaning);
        if (language_ == Language::chinese && meaning->kind == "vendor_err") said.clear();
        trouble.explanations.emplace_back(heading + (said.empty() ? "" : ": " + said),
                                          meaning->text[language_]);
    }

    void explain(Trouble& trouble, const std::vector<const Meaning*>& all) const {
        for (const Meaning* meaning : all) explain(trouble, meaning);
    }

    void take(const Call& call) {
        if (!call.finished) {
            if (!call.hung) return;
            if (Trouble* trouble = add(who(call), call.name + "()", call.time))
                trouble->explanations.emplace_back("", word("ended_with", language_));
            return;
        }
        if (!call.failed()) return;
        if (Trouble* trouble = add(who(call), call.name + "(): " + call.error, call.time)) {
            trouble->reason = call.reason;
            explain(*trouble, meanings::of_call(call.name, meanings::errno_of(call.error)));
        }
    }

    void take(const Completion& completion) {
        if (!completion.failed()) return;
        const Meaning* status = meanings::find_name(completion.status);
        const std::string name = status ? status->name : completion.status;
        Trouble* trouble = add(who(completion), name, completion.time);
        if (!trouble) return;
        trouble->reason = completion.reason;
        // Receives that nobody needed any more come back so at the end of every connection.
        trouble->expected = flushed(completion) && torn_down_.contains(completion.process) &&
                            !broken_.contains({completion.process, completion.qp});
        explain(*trouble, status);
        if (completion.vendor_err)
            explain(*trouble, meanings::find("vendor_err", static_cast<int>(completion.vendor_err)));
    }

    void take(const CmEvent& event) {
        static constexpr const char* kFailures[] = {
            "RDMA_CM_EVENT_ADDR_ERROR",     "RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_ERROR",
            "RDMA_CM_EVENT_UNREACHABLE",    "RDMA_CM_EVENT_REJECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
            "RDMA_CM_EVENT_MULTICAST_ERROR"};
        const bool failure = std::any_of(std::begin(kFailures), std::end(kFailures),
                                         [&](const char* name) { return event.event == name; });
        if (!failure && event.reason.empty()) return;
        std::string title = event.event;
        if (event.status) title += ", status " + std::to_string(event.status);
        Trouble* trouble = add(who(event), title, event.time);
        if (!trouble) return;
        trouble->reason = event.reason;
        if (const Meaning* meaning = meanings::find_name(event.event))
            explain(*trouble, meanings::of_event(*meaning, event.status));
    }

    void take(const AsyncEvent& event) {
        static constexpr const char* kHarmless[] = {
            "IBV_EVENT_COMM_EST",    "IBV_EVENT_SQ_DRAINED", "IBV_EVENT_QP_LAST_WQE_REACHED",
            "IBV_EVENT_PORT_ACTIVE", "IBV_EVENT_GID_CHANGE", "IBV_EVENT_DEVICE_SPEED_CHANGE"};
        if (std::any_of(std::begin(kHarmless), std::end(kHarmless),
                        [&](const char* name) { return event.event == name; }))
            return;
        if (Trouble* trouble = add(who(event), event.event, event.time)) {
            trouble->reason = event.reason;
            explain(*trouble, meanings::find_name(event.event));
        }
    }

    void take_packet(std::size_t index) {
        const ViewedPacket& view = views_[index];
        const link::CapturedPacket& captured = recording_.packets[index].captured;
        auto about = [&](const char* key, const char* text) {
            Trouble* trouble = add("", word(key, language_), captured.nanoseconds);
            if (!trouble) return static_cast<Trouble*>(nullptr);
            trouble->packet = index;
            if (text) trouble->explanations.emplace_back("", word(text, language_));
            return trouble;
        };
        if (recording_.packets[index].lost) about("lost_packets", "lost_text");
        if (view.repeated) about("repeated_packets", "repeated_text");
        if (!captured.comment.empty())
            if (Trouble* trouble = about("faulted_packets", nullptr)) trouble->reason = captured.comment;
        if (!view.valid) return;
        if (view.refusal) take_nak(index);
        if (view.cm) take_refusal(index);
    }

    void take_nak(std::size_t index) {
        const std::uint8_t syndrome = views_[index].parsed.headers.aeth.syndrome;
        const bool rnr = wire::classify(syndrome) == wire::AethKind::rnr_nak;
        const Meaning* meaning =
            rnr ? meanings::find("syndrome", 1) : meanings::find("nak", wire::syndrome_value(syndrome));
        const std::string title =
            std::string(word("nak_packet", language_)) + (meaning ? ": " + meaning->name : "");
        if (Trouble* trouble = add("", title, recording_.packets[index].captured.nanoseconds)) {
            trouble->packet = index;
            explain(*trouble, meaning);
        }
    }

    void take_refusal(std::size_t index) {
        const auto mad = views_[index].parsed.payload.first<wire::kMadLength>();
        wire::MadHeader header;
        wire::decode(wire::mad_header(mad), header);
        const Meaning* meaning = nullptr;
        const char* key = nullptr;
        if (header.attribute_id == wire::CmAttribute::rej) {
            wire::Rej rej;
            wire::decode(wire::cm_message(mad), rej);
            meaning = meanings::find("reject", static_cast<int>(rej.reason));
            key = "rej_packet";
        } else if (header.attribute_id == wire::CmAttribute::sidr_rep) {
            wire::SidrRep rep;
            wire::decode(wire::cm_message(mad), rep);
            if (rep.status == wire::SidrStatus::success) return;
            meaning = meanings::find("sidr", static_cast<int>(rep.status));
            key = "sidr_packet";
        }
        if (!key) return;
        const std::string title =
            std::string(word(key, language_)) + (meaning ? ": " + std::to_string(meaning->number) : "");
        if (Trouble* trouble = add("", title, recording_.packets[index].captured.nanoseconds)) {
            trouble->packet = index;
            explain(*trouble, meaning);
        }
    }

    const Recording& recording_;
    const std::vector<ViewedPacket>& views_;
    const Language language_;
    std::map<std::string, Trouble> found_;
    std::set<std::pair<std::size_t, std::uint32_t>> broken_;  // queue pairs with another failure than flushes
    std::set<std::size_t> torn_down_;                         // processes that ended a connection
};

}  // namespace

std::vector<Trouble> find_troubles(const Recording& recording, const std::vector<ViewedPacket>& views,
                                   Language language) {
    return Collector(recording, views, language).run();
}

}  // namespace verbena::report
