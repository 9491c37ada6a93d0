// Widths are counted in columns of a monospaced font; a Chinese character takes two. Nothing is measured: the
// picture is the same wherever it is drawn.

#include "report/ladder.h"

#include <algorithm>
#include <cstdio>

#include "report/markup.h"
#include "report/page_files.h"

namespace verbena::report {
namespace {

constexpr int kLine = 15;         // from one line of text to the next, pixels
constexpr int kWideWidth = 1000;  // pixels, all three
constexpr int kNarrowWidth = 352;
constexpr int kMargin = 292;  // left and right of the lifelines, for notes; wide only
constexpr int kNarrowMargin = 8;
constexpr double kColumn = 6.65;  // of a font of 11 pixels
constexpr unsigned kMostSteps = 160;
constexpr int kHead = 6;  // an arrow's

// One UTF-8 character: its bytes, and its columns.
std::size_t next(const std::string& text, std::size_t at, int& columns) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    columns += size >= 3 && lead >= 0xe3 ? 2 : 1;  // from U+3000 on
    return std::min(at + size, text.size());
}

int columns_of(const std::string& text) {
    int columns = 0;
    for (std::size_t at = 0; at < text.size();) at = next(text, at, columns);
    return columns;
}

std::string cut(const std::string& text, int most) {
    if (columns_of(text) <= most) return text;
    int columns = 0;
    std::size_t at = 0;
    while (at < text.size()) {
        int wider = columns;
        const std::size_t end = next(text, at, wider);
        if (wider > most - 1) break;
        columns = wider;
        at = end;
    }
    return text.substr(0, at) + "…";
}

// Breaks at spaces, or within words that are longer than a line.
std::vector<std::string> wrap(const std::string& text, int most, std::size_t lines) {
    std::vector<std::string> all;
    std::string rest = text;
    while (columns_of(rest) > most && all.size() + 1 < lines) {
        int columns = 0;
        std::size_t at = 0, blank = 0;
        while (at < rest.size()) {
            const std::size_t end = next(rest, at, columns);
            if (columns > most) break;
            if (rest[at] == ' ') blank = at;
            at = end;
        }
        const std::size_t end = blank > 0 ? blank : std::max<std::size_t>(at, 1);
        all.push_back(rest.substr(0, end));
        rest.erase(0, blank > 0 ? end + 1 : end);
    }
    all.push_back(cut(rest, most));
    return all;
}

// Joins items with a dot between, as many as fit into each line.
std::vector<std::string> flow(const std::vector<std::string>& items, int most) {
    std::vector<std::string> lines;
    for (const std::string& item : items) {
        if (!lines.empty() && columns_of(lines.back()) + 3 + columns_of(item) <= most)
            lines.back() += " · " + item;
        else
            lines.push_back(cut(item, most));
    }
    return lines;
}

std::string microseconds(std::uint64_t nanoseconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", static_cast<double>(nanoseconds) / 1e6);
    return text;
}

class Drawing {
   public:
    Drawing(const Recording& recording, const Conversation& conversation, const LadderStyle& style)
        : recording_(recording),
          conversation_(conversation),
          style_(style),
          width_(style.narrow ? kNarrowWidth : kWideWidth),
          left_(style.narrow ? kNarrowMargin : kMargin),
          right_(width_ - left_) {}

    std::string run() {
        header();
        const std::size_t count = std::min<std::size_t>(conversation_.steps.size(), kMostSteps);
        // From the first packet on; what programs did before that has no time beside it.
        for (const Step& step : conversation_.steps)
            if (step.packet != kNone && (!start_ || step.time < start_)) start_ = step.time;
        for (std::size_t i = 0; i < count; i++) step(conversation_.steps[i]);
        const auto rest = conversation_.steps.size() - count + conversation_.left_out;
        if (rest) {
            y_ += kLine;
            text((left_ + right_) / 2, y_, "detail", "middle",
                 "… " + std::to_string(rest) + " " + word("left_out_steps", style_.language));
        }
        y_ += 14;
        return finish();
    }

   private:
    int inside() const { return static_cast<int>((right_ - left_ - 16) / kColumn); }
    int side_columns() const {
        return style_.narrow ? inside() - 2 : static_cast<int>((kMargin - 16) / kColumn);
    }

    void text(int x, int y, const char* kind, const char* anchor, const std::string& words) {
        body_ += "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" class=\"" + kind +
                 "\" text-anchor=\"" + anchor + "\">" + escaped(words) + "</text>\n";
    }

    // Of one side: beside its lifeline, or in a narrow picture inside it.
    void side_text(int side, int y, const char* kind, const std::string& words) {
        const bool start = (side == kLeft) == style_.narrow;
        const int x = side == kLeft ? (style_.narrow ? left_ + 10 : left_ - 12)
                                    : (style_.narrow ? right_ - 10 : right_ + 12);
        text(x, y, kind, start ? "start" : "end", words);
    }

