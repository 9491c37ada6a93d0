#!/usr/bin/env python3
"""report_test.py BUILD: what `verbena report` makes of recordings and captures: the data in its page, the ladder with both
ends' states, losses, errors explained in two languages, and that input of strangers is checked and never becomes markup."""

import base64
import html.parser
import json
import os
import re
import struct
import subprocess
import time
import unittest
import xml.etree.ElementTree as ElementTree

from recordings import MAD, NANOSECONDS, NASTY, SECONDS, Recordings, cm_attribute, line, packet_line
from tool import BUILD, ENVIRONMENT, VERBENA, run

HANDSHAKE = ["REQ", "REP", "RTU", "DREQ", "DREP"]


class Page(html.parser.HTMLParser):
    """The elements of a page, its data, and what it loads from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.pictures, self.inside = [], [], 0, None
        self.data = ""
        self.feed(text)
        self.data = json.loads(self.data)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attributes = dict(attrs)
        self.loads += [value for name, value in attrs if name in ("src", "href") and value[:1] != "#" and value != "data:,"]
        self.pictures += tag == "svg"
        self.inside = attributes.get("id") if tag == "script" else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "data":
            self.data += data


class Report(Recordings):
    def report(self, *files, options=(), status=0):
        result = run(VERBENA, "report", *options, "-o", "-", *files)
        self.assertEqual(status, result.returncode, result.stderr)
        return result.stdout if status == 0 else result.stderr

    def page(self, *files, options=("--lang", "en")):
        text = self.report(*files, options=options)
        page = Page(text)
        self.assertEqual([], page.loads)
        self.assertEqual(2, page.tags.count("script"))
        self.assertNotIn("http://", re.sub(r'xmlns="http://www.w3.org/2000/svg"|const SVG = "[^"]*"', "", text))
        return page

    def ladder(self, page, what="message"):
        self.assertEqual(1, len(page.data["conversations"]))
        return [step for step in page.data["conversations"][0]["steps"] if step["what"] == what]

    def test_a_capture(self):
        page = self.page(self.capture_rping())
        steps = self.ladder(page)
        self.assertEqual(HANDSHAKE, [step["label"] for step in steps])
        self.assertEqual([["idle", "REQ sent"], ["listening", "REQ received"]],
                         [list(states) for states in zip(steps[0]["before"], steps[0]["after"])])
        self.assertEqual(["REP received", "REP sent"], steps[1]["after"])
        self.assertEqual(["established", "established"], steps[2]["after"])
        self.assertEqual(["timewait", "timewait"], steps[4]["after"])
        self.assertEqual([0, 1, 0, steps[3]["side"], 1 - steps[3]["side"]], [step["side"] for step in steps])
        request = " ".join(steps[0]["details"])
        for part in ("attribute 0x0010", "RDMA_PS_TCP, port 7397", "local comm id 0x", "QPN 0x", "starting PSN ",
                     "Q_Key 0x", "CA GUID 0x", "UDP source port "):
            self.assertIn(part, request)
        self.assertGreater(len(self.ladder(page, "packet")), 10)
        self.assertEqual(2, page.pictures)  # wide and narrow
        self.assertEqual([], page.data["troubles"])
        self.assertEqual(page.data["counts"]["packets"], len(page.data["packets"]))
        self.assertEqual(len(page.data["packets"]) - 5, sum(page.data["series"]["packets"]))

    def classic(self, name, frames, order, magic, link_type, header):
        """A pcap file as tcpdump writes it."""
        second = 1_000_000_000 if magic == 0xA1B23C4D else 1_000_000
        packets = [struct.pack(order + "IIII", NANOSECONDS // 1_000_000_000, i * second // 1000, len(header + frame),
                               len(header + frame)) + header + frame for i, frame in enumerate(frames)]
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link_type) + b"".join(packets))
        return path

    def pcapng(self, name, frames, link_type, header, comment=b""):
        blocks = [struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28),
                  struct.pack("<IIHHII", 1, 20, link_type, 0, 0, 20)]
        for i, frame in enumerate(frames):
            ticks, data = NANOSECONDS // 1000 + i * 1000, header + frame
            said = struct.pack("<HH", 1, len(comment)) + comment + bytes(-len(comment) % 4) if comment else b""
            padded = data + bytes(-len(data) % 4) + said + struct.pack("<HHII", 2, 4, 2, 0)  # outbound
            length = 32 + len(padded)
            blocks.append(struct.pack("<IIIIIII", 6, length, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data)) + padded +
                          struct.pack("<I", length))
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(b"".join(blocks))
        return path

    def test_captures_of_tcpdump(self):
        frames = self.rping()
        ethernet, cooked, cooked2 = bytes(12) + b"\x08\x00", bytes(14) + b"\x08\x00", b"\x08\x00" + bytes(18)
        files = [self.classic("a.pcap", frames, "<", 0xA1B2C3D4, 1, ethernet),
                 self.classic("b.pcap", frames, ">", 0xA1B2C3D4, 113, cooked),
                 self.classic("c.pcap", frames, "<", 0xA1B23C4D, 276, cooked2),
                 self.classic("d.pcap", frames, ">", 0xA1B23C4D, 101, b""),
                 self.pcapng("e.pcapng", frames, 1, ethernet), self.pcapng("f.pcapng", frames, 113, cooked),
                 self.pcapng("g.pcapng", frames, 276, cooked2)]
        for file in files:
            with self.subTest(file=os.path.basename(file)):
                page = self.page(file)
                self.assertEqual([], page.data["remarks"])
                self.assertEqual(len(frames), len(page.data["packets"]))
                times = [step["t"] for step in self.ladder(page)]
                indices = [i for i, frame in enumerate(frames) if cm_attribute(frame)]
                self.assertEqual([i - indices[0] for i in indices],
                                 [round(t - times[0]) for t in times], times)
                self.assertEqual(HANDSHAKE, [step["label"] for step in self.ladder(page)])
                self.assertEqual(0, run(VERBENA, "handshake", file).returncode)

    def test_comments_that_are_no_text(self):
        file = self.pcapng("a.pcapng", self.rping(), 101, b"", b"half \xe4\xb8 and \xff\xef\xbf\xbf")
        page = self.page(file)
        self.assertIn("half \ufffd and \ufffd", page.data["packets"][0]["c"])
        ElementTree.fromstring(self.report(file, options=("--svg",)))

    def test_link_types_that_are_not_read(self):
        sentence = "3 packets of link type 105: not read, since only Ethernet, Linux cooked and raw IP are"
        for file in (self.classic("a.pcap", self.rping()[:3], "<", 0xA1B2C3D4, 105, b""), self.pcapng("b.pcapng", self.rping()[:3], 105, b"")):
            self.assertEqual([f"{file}: {sentence}"], self.page(file).data["remarks"])
            self.assertIn(sentence, run(VERBENA, "handshake", file).stderr)

    def record(self, name, *command):
        """A program under `verbena record`, and its file."""
        file = os.path.join(self.folder, name + ".vrec")
        return file, subprocess.Popen([VERBENA, "record", "-o", file, "--", *command], env=ENVIRONMENT,
                                      stdout=subprocess.PIPE, text=True)

    def test_two_recordings(self):
        """Both programs of an example, recorded: calls, states and events stand beside the messages that they belong to."""
        examples = os.path.join(BUILD, "examples")
        server_file, server = self.record("server", os.path.join(examples, "hello_server"))
        self.addCleanup(server.kill)
        self.addCleanup(server.stdout.close)
        port = server.stdout.readline().split()[-1]
        client_file, client = self.record("client", os.path.join(examples, "hello_client"), "127.0.0.1", port)
        client.communicate(timeout=SECONDS)
        server.wait(SECONDS)
        page = self.page(client_file, server_file)
        self.assertEqual(HANDSHAKE, [step["label"] for step in self.ladder(page)])
        steps = page.data["conversations"][0]["steps"]
        self.assertIn("hello_client", page.data["programs"][0]["command"])

        def place(what, side, label):
            found = [i for i, step in enumerate(steps) if (step["what"], step["side"]) == (what, side) and label in step["label"]]
            self.assertTrue(found, f"no {what} {label} at side {side}")
            return found[0]

        order = [place("call", 0, "rdma_resolve_addr"), place("call", 0, "rdma_connect"), place("message", 0, "REQ"),
                 place("event", 1, "CONNECT_REQUEST"), place("call", 1, "rdma_accept"), place("transition", 1, "RTR"),
                 place("message", 1, "REP"), place("transition", 0, "RTR"),
                 place("event", 0, "ESTABLISHED"), place("packet", 0, "rc_send_only"), place("completion", 1, "IBV_WC_RECV")]
        self.assertEqual(sorted(order), order)
        # The confirmation was told to the daemon before the program saw ESTABLISHED, and leaves meanwhile.
        self.assertLess(place("transition", 0, "RTR"), place("message", 0, "RTU"))
        lanes = [[state for _, state in lane["states"]] for lane in page.data["qps"]]
        for lane in lanes:
            self.assertEqual(["RESET", "INIT"], lane[:2])
            self.assertEqual(["ERR", ""], lane[-2:])
        self.assertEqual(2, len(lanes))
        self.assertEqual([], [trouble["title"] for trouble in page.data["troubles"] if not trouble.get("expected")])

    def test_programs_that_connect_by_themselves(self):
        """ibv_rc_pingpong tells its QPN over TCP: no message of the connection manager, yet one conversation."""
        words = ["ibv_rc_pingpong", "-d", "verbena_lo", "-g", "0", "-n", "3", "-p", "18642"]
        server_file, server = self.record("server", *words)
        self.addCleanup(server.kill)
        self.addCleanup(server.stdout.close)
        for _ in range(100):
            client_file, client = self.record("client", *words, "127.0.0.1")
            client.communicate(timeout=SECONDS)
            if client.returncode == 0:
                break
            time.sleep(0.1)  # it does not listen yet
        server.communicate(timeout=SECONDS)
        page = self.page(client_file, server_file)
        conversation, = page.data["conversations"]
        self.assertEqual("queue_pairs", conversation["kind"])
        self.assertEqual({0, 1}, {step["side"] for step in conversation["steps"] if step["what"] == "transition"})
        self.assertEqual([], self.ladder(page))

    def test_fields_of_a_packet(self):
        page = self.page(self.write_lines("a.vrec", *[packet_line(frame, i * 1000) for i, frame in enumerate(self.rping())]))
        request = page.data["packets"][self.ladder(page)[0]["packet"]]
        fields = {tuple(page.data["field_names"][name]): value
                  for name, value in zip(request["f"][::2], request["f"][1::2])}
        self.assertEqual("127.0.0.1", fields["IPv4", "Source"])
        self.assertEqual("4791", fields["UDP", "Destination port"])
        self.assertEqual("0x64 ud_send_only", fields["BTH", "OpCode"])
        self.assertEqual("0x80010000", fields["DETH", "Queue key (Q_Key)"])
        self.assertEqual("0x0010 REQ", fields["MAD", "Attribute ID"])
        self.assertIn("port 7397", fields["REQ", "Service ID"])
        self.assertEqual("127.0.0.1", fields["REQ", "Destination address (CMA header)"])

    def test_two_hosts(self):
        """Each host's file has what left there and what arrived; the clock of one is 5 ms ahead, and one RTU got lost."""
        client, server = [], []
        ahead = 5_000_000
        for i, frame in enumerate(self.rping()):
            by_client = cm_attribute(frame) in (0x10, 0x14, 0x15) or (
                cm_attribute(frame) == 0 and frame[20 + 8 + 5:20 + 8 + 8] == self.server_qpn())
            frame = frame[:12] + self.addresses(by_client) + frame[20:]
            if cm_attribute(frame) == 0x10:  # the CMA header has them, too
                frame = frame[:MAD + 140 + 16] + self.addresses(True)[:4] + frame[MAD + 140 + 20:]
                frame = frame[:MAD + 140 + 32] + self.addresses(True)[4:] + frame[MAD + 140 + 36:]
            left, arrived = i * 100_000, i * 100_000 + 20_000
            copies = [(left, "out"), (arrived + ahead, "in")] if by_client else [(left + ahead, "out"), (arrived, "in")]
            mine, others = (client, server) if by_client else (server, client)
            mine.append(packet_line(frame, copies[0][0], dir="out"))
            if cm_attribute(frame) == 0x14:  # lost, and sent again
                mine.append(packet_line(frame, copies[0][0] + 30_000, dir="out"))
                others.append(packet_line(frame, copies[1][0] + 30_000, dir="in"))
                continue
            others.append(packet_line(frame, copies[1][0], dir="in"))
        page = self.page(
            self.write_lines("client.vrec", line("process", argv=["rping", "-c"], host="left"), *client),
            self.write_lines("server.vrec", json.dumps({"k": "process", "t": NANOSECONDS, "pid": 8, "argv": ["rping"],
                                                        "host": "right"}), *server))
        self.assertRegex(" ".join(page.data["remarks"]), r"server\.vrec: clock \+5\.000 ms, corrected")
        steps = self.ladder(page)
        self.assertEqual(["REQ", "REP", "RTU", "RTU", "DREQ", "DREP"], [step["label"] for step in steps])
        lost = [step.get("lost", False) for step in steps]
        self.assertEqual(1, sum(lost))
        self.assertEqual(1, sum(step.get("again", False) for step in steps))
        self.assertEqual(["established", "established"], steps[3]["after"])
        self.assertEqual(sorted(step["t"] for step in steps), [step["t"] for step in steps])
        self.assertIn("10.0.0.1", page.data["conversations"][0]["title"])
        self.assertIn("Packets that did not arrive", [trouble["title"] for trouble in page.data["troubles"]])

    def server_qpn(self):
        reply = next(frame for frame in self.rping() if cm_attribute(frame) == 0x13)
        return reply[MAD + 12:MAD + 15]

    @staticmethod
    def addresses(by_client):
        ends = [bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])]
        return b"".join(ends if by_client else ends[::-1])

    def test_markup_stays_text(self):
        request = bytearray(next(frame for frame in self.rping() if cm_attribute(frame) == 0x10))
        private = b"</script><b>&\"{{DATA}}"
        at = MAD + 140 + 36  # the message's private data, behind the CMA header
        request[at:at + len(private)] = private
        file = self.write_lines(
            NASTY.replace("/", "_") + ".vrec", line("process", argv=[NASTY], host=NASTY, exe=NASTY),
            line("call", call=NASTY, args={NASTY: NASTY}, ret=NASTY, errno="EINVAL", reason=NASTY),
            line("qp", qp=struct.unpack(">I", b"\0" + request[MAD + 32:][:3])[0], **{"from": "INIT"}, to=NASTY),
            line("wc", qp=5, status=NASTY, opcode=NASTY, reason=NASTY), line("cm_event", event=NASTY, id=NASTY),
            packet_line(bytes(request), 10, comment=NASTY))
        page = self.page(file)
        self.assertEqual(NASTY, page.data["calls"][0]["n"])
        self.assertIn(NASTY, page.data["programs"][0]["command"])
        self.assertEqual(NASTY, page.data["packets"][0]["c"])
        self.assertIn("</script><b>&\"{{DATA}}", str(page.data["packets"][0]["f"]))
        self.assertEqual([], [tag for tag in page.tags if tag in ("b", "img", "iframe", "a")])
        self.assertEqual(2, page.tags.count("script"))
        picture = ElementTree.fromstring(self.report(file, options=("--svg",)))
        self.assertIn("</script><b>", " ".join(picture.itertext()))

    def test_errors_are_explained(self):
        file = self.write_lines(
            "e.vrec", line("process", argv=["/usr/bin/program"]),
            line("call", 1000, call="ibv_modify_qp", args={}, ret=22, errno="EINVAL", reason="ah_attr.is_global is 0"),
            line("call", 1500, call="ibv_poll_cq", args={}, ret=0, errno="EAGAIN"),
            line("wc", 2000, qp=17, wr_id="0x1", status="IBV_WC_RETRY_EXC_ERR", vendor_err=0x0311, reason="no answer"),
            line("wc", 2100, qp=17, wr_id="0x2", status="IBV_WC_WR_FLUSH_ERR", vendor_err=1),
            line("wc", 2200, qp=17, wr_id="0x3", status="IBV_WC_WR_FLUSH_ERR", vendor_err=1),
            line("cm_event", 3000, id="id 1", event="RDMA_CM_EVENT_REJECTED", status=28, reason="refused"),
            line("async_event", 4000, event="IBV_EVENT_QP_FATAL", element="qp 0x11"),
            line("begin", 5000, call="rdma_destroy_id", args={"id": "id 1"}))
        for language, words in (("en", ["rdma_reject", "did not answer"]), ("zh", ["拒绝", "仍无应答"])):
            page = self.page(file, options=("--lang", language))
            titles = {trouble["title"]: trouble for trouble in page.data["troubles"]}
            self.assertEqual(["ibv_modify_qp(): EINVAL", "IBV_WC_RETRY_EXC_ERR", "IBV_WC_WR_FLUSH_ERR",
                              "RDMA_CM_EVENT_REJECTED, status 28", "IBV_EVENT_QP_FATAL", "rdma_destroy_id()"], list(titles))
            self.assertEqual("ah_attr.is_global is 0", titles["ibv_modify_qp(): EINVAL"]["reason"])
            self.assertEqual(2, titles["IBV_WC_WR_FLUSH_ERR"]["count"])
            self.assertFalse(titles["IBV_WC_WR_FLUSH_ERR"].get("expected"))  # something failed before
            self.assertTrue(all(trouble["explanations"] for trouble in page.data["troubles"]))
            explained = json.dumps(page.data["troubles"], ensure_ascii=False)
            for word in words:
                self.assertIn(word, explained)
            self.assertEqual(language, page.data["language"])
        self.assertEqual([True], [call["unfinished"] for call in page.data["calls"] if call["n"] == "rdma_destroy_id"])

    def test_states_and_calls(self):
        file = self.write_lines(
            "s.vrec", line("process", argv=["a"]), line("qp", 0, qp=17, **{"from": ""}, to="RESET"),
            line("qp", 10, qp=17, **{"from": "RESET"}, to="INIT"), line("qp", 20, qp=17, **{"from": "INIT"}, to=""),
            line("call", 30, d=2500, call="ibv_reg_mr", args={"length": 64, "addr": None}, out={"lkey": "0x1"}, ret="mr 1"),
            line("begin", 40, call="rdma_get_cm_event", args={}),
            line("call", 40, call="rdma_get_cm_event", args={}, ret=0), line("later", call=5))
        page = self.page(file)
        self.assertEqual([["RESET", "INIT", ""]], [[state for _, state in lane["states"]] for lane in page.data["qps"]])
        self.assertEqual(["ibv_reg_mr", "rdma_get_cm_event"], [call["n"] for call in page.data["calls"]])
        self.assertEqual("length=64, addr=null", page.data["calls"][0]["a"])
        self.assertEqual(2.5, page.data["calls"][0]["d"])
        self.assertFalse(any("unfinished" in call for call in page.data["calls"]))

    def test_much_is_cut_and_said(self):
        data = next(frame for frame in self.rping() if frame[28] == 0x04)
        lines = []
        for psn in range(9000):
            frame = bytearray(data)
            frame[20 + 8 + 9:20 + 8 + 12] = psn.to_bytes(3, "big")
            lines.append(packet_line(bytes(frame), psn * 1000))
        calls = [line("call", i, call="ibv_poll_cq", args={}, ret=0) for i in range(9000)]
        text = self.report(self.write_lines("big.vrec", *lines, *calls, line("call", 9999, call="ibv_post_send", args={},
                                                                             ret=12, errno="ENOMEM")))
        page = Page(text)
        for name in ("packets", "calls"):
            self.assertEqual(9000 + (name == "calls"), len(page.data[name]) + page.data["left_out"][name])
            self.assertGreater(page.data["left_out"][name], 1000)
        self.assertEqual("ENOMEM", page.data["calls"][-1]["e"])
        self.assertEqual(set(), {f"left_out_{what}" for what in page.data["left_out"]} - set(page.data["words"]))
        many = self.write_lines("many.vrec", *[line("qp", i, qp=i, **{"from": ""}, to="RESET") for i in range(100)],
                                *[line("call", i, call=f"call_{i}", ret=22, errno="EINVAL") for i in range(300)])
        cut = self.page(many).data
        self.assertEqual((100, 300), tuple(len(cut[what]) + cut["left_out"][what] for what in ("qps", "troubles")))
        self.assertGreater(cut["left_out"]["qps"], 10)
        self.assertEqual(9000, sum(page.data["series"]["packets"]))
        self.assertLess(len(text), 4_000_000)

    def test_many_conversations(self):
        """Each looks for its own calls among all: those that the page leaves out cost no more than their lines."""
        data, count = next(frame for frame in self.rping() if frame[28] == 0x04), 4000
        lines = []
        for qp in range(count):
            name, t = f"qp {qp + 0x100:#x}", qp * 1000
            lines.append(line("call", t, call="ibv_create_qp", args={"pd": "pd 1"}, ret=name))
            lines += [line("call", t, call="ibv_modify_qp", args={"qp": name, "attr": {"qp_state": state}}, ret=0)
                      for state in ("INIT", "RTR", "RTS")]
            lines.append(line("qp", t, qp=qp + 0x100, **{"from": "RTR"}, to="RTS"))
            lines.append(line("call", t, call="ibv_post_send", args={"qp": name, "wr": [{"opcode": "IBV_WR_SEND"}]}, ret=0))
            lines.append(packet_line(data[:33] + (qp + 0x100).to_bytes(3, "big") + data[36:], t))
        page = self.page(self.write_lines("many.vrec", *lines))
        self.assertEqual(40, len(page.data["conversations"]))
        labels = [step["label"] for step in page.data["conversations"][-1]["steps"]]
        self.assertEqual({"ibv_create_qp", "ibv_post_send", "rc_send_only", "QP RTR → RTS"}, set(labels))

    def test_bad_input_is_refused(self):
        good = line("process", argv=["a"])
        frame = base64.b64encode(b"E" + bytes(60)).decode()
        for wrong, reason in (
                ("[1, 2]", "no JSON object"), ('{"t": 1}', 'there is no "k"'), ('{"k": 5}', '"k" is no string'),
                ('{"k": "call"}', 'there is no "t"'), ('{"k": "call", "t": "x"}', '"t" is no whole number'),
                ('{"k": "call", "t": 1, "pid": 1}', 'there is no "call"'),
                ('{"k": "call", "t": 18446744073709551615, "pid": 1, "call": "x"}', '"t" is out of range'),
                ('{"k": "call", "t": 1, "pid": 1, "call": "x", "args": 5}', '"args" is no object'),
                ('{"k": "wc", "t": 1, "pid": 1, "status": "s", "qp": -1}', '"qp" is out of range'),
                ('{"k": "qp", "t": 1, "pid": 1}', 'there is no "qp"'), ('{"k": "process", "pid": 1, "argv": "a"}', '"argv" is no list'),
                ('{"k": "packet", "t": 1, "frame": "!"}', '"frame" is not base64'),
                (json.dumps({"k": "packet", "t": 1, "frame": frame}), '"frame" is not an IP packet'),
                ('{"k": "call", "t": 1, "pid": 1, "call": "x", "args": ' + '{"a":' * 60 + "1" + "}" * 60 + "}", "nested too deeply")):
            with self.subTest(wrong=wrong[:60]):
                path = os.path.join(self.folder, "bad.vrec")
                with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(f"{good}\n{wrong}\n{good}\n")
                self.assertRegex(self.report(path, status=1), rf"^verbena: \S+bad\.vrec:2: .*{re.escape(reason)}")
        self.assertIn("cannot be read", self.report("/nonexistent", status=1))
        self.assertIn("is empty", self.report(self.write("empty.vrec", ""), status=1))
        text = self.report(self.write("text.vrec", "no recording\nat all\n"), status=1)
        self.assertRegex(text, r"^verbena: \S+text\.vrec:1: parse error")

    def test_the_page_replaces_no_recording(self):
        good = line("process", argv=["a"])
        file = self.write("only.vrec", good + "\n")
        os.link(file, file + ".link")
        for output in (file, file + ".link"):
            self.assertIn("is one of the files to be shown", run(VERBENA, "report", "-o", output, file).stderr)
        with open(file, encoding="utf-8") as text:
            self.assertEqual(good + "\n", text.read())

    def test_what_is_missing_is_told_at_once(self):
        file = self.write("half.vrec", line("process", argv=["a"]) + '\n{"k": "ca')
        for command in (["report", "-o", "-"], ["handshake"]):
            self.assertRegex(run(VERBENA, *command, file).stderr, r"^verbena: \S+half\.vrec:2: parse error .*; the line is left out\n")

    def test_lines_without_an_end(self):
        """Whoever wrote them was killed, or the disk was full."""
        good, call = line("process", argv=["a"]), line("call", call="x")
        page = self.page(self.write("half.vrec", good + '\n{"k": "ca'))
        self.assertRegex(page.data["remarks"][0], r"half\.vrec:2: ")
        path = os.path.join(self.folder, "full.vrec")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f'{{"k"\n\n{good}\n{{"k": "call", "t": 1{call}\n{{"k": "\udce4\n{call}\n')
        page = self.page(path)
        self.assertEqual(["x"], [each["n"] for each in page.data["calls"]])
        self.assertRegex(page.data["remarks"][0], r"full\.vrec:1: parse error .*; the line is left out$")
        self.assertRegex(page.data["remarks"][1], r"full\.vrec: likewise 2 other lines$")
        self.assertEqual(2, len(page.data["remarks"]))

    def test_a_picture(self):
        file = self.write_lines("p.vrec", *[packet_line(frame, i * 1000) for i, frame in enumerate(self.rping())])
        picture = ElementTree.fromstring(self.report(file, options=("--svg", "--lang", "zh")))
        words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(HANDSHAKE, [word for word in words if word in HANDSHAKE])
        self.assertTrue(words[0].startswith("客户端"))
        self.assertIn("there is no conversation 2, only 1", self.report(file, options=("--svg", "-n", "2"), status=1))

    def test_words(self):
        """Every word that the page's script asks for is there, in both languages."""
        with open(os.path.join(os.path.dirname(__file__), "../../src/report/page/page.js"), encoding="utf-8") as script:
            asked = set(re.findall(r'word\("(\w+)"\)', script.read()))
        file = self.write_lines("w.vrec", line("process", argv=["a"]))
        english, chinese = (self.page(file, options=("--lang", language)).data["words"] for language in ("en", "zh"))
        self.assertEqual(set(), asked - set(english))
        self.assertEqual(list(english), list(chinese))
        self.assertEqual([], [key for key, text in chinese.items() if text.isascii()])


if __name__ == "__main__":
    unittest.main()
