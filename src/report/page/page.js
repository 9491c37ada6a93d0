"use strict";
// Shows the data that stands in the page. Everything from it becomes text (textContent), never markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const word = (key) => data.words[key] ?? key;
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE = 200; // rows at once

  // element("td", {class: "bad"}, "text", child...)
  function make(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) node.setAttribute(name, value);
    for (const child of children) if (child !== null && child !== undefined) node.append(child);
    return node;
  }
  const element = (name, attributes, ...children) => make(document.createElement(name), attributes, children);
  const drawn = (name, attributes, ...children) => make(document.createElementNS(SVG, name), attributes, children);
  const section = (id) => document.getElementById(id);
  const hex = (qp) => "0x" + qp.toString(16).padStart(6, "0");
  const fixed = (value, digits = 3) => value.toFixed(digits);

  function readable(value, unit) {
    for (const [factor, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (value >= factor) return `${(value / factor).toPrecision(3)} ${prefix}${unit}`;
    return `${Number(value.toPrecision(3))} ${unit}`;
  }

  function leftOut(here, what) {
    if (data.left_out[what]) here.append(element("p", {class: "note"}, `${data.left_out[what]} ${word("left_out_" + what)}`));
  }

  // ---- head

  function head() {
    const begin = new Date(Number(BigInt(data.start) / 1000000n));
    section("summary").textContent = [
      data.files.join(", "), begin.toISOString().replace("T", " ").replace("Z", " UTC"),
      `${word("duration")} ${fixed(data.duration)} ms`,
      `${data.counts.packets} ${word("packets")}`, `${data.counts.calls} ${word("calls")}`,
      `${data.counts.completions} ${word("completions")}`, `${word("made_by")} ${data.version}`].join(" · ");
    for (const [id, key] of [["errors", "errors_title"], ["ladders", "ladders"], ["states", "qp_states"],
      ["plots", "over_time"], ["calls", "calls_title"], ["packets", "packets_title"]])
      section("sections").append(element("a", {href: "#" + id}, word(key)));
    section("ladders").querySelector("h2").textContent = word("ladders");
    section("click").textContent = word("click");
    const about = section("about");
    if (data.programs.length) {
      about.append(element("h2", {}, word("programs")));
      for (const program of data.programs)
        about.append(element("p", {class: "note"}, element("code", {}, program.command || program.name),
          ` · pid ${program.pid}`, program.host ? ` · ${word("host")} ${program.host}` : "", ` · ${program.file}`));
    }
    if (data.remarks.length) {
      about.append(element("h2", {}, word("remarks")));
      for (const remark of data.remarks) about.append(element("p", {class: "note"}, remark));
    }
  }

  function errors() {
    const here = section("errors");
    here.append(element("h2", {}, word("errors_title")));
    if (data.troubles.every((trouble) => trouble.expected)) here.append(element("p", {class: "note"}, word("no_errors")));
    for (const trouble of data.troubles) {
      const card = element("div", {class: trouble.expected ? "card" : "card bad"},
        element("p", {class: "title"}, trouble.title, trouble.count > 1 ? ` × ${trouble.count}` : ""),
        element("p", {class: "note"}, `${fixed(trouble.t)} ms`, trouble.who ? ` · ${trouble.who}` : "",
          trouble.expected ? ` ${word("expected")}` : ""));
      if (trouble.reason) card.append(element("p", {}, element("code", {}, trouble.reason)));
      for (const [heading, text] of trouble.explanations)
        card.append(element("p", {}, heading ? element("strong", {}, heading) : null, heading ? " " : "", text));
      if (trouble.packet !== undefined) card.append(packetButton(trouble.packet));
      here.append(card);
    }
    leftOut(here, "troubles");
  }

  function packetButton(index) {
    const button = element("button", {type: "button"}, `${word("packet")} ${index + 1}`);
    button.addEventListener("click", () => showPacket(index));
    return button;
  }

  // ---- queue pairs

  const STATES = {RESET: "#8a94a0", INIT: "#c99a1f", RTR: "#3f8fd2", RTS: "#2e9e5b", SQD: "#8f63d6", SQE: "#d0742c", ERR: "#d0403a"};

  function states() {
    const here = section("states");
    here.append(element("h2", {}, word("qp_states")));
    if (!data.qps.length) return void here.append(element("p", {class: "note"}, word("no_qps")));
    const legend = element("p", {class: "legend"});
    for (const [state, colour] of Object.entries(STATES))
      legend.append(element("span", {}, element("i", {style: `background:${colour}`}), state));
    here.append(legend);
    const end = Math.max(data.duration, 0.001), width = 1000;
    for (const lane of data.qps) {
      const picture = drawn("svg", {viewBox: `0 0 ${width} 22`, preserveAspectRatio: "none", role: "img"});
      lane.states.forEach(([time, state], i) => {
        const until = i + 1 < lane.states.length ? lane.states[i + 1][0] : end;
        if (!state) return;
        const bar = drawn("rect", {x: time / end * width, y: 3, width: Math.max((until - time) / end * width, 2), height: 16,
          fill: STATES[state] ?? "#888"});
        bar.append(drawn("title", {}, `${state}: ${fixed(time)} – ${fixed(until)} ms`));
        picture.append(bar);
      });
      const path = lane.states.map(([, state]) => state || "–").join(" → ");
      here.append(element("div", {class: "lane"},
        element("div", {class: "who"}, `QP ${hex(lane.qp)} `, element("span", {class: "note"}, data.programs[lane.program]?.name ?? "")),
        element("div", {}, picture, element("div", {class: "note mono"}, path))));
    }
    here.append(element("p", {class: "note"}, `0 – ${fixed(end)} ms`));
    leftOut(here, "qps");
  }

  // ---- plots

  function plot(title, unit, series) {
    const width = 1000, height = 150, bottom = 132, top = 16, steps = series[0].values.length;
    const most = Math.max(1e-9, ...series.flatMap((one) => one.values));
    const picture = drawn("svg", {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img"});
    picture.append(drawn("line", {x1: 0, x2: width, y1: bottom, y2: bottom, stroke: "var(--line)"}));
    picture.append(drawn("line", {x1: 0, x2: width, y1: top, y2: top, stroke: "var(--line)", "stroke-dasharray": "3 5"}));
    const at = (value) => bottom - value / most * (bottom - top);
    for (const one of series) {
      if (!one.values.some((value) => value > 0)) continue;
      const points = one.values.map((value, i) => `${(i + 0.5) / steps * width},${at(value).toFixed(1)}`);
      if (one.bars || steps === 1)
        one.values.forEach((value, i) => value && picture.append(drawn("rect", {x: i / steps * width, width: Math.max(width / steps - 1, 2),
          y: at(value), height: bottom - at(value), fill: one.colour, opacity: 0.75})));
      else
        picture.append(drawn("polyline", {points: points.join(" "), fill: "none", stroke: one.colour, "stroke-width": 2, "vector-effect": "non-scaling-stroke"}));
    }
    const legend = element("p", {class: "legend"});
    for (const one of series) legend.append(element("span", {}, element("i", {style: `background:${one.colour}`}), one.name));
    const begin = data.series.start, end = begin + data.series.step * steps;
    return element("div", {class: "plot"}, element("h3", {}, `${title} · max ${readable(most, unit)}`), legend, picture,
      element("p", {class: "note"}, `${fixed(begin)} – ${fixed(end)} ms`));
  }

  function plots() {
    const here = section("plots"), series = data.series;
    here.append(element("h2", {}, word("over_time")));
    if (!series.packets.length) return void here.append(element("p", {class: "note"}, word("no_packets")));
    const seconds = series.step / 1e3;
    here.append(plot(word("throughput"), "B/s",
      [{name: word("throughput"), colour: "#3f8fd2", values: series.bytes.map((value) => value / seconds)}]));
    here.append(plot(word("packets"), "",
      [{name: word("packets"), colour: "#3f8fd2", bars: true, values: series.packets},
        {name: word("messages"), colour: "#2e9e5b", values: series.messages},
        {name: word("completions"), colour: "#8f63d6", values: series.completions},
        {name: `${word("again")}, ${word("lost")}, NAK`, colour: "#d0742c", bars: true, values: series.repeated},
        {name: word("errors"), colour: "#d0403a", bars: true, values: series.failed}]));
  }

  // ---- tables: rows that match, PAGE of them at once

  function table(here, columns, rows, fill, controls, matches) {
    const body = element("tbody");
    const more = element("button", {type: "button"}, word("more"));
    const count = element("span", {class: "note"});
    let found = [], shown = 0;
    function show() {
      for (const row of found.slice(shown, shown + PAGE)) body.append(fill(row));
      shown = Math.min(shown + PAGE, found.length);
      more.hidden = shown === found.length;
      count.textContent = `${shown} / ${found.length}`;
    }
    function refresh() {
      found = rows.filter(matches);
      shown = 0;
      body.replaceChildren();
      show();
    }
    more.addEventListener("click", show);
    for (const control of controls) {
      const input = control.querySelector("input") ?? control;
      input.addEventListener("input", refresh);
    }
    here.append(element("div", {class: "controls"}, ...controls, count),
      element("div", {class: "scroll"}, element("table", {},
        element("thead", {}, element("tr", {}, ...columns.map((column) => element("th", {}, column)))), body)), more);
    refresh();
    return {body, refresh};
  }

  function choice(all, values) {
    const select = element("select", {"aria-label": all}, element("option", {value: ""}, all));
    for (const [value, text] of values) select.append(element("option", {value}, text));
    return select;
  }
  const searchBox = () => element("input", {type: "search", placeholder: word("search"), "aria-label": word("search")});
  const checkBox = (text) => element("label", {}, element("input", {type: "checkbox"}), " " + text);

  function calls() {
    const here = section("calls");
    here.append(element("h2", {}, word("calls_title")));
    if (!data.calls.length) return void here.append(element("p", {class: "note"}, word("no_calls")));
    const failed = checkBox(word("only_failed")), inner = checkBox(word("inner")), search = searchBox();
    const program = choice(word("all_programs"), data.programs.map((one, i) => [i, one.name]));
    const text = (call) => `${call.n}(${call.a})`;
    table(here, [word("time"), word("took"), word("program"), word("call"), word("result")], data.calls, (call) => {
      const result = element("td", {class: "wide"}, call.unfinished ? element("strong", {class: "bad"}, word("unfinished")) : `= ${call.r}`);
      if (call.e) result.append(" ", element("strong", {class: call.bad ? "bad" : ""}, call.e));
      if (call.o) result.append(" ", element("span", {class: "note"}, call.o));
      if (call.why) result.append(element("br"), element("span", {class: "bad"}, call.why));
      if (call.empty) result.append(" ", element("span", {class: "note"}, `(${word("empty_polls")}: ${call.empty})`));
      return element("tr", {class: [call.bad ? "bad" : "", call.depth ? "inner" : ""].join(" ")},
        element("td", {class: "number"}, fixed(call.t)), element("td", {class: "number"}, call.unfinished ? "" : fixed(call.d, 1)),
        element("td", {}, data.programs[call.p].name), element("td", {class: "wide mono"}, element("strong", {}, call.n), `(${call.a})`), result);
    }, [failed, inner, program, search], (call) =>
      (!failed.firstChild.checked || call.bad) && (!call.depth || inner.firstChild.checked || call.bad) &&
      (program.value === "" || call.p === Number(program.value)) &&
      text(call).toLowerCase().includes(search.value.toLowerCase()));
    leftOut(here, "calls");
  }

  const packetRows = new Map();

  function packets() {
    const here = section("packets");
    here.append(element("h2", {}, word("packets_title")));
    if (!data.packets.length) return void here.append(element("p", {class: "note"}, word("no_packets")));
    const values = (key, name) => [...new Set(data.packets.map((one) => one[key]))].filter((one) => one !== undefined)
      .sort((a, b) => (a > b) - (a < b)).map((one) => [one, name(one)]);
    const qp = choice(word("all_qps"), values("q", hex)), opcode = choice(word("all_opcodes"), values("o", String));
    const failed = checkBox(word("only_failed")), search = searchBox();
    const telling = (packet) => packet.bad || packet.lost || packet.again || packet.c;
    table(here, ["", word("time"), word("from"), word("to"), word("packet")], data.packets, (packet) => {
      const row = element("tr", {class: "pick" + (packet.bad || packet.lost ? " bad" : ""), tabindex: 0},
        element("td", {class: "number"}, String(packet.i + 1)), element("td", {class: "number"}, fixed(packet.t)),
        element("td", {}, packet.s), element("td", {}, packet.d),
        element("td", {class: "wide mono"}, packet.text,
          packet.lost ? element("strong", {class: "bad"}, ` (${word("lost")})`) : null,
          packet.again ? element("strong", {class: "again"}, ` (${word("again")})`) : null,
          packet.c ? element("span", {class: "bad"}, ` ${packet.c}`) : null));
      row.addEventListener("click", () => showPacket(packet.i));
      row.addEventListener("keydown", (event) => event.key === "Enter" && showPacket(packet.i));
      packetRows.set(packet.i, row);
      return row;
    }, [qp, opcode, failed, search], (packet) =>
      (qp.value === "" || packet.q === Number(qp.value)) && (opcode.value === "" || packet.o === opcode.value) &&
      (!failed.firstChild.checked || telling(packet)) &&
      packet.text.toLowerCase().includes(search.value.toLowerCase()));
    leftOut(here, "packets");
  }

  // ---- one packet

  function showPacket(index) {
    const packet = data.packets.find((one) => one.i === index), panel = section("detail");
    if (!packet) return;
    for (const row of document.querySelectorAll("tr.picked")) row.classList.remove("picked");
    packetRows.get(index)?.classList.add("picked");
    const close = element("button", {type: "button"}, word("close"));
    close.addEventListener("click", () => { panel.hidden = true; });
    panel.replaceChildren(close, element("h3", {}, `${word("packet")} ${index + 1} · ${fixed(packet.t)} ms`),
      element("p", {class: "mono"}, packet.text));
    if (packet.c) panel.append(element("p", {class: "bad"}, packet.c));
    let header = null, list = null;
    for (let i = 0; i < packet.f.length; i += 2) {
      const [of, name] = data.field_names[packet.f[i]];
      if (of !== header) {
        header = of;
        list = element("dl");
        panel.append(element("h3", {}, header), list);
      }
      list.append(element("dt", {}, name), element("dd", {class: "mono"}, packet.f[i + 1]));
    }
    panel.hidden = false;
    panel.scrollTop = 0;
  }

  head();
  errors();
  states();
  plots();
  calls();
  packets();
  for (const group of document.querySelectorAll("g.packet")) {
    const show = () => showPacket(Number(group.dataset.packet));
    group.addEventListener("click", show);
    group.addEventListener("keydown", (event) => event.key === "Enter" && show());
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") section("detail").hidden = true; });
})();