    void header() {
        y_ = 16;
        const int columns = style_.narrow ? inside() : side_columns() + 20;
        for (int side : {kLeft, kRight}) {
            const int x = side == kLeft ? (style_.narrow ? left_ : left_ - kMargin + 12)
                                        : (style_.narrow ? right_ : right_ + kMargin - 12);
            const char* anchor = side == kLeft ? "start" : "end";
            const int y = style_.narrow && side == kRight ? y_ + 2 * kLine + 4 : y_;
            text(x, y, "end", anchor,
                 cut(title_of(recording_, conversation_, side, style_.language), columns));
            text(x, y + kLine, "address", anchor,
                 cut(address_of(conversation_, side, style_.language), columns));
        }
        y_ += style_.narrow ? 4 * kLine + 4 : 2 * kLine + 4;
        top_ = y_;
        y_ += 4;
    }

    void step(const Step& step) {
        switch (step.what) {
            case What::message:
                return message(step);
            case What::packet:
                return packet(step);
            case What::traffic:
                return traffic(step);
            default:
                return note(step);
        }
    }

    void time(const Step& step, int y) {
        const std::string shown = (step.time < start_ ? "0.000" : microseconds(step.time - start_));
        if (style_.narrow)
            text((left_ + right_) / 2, y, "time", "middle", shown + " ms");
        else
            text(6, y, "time", "start", shown);
    }

    void arrow(const Step& step, const char* kind) {
        const int from = step.side == kLeft ? left_ : right_;
        int to = step.side == kLeft ? right_ : left_;
        const int towards = to > from ? 1 : -1;
        if (step.lost) to = from + (to - from) * 3 / 4;
        char line[512];
        std::snprintf(line, sizeof line,
                      "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"arrow %s\"/>\n", from, y_,
                      to - (step.lost ? 0 : towards * kHead), y_, kind);
        body_ += line;
        if (step.lost)
            std::snprintf(line, sizeof line, "<path d=\"M%d %d l8 8 m0 -8 l-8 8\" class=\"arrow bad\"/>\n",
                          to - 4, y_ - 4);
        else
            std::snprintf(line, sizeof line, "<path d=\"M%d %d l%d -4 l0 8 z\" class=\"head %s\"/>\n", to, y_,
                          -towards * (kHead + 3), kind);
        body_ += line;
    }

    std::string label(const Step& step) const {
        std::string all = step.label;
        if (step.repeated) all += std::string(" (") + word("again", style_.language) + ")";
        if (step.lost) all += std::string(" (") + word("lost", style_.language) + ")";
        return all;
    }

    const char* colour(const Step& step, const char* usual) const {
        return step.bad || step.lost ? "bad" : step.repeated ? "again" : usual;
    }

    void begin_packet(const Step& step) {
        if (step.packet != kNone)
            body_ += "<g class=\"packet\" data-packet=\"" + std::to_string(step.packet) +
                     "\" tabindex=\"0\" role=\"button\">\n";
        body_begin_ = y_;
    }

    void end_packet(const Step& step) {
        if (step.packet == kNone) return;
        // The whole row can be hit, not only the thin line.
        char area[160];
        std::snprintf(area, sizeof area,
                      "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"hit\"/>\n</g>\n", left_,
                      body_begin_, right_ - left_, std::max(y_ - body_begin_ + 3, 12));
        body_ += area;
    }

    void lines(const std::vector<std::string>& all, const char* kind) {
        for (const std::string& line : all) {
            y_ += kLine - 1;
            text((left_ + right_) / 2, y_, kind, "middle", line);
        }
    }

    void message(const Step& step) {
        y_ += 10;
        begin_packet(step);
        y_ += kLine;
        if (style_.narrow) {
            time(step, y_);
            y_ += kLine;
        } else {
            time(step, y_ + 6);
        }
        text((left_ + right_) / 2, y_, "message", "middle", label(step));
        y_ += 6;
        arrow(step, colour(step, "cm"));
        const int at = y_;
        if (style_.narrow) {
            for (int side : {kLeft, kRight})
                if (const std::string change = state(step, side); !change.empty())
                    side_text(side, y_ += kLine, "state", cut(change, side_columns()));
            y_ += 2;
        }
        if (!style_.narrow)
            for (int side : {kLeft, kRight})
                if (const std::string change = state(step, side); !change.empty())
                    side_text(side, at + 4, "state", cut(change, side_columns() - (side == kLeft ? 9 : 0)));
        lines(flow(step.details, inside()), "detail");
        if (!step.remark.empty()) lines(wrap(step.remark, inside(), 3), "remark");
        end_packet(step);
    }

