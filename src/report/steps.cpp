// From packets and notes to the lines of the ladder. Packets of data are shown one by one in a short run; in
// a long one they are summed up between messages, and only those stand alone that tell something: NAKs,
// losses, repetitions, faults.

#include <algorithm>
#include <map>
#include <span>

#include "report/conversation.h"
#include "wire/cm_messages.h"

namespace verbena::report {
namespace {

constexpr unsigned kFewPackets = 24;   // shown one by one
constexpr unsigned kFewBetween = 3;    // of a long run, between two other lines
constexpr unsigned kTellingMost = 40;  // of a long run

using Fields = std::vector<wire::Field>;

struct Detail {
    const char* name;
    const char* label;
};

// What the ladder shows of a message; the rest is in the table of packets.
constexpr Detail kDetails[] = {
    {"Service ID", ""},
    {"Request ID", "request id"},
    {"Message MRAed", "of"},
    {"Message REJected", "of"},
    {"Reason", "reason"},
    {"Status", "status"},
    {"Local communication ID", "local comm id"},
    {"Remote communication ID", "remote comm id"},
    {"Local QPN", "QPN"},
    {"QPN", "QPN"},
    {"Remote QPN", "remote QPN"},
    {"Starting PSN", "starting PSN"},
    {"Path packet payload MTU", "MTU"},
    {"Local Q_Key", "Q_Key"},
    {"Q_Key", "Q_Key"},
    {"Local CA GUID", "CA GUID"},
    {"Service timeout", "service timeout"},
};

std::string label_of_opcode(const wire::Packet& packet) { return wire::info(packet.headers.bth.opcode).name; }

// 7/1024 reads better than "3 (1024 bytes)", "(RDMA_PS_TCP, port 7471)" than the number in front.
std::string shortened(const std::string& name, const std::string& value) {
    const std::size_t open = value.find('('), close = value.rfind(')');
    if ((name == "Service ID" || name == "Path packet payload MTU") && open != std::string::npos &&
        close != std::string::npos)
        return value.substr(open + 1, close - open - 1);
    return value;
}

constexpr std::size_t kPrivateDataShown = 32;  // characters

std::vector<std::string> details_of_message(const link::CapturedPacket& captured, const wire::Packet& packet,
                                            wire::CmAttribute attribute) {
    const Fields fields = wire::fields(packet);
    const char* header = wire::to_string(attribute);
    std::vector<std::string> details;
    char text[32];
    std::snprintf(text, sizeof text, "attribute 0x%04x", static_cast<unsigned>(attribute));
    details.emplace_back(text);
    for (const Detail& detail : kDetails) {
        const std::string& value = wire::value_of(fields, header, detail.name);
        if (value.empty()) continue;
        const std::string shown = shortened(detail.name, value);
        details.push_back(*detail.label ? detail.label + (" " + shown) : shown);
    }
    details.push_back("UDP source port " + std::to_string(captured.path.udp_source_port));
    const std::string& data = wire::value_of(fields, header, "Private data as text");
    const std::string& bytes = wire::value_of(fields, header, "Private data");
    if (!data.empty()) {
        const bool readable = std::count(data.begin(), data.end(), '.') * 2 < static_cast<long>(data.size());
        std::string shown =
            readable ? "\"" + data.substr(0, kPrivateDataShown) + "\"" : bytes.substr(0, kPrivateDataShown);
        if ((readable ? data : bytes).size() > kPrivateDataShown) shown += "...";
        details.push_back("private data " + shown);
    }
    return details;
}

std::vector<std::string> details_of_packet(const wire::Packet& packet) {
    const Fields fields = wire::fields(packet);
    std::vector<std::string> details;
    auto add = [&](const char* header, const char* name, const char* label) {
        if (const std::string& value = wire::value_of(fields, header, name); !value.empty())
            details.push_back(label + (" " + value));
    };
    add("BTH", "PSN", "PSN");
    add("BTH", "Destination QP", "to QP");
    add("DETH", "Source QP", "from QP");
    add("DETH", "Queue key (Q_Key)", "Q_Key");
    add("XRCETH", "XRC SRQ", "SRQ");
    add("RETH", "Virtual address", "VA");
    add("RETH", "Remote key (R_Key)", "R_Key");
    add("RETH", "DMA length", "length");
    add("AtomicETH", "Virtual address", "VA");
    add("AtomicETH", "Remote key (R_Key)", "R_Key");
    add("AtomicETH", "Swap (or add) data", "swap or add");
    if (wire::info(packet.headers.bth.opcode).operation == wire::Operation::compare_swap)
        add("AtomicETH", "Compare data", "compare");
    add("AETH", "Syndrome", "syndrome");
    add("AtomicAckETH", "Original remote data", "was");
    add("ImmDt", "Immediate data", "immediate");
    add("IETH", "R_Key to invalidate", "invalidates R_Key");
    if (wire::info(packet.headers.bth.opcode).may_have_payload) add("payload", "Length", "payload");
    return details;
}

class Builder {
   public:
    Builder(const Recording& recording, const std::vector<ViewedPacket>& views,
            const std::vector<ProgramIndex>& programs, const std::vector<Conversation>& all,
            Conversation& conversation)
        : recording_(recording),
          views_(views),
          programs_(programs),
          all_(all),
          conversation_(conversation),
          states_(conversation.kind) {}

