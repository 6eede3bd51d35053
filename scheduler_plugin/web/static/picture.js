// Which objects cost how much of the quality of data (paper 004, section 4.2): as wide as it is read, as high as it was
// stale. The full part is the time its own job ran, the pale part the wait for it. The area is the QoD lost.

import { get } from "./api.js";
import { by, choice, duration, h, objectLink, percent, s, table, toast } from "./dom.js";

const WINDOWS = [["0.25", "15 minutes"], ["1", "1 hour"], ["6", "6 hours"], ["24", "24 hours"], ["168", "7 days"]];

export async function picture(box) {
  let hours = "1";
  const until = h("input", { type: "datetime-local", "aria-label": "until", step: 1, onchange: () => load().catch((error) => toast(error.message, "bad")) });
  const figure = h("div", { class: "chart" });
  const loss = h("div");
  const total = h("p", { class: "lead" });
  box.append(h("div", { class: "tools" }, h("h1", null, "QoD picture"), choice("Window", WINDOWS, hours, (value) => { hours = value; load(); }), h("label", null, "until ", until), h("span", { class: "muted" }, "empty: now")), total, figure,
    h("p", { class: "legend" }, h("span", null, h("i", { class: "swatch dark" }), "its job ran"), h("span", null, h("i", { class: "swatch light" }), "it waited"), h("span", { class: "muted" }, "as wide as its share of the reads, as high as its share of time stale; the area is the QoD lost")), loss);
  let told;

  async function load() {
    told = await get("qod/picture", { hours, until: until.value ? new Date(until.value).getTime() / 1000 : null });
    draw();
  }

  function draw() {
    const width = Math.max(300, figure.clientWidth || box.clientWidth || 800);
    figure.replaceChildren(staircase([...told.objects].filter((each) => each.access > 0 && each.seconds > 0).sort((a, b) => b.access - a.access || a.object.localeCompare(b.object)), width));
    total.replaceChildren("QoD ", h("strong", null, percent(told.qod)), " over the window", told.others ? `; ${told.others} more objects cost ${percent(told.others_lost)} together and are not drawn.` : ".");
    loss.replaceChildren(table([["Object"], ["QoD lost", "num"], ["Share of reads", "num mid"], ["Stale", "num"], ["Of it running", "num mid"], ["Reads met fresh", "num mid"]], told.objects.filter((each) => each.access > 0).slice(0, 40).map((each) => [
      objectLink(each.object), by(each.lost, percent(each.lost, 2)), by(each.access, percent(each.access)),
      by(each.stale_seconds, `${percent(each.seconds ? each.stale_seconds / each.seconds : null)} (${duration(each.stale_seconds)})`),
      by(each.running_seconds, duration(each.running_seconds)), by(each.reads ? each.reads_met_fresh / each.reads : -1, each.reads ? `${each.reads_met_fresh} of ${each.reads}` : "–"),
    ])));
  }

  await load();
  requestAnimationFrame(draw);
  const resized = new ResizeObserver(draw);
  resized.observe(box);
  return { every: 10, refresh: load, close: () => resized.disconnect() };
}

function staircase(objects, width) {
  const height = 280, left = 48, base = height - 30, top = 8;
  const scale = (width - left - 4) / Math.max(1e-9, objects.reduce((sum, each) => sum + each.access, 0));
  const y = (share) => base - share * (base - top);
  let at = left;
  const bars = objects.map((each) => {
    const wide = each.access * scale, stale = each.stale_seconds / each.seconds, running = each.running_seconds / each.seconds;
    const bar = s("a", { href: `#/object/${encodeURIComponent(each.object)}`, class: "bar", "aria-label": `${each.object} lost ${percent(each.lost, 2)}` },
      s("title", null, `${each.object}\nlost ${percent(each.lost, 2)} of the QoD\n${percent(each.access)} of the reads, stale ${percent(stale)} of the time`),
      s("rect", { class: "light", x: at, y: y(stale), width: Math.max(0.5, wide - 0.7), height: Math.max(0, y(running) - y(stale)) }),
      s("rect", { class: "dark", x: at, y: y(running), width: Math.max(0.5, wide - 0.7), height: Math.max(0, base - y(running)) }),
      s("line", { class: "diagonal", x1: at, y1: base, x2: at + Math.max(0, wide - 0.7), y2: y(running) }),
      wide > 60 ? s("text", { x: at + wide / 2, y: height - 12, "text-anchor": "middle" }, each.object.length * 6.4 + 8 > wide ? `${each.object.slice(0, Math.floor((wide - 16) / 6.4))}…` : each.object) : null);
    at += wide;
    return bar;
  });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "quality of data lost, object by object" },
    [0, 0.25, 0.5, 0.75, 1].map((share) => s("g", null, s("line", { class: "grid", x1: left, x2: width, y1: y(share), y2: y(share) }), s("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, percent(share, 0)))), bars);
}