    // "idle → REQ sent"; the state alone, nothing, where it stays.
    static std::string state(const Step& step, int side) {
        if (step.before[side] == step.after[side]) return {};
        return step.before[side] + " → " + step.after[side];
    }

    void packet(const Step& step) {
        begin_packet(step);
        y_ += kLine + 2;
        if (!style_.narrow) time(step, y_ + 5);
        text((left_ + right_) / 2, y_, "opcode", "middle", label(step));
        y_ += 5;
        arrow(step, colour(step, "data"));
        lines(flow(step.details, inside()), "detail");
        if (!step.remark.empty()) lines(wrap(step.remark, inside(), 3), "remark");
        end_packet(step);
        y_ += 3;
    }

    void traffic(const Step& step) {
        y_ += kLine + 2;
        if (!style_.narrow) time(step, y_ + 5);
        std::string label = std::to_string(step.packets) + " " + word("packets", style_.language);
        if (step.bytes) label += ", " + std::to_string(step.bytes) + " " + word("bytes", style_.language);
        text((left_ + right_) / 2, y_, "opcode", "middle", label);
        y_ += 5;
        arrow(step, "data thick");
        lines(flow(step.details, inside()), "detail");
        y_ += 3;
    }

    void note(const Step& step) {
        static constexpr const char* kKinds[] = {"", "", "", "call", "event", "transition", "completion"};
        const char* kind = kKinds[static_cast<int>(step.what)];
        std::string label = step.label;
        for (const std::string& detail : step.details)
            label += (&detail == &step.details[0] ? " " : ", ") + detail;
        const int x = step.side == kLeft ? left_ : right_;
        char mark[128];
        y_ += kLine + 1;
        std::snprintf(mark, sizeof mark, "<circle cx=\"%d\" cy=\"%d\" r=\"%s\" class=\"mark %s%s\"/>\n", x,
                      y_ - 4, step.what == What::transition ? "4.5" : "3", kind, step.bad ? " bad" : "");
        body_ += mark;
        const std::string classes = std::string(kind) + (step.bad ? " bad" : "");
        side_text(step.side, y_, classes.c_str(), cut(label, side_columns()));
        for (const std::string& line : wrap(step.remark, side_columns(), 6))
            if (!line.empty()) side_text(step.side, y_ += kLine - 1, "remark", line);
    }

    std::string finish() {
        char begin[512];
        std::snprintf(begin, sizeof begin,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" class=\"ladder %s\" "
                      "role=\"img\" aria-label=\"REQ, REP, RTU\"%s>\n",
                      width_, y_, style_.narrow ? "narrow" : "wide",
                      style_.standalone ? (" width=\"" + std::to_string(width_) + "\"").c_str() : "");
        char lifelines[256];
        std::snprintf(lifelines, sizeof lifelines, "<path d=\"M%d %d V%d M%d %d V%d\" class=\"life\"/>\n",
                      left_, top_, y_, right_, top_, y_);
        std::string all = begin;
        if (style_.standalone) {
            all += std::string("<style>\n") + kLadderCss + "</style>\n";
            all += "<rect width=\"" + std::to_string(width_) + "\" height=\"" + std::to_string(y_) +
                   "\" class=\"paper\"/>\n";
        }
        return all + lifelines + body_ + "</svg>\n";
    }

    const Recording& recording_;
    const Conversation& conversation_;
    const LadderStyle style_;
    const int width_, left_, right_;
    int y_ = 0, top_ = 0, body_begin_ = 0;
    std::uint64_t start_ = 0;
    std::string body_;
};

}  // namespace

std::string draw_ladder(const Recording& recording, const Conversation& conversation,
                        const LadderStyle& style) {
    return Drawing(recording, conversation, style).run();
}

std::string title_of(const Recording& recording, const Conversation& conversation, int side,
                     Language language) {
    const bool cm = conversation.kind == Kind::connection || conversation.kind == Kind::service;
    const char* keys[] = {cm                                     ? "client"
                          : conversation.kind == Kind::multicast ? "sender"
                                                                 : "one_end",
                          cm                                     ? "server"
                          : conversation.kind == Kind::multicast ? "group"
                                                                 : "other_end"};
    std::string title = word(keys[side], language);
    if (const std::size_t process = conversation.ends[side].process; process != kNone) {
        const Process& found = recording.processes[process];
        title += " " + found.name();
        if (!found.host.empty()) title += ", " + found.host;
    }
    return title;
}

std::string address_of(const Conversation& conversation, int side, Language language) {
    const End& end = conversation.ends[side];
    std::string text = to_string(end.address);
    if (end.port) text += " " + std::string(word("port", language)) + " " + std::to_string(end.port);
    if (end.qpn) {
        char qp[24];
        std::snprintf(qp, sizeof qp, ", QP 0x%06x", end.qpn);
        text += qp;
    }
    return text;
}

}  // namespace verbena::report
