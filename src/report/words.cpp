#include "report/words.h"

#include <cstring>

namespace verbena::report {
namespace {

struct Word {
    const char* key;
    const char* text[2];
};

constexpr Word kWords[] = {
    {"title", {"RDMA report", "RDMA 运行报告"}},
    {"programs", {"Programs", "程序"}},
    {"host", {"host", "主机"}},
    {"duration", {"duration", "时长"}},
    {"packets", {"packets", "报文"}},
    {"calls", {"calls", "调用"}},
    {"completions", {"completions", "完成项"}},
    {"errors", {"errors", "错误"}},
    {"errors_title", {"What went wrong", "出了什么问题"}},
    {"no_errors",
     {"Nothing failed: every call, completion and event reports success.",
      "没有失败：所有调用、完成项和事件都报告成功。"}},
    {"expected", {"(normal at the end of a connection)", "（连接结束时属正常现象）"}},
    {"times", {"times", "次"}},
    {"ladders", {"Conversations", "会话"}},
    {"conversation", {"Conversation", "会话"}},
    {"connection", {"connection", "连接"}},
    {"service", {"datagram service (SIDR)", "数据报服务（SIDR）"}},
    {"multicast", {"multicast", "组播"}},
    {"queue_pairs", {"queue pairs connected by the program", "由程序自行连接的队列对"}},
    {"client", {"client", "客户端"}},
    {"server", {"server", "服务端"}},
    {"sender", {"sender", "发送方"}},
    {"group", {"group", "组播组"}},
    {"one_end", {"one end", "一端"}},
    {"other_end", {"other end", "另一端"}},
    {"port", {"port", "端口"}},
    {"lost", {"lost", "丢失"}},
    {"again", {"again", "重发"}},
    {"bytes", {"bytes", "字节"}},
    {"qp_states", {"Queue pairs' states", "队列对状态"}},
    {"no_qps",
     {"No queue pair's states were recorded (a capture has packets only).",
      "没有记录队列对状态（抓包文件里只有报文）。"}},
    {"over_time", {"Over time", "随时间变化"}},
    {"throughput", {"throughput", "吞吐量"}},
    {"messages", {"messages", "消息"}},
    {"calls_title", {"Calls", "调用"}},
    {"no_calls",
     {"No calls were recorded (a capture has packets only).", "没有记录调用（抓包文件里只有报文）。"}},
    {"packets_title", {"Packets", "报文"}},
    {"no_packets", {"No packets were recorded.", "没有记录报文。"}},
    {"only_failed", {"only what failed", "只看失败的"}},
    {"inner", {"calls inside calls", "嵌套调用"}},
    {"all_programs", {"all programs", "所有程序"}},
    {"all_qps", {"all queue pairs", "所有队列对"}},
    {"all_opcodes", {"all opcodes", "所有操作码"}},
    {"search", {"search", "搜索"}},
    {"more", {"show more", "显示更多"}},
    {"time", {"time (ms)", "时间 (ms)"}},
    {"took", {"took (µs)", "耗时 (µs)"}},
    {"program", {"program", "程序"}},
    {"call", {"call", "调用"}},
    {"result", {"result", "结果"}},
    {"from", {"from", "源"}},
    {"to", {"to", "目的"}},
    {"packet", {"packet", "报文"}},
    {"close", {"close", "关闭"}},
    {"unfinished", {"did not return", "未返回"}},
    {"empty_polls", {"empty polls before", "此前空轮询"}},
    {"left_out", {"left out", "省略"}},
    {"left_out_packets",
     {"packets of data are not in this table; the plots count them", "个数据报文不在表中，但计入曲线"}},
    {"left_out_calls", {"calls that succeeded are not in this table", "个成功的调用不在表中"}},
    {"left_out_conversations", {"more conversations are not drawn", "个会话未绘出"}},
    {"left_out_steps", {"more lines are not drawn", "行未绘出"}},
    {"left_out_troubles", {"more kinds of errors are not shown", "类错误未列出"}},
    {"left_out_qps", {"more queue pairs are not drawn", "个队列对未绘出"}},
    {"remarks", {"Remarks", "说明"}},
    {"malformed", {"malformed", "格式错误"}},
    {"made_by", {"made by verbena report", "由 verbena report 生成"}},
    {"click",
     {"A click on an arrow or a row shows every field of the packet.",
      "点击箭头或表格行可查看报文的所有字段。"}},
    {"ended_with",
     {"A call that did not return: the program hung or ended in it.",
      "有调用没有返回：程序挂起或在其中结束。"}},
    {"rej_packet", {"The connection was refused (REJ)", "连接被拒绝（REJ）"}},
    {"nak_packet", {"A NAK on the wire", "网络上出现 NAK"}},
    {"sidr_packet", {"The datagram service was refused (SIDR REP)", "数据报服务被拒绝（SIDR REP）"}},
    {"lost_packets", {"Packets that did not arrive", "未到达的报文"}},
    {"lost_text",
     {"They left, and the other side did not see them, or a plan of faults dropped them.",
      "报文已发出，但对端没有收到，或被故障计划丢弃。"}},
    {"repeated_packets", {"Packets and messages that were sent again", "重发的报文和消息"}},
    {"repeated_text",
     {"Something before them was lost, came late or was refused. RC repeats by itself; many repetitions cost "
      "throughput.",
      "之前的报文丢失、迟到或被拒绝。RC 会自动重发，但重发过多会降低吞吐量。"}},
    {"faulted_packets", {"Packets that a plan of faults touched", "故障计划影响的报文"}},
};

}  // namespace

const char* word(const char* key, Language language) {
    for (const Word& each : kWords)
        if (std::strcmp(each.key, key) == 0) return each.text[language];
    return key;
}

std::vector<std::pair<std::string, std::string>> words(Language language) {
    std::vector<std::pair<std::string, std::string>> all;
    for (const Word& each : kWords) all.emplace_back(each.key, each.text[language]);
    return all;
}

}  // namespace verbena::report