    void run() {
        std::vector<Step> steps;
        for (const std::size_t index : conversation_.packets) steps.push_back(step_of(index));
        for (int side : {kLeft, kRight}) {
            auto notes = notes_of(recording_, programs_, all_, conversation_, side, conversation_.left_out);
            std::move(notes.begin(), notes.end(), std::back_inserter(steps));
        }
        std::stable_sort(steps.begin(), steps.end(),
                         [](const Step& a, const Step& b) { return a.time < b.time; });
        const bool few = conversation_.data_packets <= kFewPackets;
        for (Step& step : steps) take(std::move(step), few);
        flush();
    }

   private:
    Step step_of(std::size_t index) {
        const ViewedPacket& view = views_[index];
        const RecordedPacket& packet = recording_.packets[index];
        Step step;
        step.time = packet.captured.nanoseconds;
        step.side = view.side;
        step.packet = index;
        step.lost = packet.lost;
        step.repeated = view.repeated;
        step.remark = packet.captured.comment;
        step.packets = 1;
        if (!view.cm) {
            step.what = What::packet;
            step.label = label_of_opcode(view.parsed);
            step.bad = view.refusal;
            step.bytes = view.parsed.payload.size();
            return step;
        }
        wire::MadHeader header;
        wire::decode(wire::mad_header(view.parsed.payload.first<wire::kMadLength>()), header);
        step.what = What::message;
        step.label = wire::to_string(header.attribute_id);
        step.details = details_of_message(packet.captured, view.parsed, header.attribute_id);
        step.bad = header.attribute_id == wire::CmAttribute::rej;
        states_.take(header.attribute_id, view.side, packet.lost, step);
        return step;
    }

    void take(Step step, bool few) {
        if (step.what == What::packet) {
            const bool telling = step.bad || step.lost || step.repeated || !step.remark.empty();
            if (!few && (!telling || ++told_ > kTellingMost)) return pending_.push_back(std::move(step));
            step.details = details_of_packet(views_[step.packet].parsed);
        }
        flush();
        if (step.what == What::transition && goes_on(step)) return;
        conversation_.steps.push_back(std::move(step));
    }

    // States that follow each other at once stand in one line.
    bool goes_on(const Step& step) {
        if (conversation_.steps.empty()) return false;
        Step& last = conversation_.steps.back();
        constexpr std::string_view kArrow = " → ";
        const std::size_t arrow = step.label.find(kArrow), last_arrow = last.label.rfind(kArrow);
        if (last.what != What::transition || last.side != step.side || last_arrow == std::string::npos ||
            "QP " + last.label.substr(last_arrow + kArrow.size()) != step.label.substr(0, arrow))
            return false;
        last.label += step.label.substr(arrow);
        last.bad |= step.bad;
        return true;
    }

    // What stands between two lines that tell something: in full if it is little.
    void flush() {
        std::vector<Step> pending = std::move(pending_);
        pending_.clear();
        if (pending.size() <= kFewBetween) {
            for (Step& step : pending) {
                step.details = details_of_packet(views_[step.packet].parsed);
                conversation_.steps.push_back(std::move(step));
            }
            return;
        }
        for (int side : {kLeft, kRight}) {
            Step sum;
            std::map<std::string, unsigned> kinds;
            for (const Step& step : pending) {
                if (step.side != side) continue;
                if (!sum.packets) sum.time = step.time;
                sum.packets++;
                sum.bytes += step.bytes;
                kinds[step.label]++;
            }
            if (!sum.packets) continue;
            sum.what = What::traffic;
            sum.side = side;
            for (const auto& [kind, count] : kinds) sum.details.push_back(std::to_string(count) + " " + kind);
            conversation_.steps.push_back(std::move(sum));
        }
    }

    const Recording& recording_;
    const std::vector<ViewedPacket>& views_;
    const std::vector<ProgramIndex>& programs_;
    const std::vector<Conversation>& all_;
    Conversation& conversation_;
    CmStates states_;
    unsigned told_ = 0;
    std::vector<Step> pending_;  // packets of a long run, in order of time
};

}  // namespace

void find_steps(const Recording& recording, const std::vector<ViewedPacket>& views,
                std::vector<Conversation>& conversations, std::size_t first, std::size_t count) {
    if (first >= conversations.size()) return;
    const auto programs = index_programs(recording);
    for (Conversation& conversation :
         std::span(conversations).subspan(first).first(std::min(count, conversations.size() - first)))
        Builder(recording, views, programs, conversations, conversation).run();
}

}  // namespace verbena::report
