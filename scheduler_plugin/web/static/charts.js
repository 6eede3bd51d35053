// Small SVG charts, drawn by hand.

import { duration, h, percent, s, time } from "./dom.js";

/** QoD or another share over time: [[at, share or null], ...]. */
export function sparkline(points, width = 300, height = 46, left = 44) {
  const known = points.filter(([, value]) => value !== null);
  const [first, last] = [points[0]?.[0] ?? 0, points.at(-1)?.[0] ?? 1];
  const x = (at) => left + ((at - first) / Math.max(1, last - first)) * (width - left - 4);
  const y = (value) => height - 5 - value * (height - 10);
  const path = known.map(([at, value], n) => `${n ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const latest = known.at(-1);
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `quality of data over time, now ${percent(latest?.[1])}` },
    [1, 0].map((share) => [
      s("line", { x1: left, x2: width, y1: y(share), y2: y(share), class: "grid" }),
      s("text", { x: left - 5, y: y(share) + 4, "text-anchor": "end" }, percent(share, 0))]),
    known.length > 1 && s("path", { d: `${path}L${x(latest[0]).toFixed(1)} ${y(0)}L${x(known[0][0]).toFixed(1)} ${y(0)}Z`, class: "area" }),
    s("path", { d: path, class: "curve-line" }),
    latest && s("circle", { cx: x(latest[0]), cy: y(latest[1]), r: 2.5, class: "curve-dot" }));
}

/** Round values along an axis. */
export function steps(from, to, about) {
  const span = to - from || 1;
  const nice = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
  const step = nice.find((each) => span / each <= about) ?? span / about;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

function shortTime(at, span) {
  const clock = new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...(span < 600 ? { second: "2-digit" } : {}), hour12: false });
  return span > 90000 ? `${new Date(at * 1000).toLocaleDateString([], { month: "short", day: "numeric" })} ${clock}` : clock;
}

/** The staleness of one object over time, with what happened to it (paper 000's Figure 1). */
export function sawtooth(told, until, width) {
  const height = 260, left = 52, right = 8, top = 10, base = height - 62;
  // A young object would be a scrawl at the edge.
  const first = Math.min(...told.spells.filter((each) => each.current_to !== null).map((each) => each.since), ...told.arrivals, until - 60);
  const since = Math.max(told.since, first - 0.04 * (until - first)), span = until - since;
  const x = (at) => left + ((Math.min(Math.max(at, since), until) - since) / span) * (width - left - right);
  const spells = told.spells.filter((each) => each.current_to !== null).map((each) => ({ ...each, from: Math.max(each.since, since), to: Math.min(each.until ?? until, until) })).filter((each) => each.to > each.from);
  const highest = Math.max(1, (told.limit ?? 0) * 1.15, ...spells.map((each) => each.to - each.current_to));
  const y = (age) => base - (Math.max(0, age) / highest) * (base - top);
  const areas = spells.map((each) => s("path", { class: each.fresh ? "fresh-area" : "stale-area", d: `M${x(each.from).toFixed(1)} ${base}V${y(each.from - each.current_to).toFixed(1)}L${x(each.to).toFixed(1)} ${y(each.to - each.current_to).toFixed(1)}V${base}Z` }));
  const line = spells.map((each, n) => `${n ? "L" : "M"}${x(each.from).toFixed(1)} ${y(each.from - each.current_to).toFixed(1)}L${x(each.to).toFixed(1)} ${y(each.to - each.current_to).toFixed(1)}`).join("");
  const breaches = told.breaches.map((each) => s("rect", { class: "breach", x: x(each.since), y: top, width: Math.max(1.5, x(each.until ?? until) - x(each.since)), height: base - top }, s("title", null, `past the limit from ${time(each.since)} to ${each.until ? time(each.until) : "now"}`)));
  const runs = told.runs.map((each) => s("rect", { class: `run ${each.state}`, x: x(each.decided_at), y: base + 24, width: Math.max(2, x(each.finished_at ?? until) - x(each.decided_at)), height: 9, rx: 2 }, s("title", null, `decision ${each.decision} (${each.state}): ${time(each.decided_at)}, ${duration((each.finished_at ?? until) - each.decided_at)}${each.error ? `. ${each.error}` : ""}`)));
  const arrivals = told.arrivals.map((at) => s("path", { class: "arrival", d: `M${x(at).toFixed(1)} ${base + 7}l-3.5 8h7z` }, s("title", null, `new data arrived ${time(at)}`)));
  const grid = [
    ...steps(0, highest, 4).map((age) => s("g", null, s("line", { class: "grid", x1: left, x2: width - right, y1: y(age), y2: y(age) }), s("text", { x: left - 6, y: y(age) + 4, "text-anchor": "end" }, duration(age)))),
    ...steps(since, until, Math.max(2, width / 110)).map((at) => s("text", { x: x(at), y: height - 8, "text-anchor": x(at) > width - 30 ? "end" : "middle" }, shortTime(at, span))),
  ];
  const limit = told.limit === null ? null : s("g", null, s("line", { class: "limit", x1: left, x2: width - right, y1: y(told.limit), y2: y(told.limit) }), s("text", { class: "limit-word", x: left + 4, y: y(told.limit) - 4 }, `limit ${duration(told.limit)}`));
  const cross = s("line", { class: "cross", y1: top, y2: base + 36, visibility: "hidden" });
  const read = s("text", { class: "read", y: top + 12, visibility: "hidden" });
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `staleness of ${told.object} over time` },
    grid, breaches, areas, s("path", { class: "teeth", d: line }), limit,
    s("line", { class: "axis", x1: left, x2: width - right, y1: base, y2: base }), arrivals, runs, cross, read,
    s("rect", { x: left, y: top, width: Math.max(0, width - left - right), height: base - top, fill: "transparent", onpointermove: hover, onpointerleave: () => [cross, read].forEach((each) => each.setAttribute("visibility", "hidden")) }));
  function hover(event) {
    const box = svg.getBoundingClientRect();
    const px = (event.clientX - box.left) * (width / box.width);
    const at = since + ((px - left) / (width - left - right)) * span;
    const spell = spells.find((each) => each.from <= at && at <= each.to);
    if (!spell) return;
    cross.setAttribute("x1", px);
    cross.setAttribute("x2", px);
    read.textContent = `${time(at)}: ${duration(at - spell.current_to)} behind, ${spell.fresh ? "fresh" : "stale"}`;
    read.setAttribute("x", px > width / 2 ? px - 6 : px + 6);
    read.setAttribute("text-anchor", px > width / 2 ? "end" : "start");
    [cross, read].forEach((each) => each.setAttribute("visibility", "visible"));
  }
  return svg;
}

/** What jobs took, oldest left: stacked by stage, with what the colours mean. */
export function costBars(costs, width) {
  const height = 140, left = 52, base = height - 6;
  const jobs = [...costs].reverse();
  const stages = [...new Set(jobs.flatMap((job) => Object.keys(job.stages)))];
  const highest = Math.max(0.1, ...jobs.map((each) => each.slot_seconds));
  const wide = Math.min(24, (width - left) / Math.max(1, jobs.length));
  const y = (value) => base - (value / highest) * (base - 8);
  const chart = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "duration of the last jobs" },
    steps(0, highest, 3).map((value) => s("g", null, s("line", { class: "grid", x1: left, x2: width, y1: y(value), y2: y(value) }), s("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, duration(value)))),
    jobs.map((job, n) => {
      let from = 0;
      const parts = stages.map((stage) => job.stages[stage] ?? 0);
      const rest = Math.max(0, job.slot_seconds - parts.reduce((sum, each) => sum + each, 0));
      return s("g", null, s("title", null, `decision ${job.decision}, ${time(job.at)}: ${duration(job.slot_seconds)} (${Object.entries(job.stages).map(([stage, took]) => `${stage} ${duration(took)}`).join(", ")}; the rest is starting)`),
        [rest, ...parts].map((part, stage) => {
          const bar = s("rect", { class: `stage${stage % 6}`, x: left + n * wide + 1, width: Math.max(1, wide - 2), y: y(Math.min(highest, from + part)), height: Math.max(0, y(from) - y(Math.min(highest, from + part))) });
          from += part;
          return bar;
        }));
    }));
  return [chart, h("p", { class: "legend" }, ["starting", ...stages].map((stage, n) => h("span", null, h("i", { class: `swatch stage${n % 6}` }), stage)))];
}

/** Several curves over the same axis: [{name, points: [[x, y], ...], steps?}]; with marks [x, y, name] on them. */
export function curves(series, { width, label = percent, xLabel = duration, low = 0, high = null, marks = [] }) {
  const height = 220, left = 76, base = height - 26, top = 10;
  const all = series.flatMap((each) => each.points);
  const [x0, x1] = [Math.min(...all.map(([at]) => at)), Math.max(...all.map(([at]) => at))];
  const y1 = high ?? Math.max(...all.map(([, value]) => value), low + 1e-9);
  const x = (at) => left + ((at - x0) / (x1 - x0 || 1)) * (width - left - 10);
  const y = (value) => base - ((value - low) / (y1 - low || 1)) * (base - top);
  return h("figure", null,
    s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": series.map((each) => each.name).join(", ") },
      [0, 0.25, 0.5, 0.75, 1].map((part) => low + part * (y1 - low)).map((value) => s("g", null, s("line", { class: "grid", x1: left, x2: width - 10, y1: y(value), y2: y(value) }), s("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, label(value)))),
      [x0, (x0 + x1) / 2, x1].map((at, n) => s("text", { x: x(at), y: height - 6, "text-anchor": ["start", "middle", "end"][n] }, xLabel(at))),
      series.map((each, n) => s("path", { class: `series s${n % 8}`, d: each.points.map(([at, value], m) => `${!m ? "M" : each.steps ? `H${x(at).toFixed(1)}L` : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("") })),
      marks.map((mark) => s("circle", { class: "mark", cx: x(mark[0]), cy: y(mark[1]), r: 5 }, s("title", null, mark[2])))),
    h("figcaption", { class: "legend" }, series.map((each, n) => h("span", null, h("i", { class: `swatch s${n % 8}` }), each.name)), marks.map((mark) => h("span", null, h("i", { class: "swatch mark" }), mark[2]))));
}
