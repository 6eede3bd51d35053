// Every object, ticking. The server sorts, filters and cuts; only the rows on the screen are asked for and drawn.

import { get, now } from "./api.js";
import { sparkline } from "./charts.js";
import { badge, choice, duration, h, number, objectLink, percent, redraw, ticking, time } from "./dom.js";

const ROW = 33;
const QUALITY = { ok: "good", warning: "warn", failing: "bad" };
const AROUND = 24;
const FILTERS = [["", "All objects"], ["stale", "Stale"], ["fresh", "Fresh"], ["breached", "Past the limit"], ["about", "About to breach"], ["running", "Running"], ["held", "Held or paused"], ["failing", "Failing"], ["quarantine", "With quarantine"]];
const KINDS = [["", "Tables and views"], ["table", "Tables"], ["view", "Views"]];
// [sort key or null, title, class, explanation, cell]
const COLUMNS = [
  ["name", "Object", "name", "", (row) => h("span", { title: [row.name, row.group && `group ${row.group}`, row.feed && `feed ${row.feed}`].filter(Boolean).join(", ") }, dot(row), objectLink(row.name), " ", h("small", { class: "muted" }, row.virtual ? "virtual" : row.kind))],
  ["staleness", "Staleness", "num", "now minus the time it is current up to", null],
  ["headroom", "Limit", "num", "the most it should be behind; sorts by what breaches first", (row) => (row.limit === null ? "–" : duration(row.limit))],
  ["predicted", "Fresh in", "num", "when it will probably be fresh again", null],
  ["next", "Next run", "num wide", "when its next job will probably start", null],
  ["rank", "Rank", "num", "1 runs next; empty when it cannot start now", (row) => (row.rank === null ? "" : String(row.rank))],
  ["impact", "Impact", "num mid", "what is lost by not running it now, by the policy's measure", (row) => (row.impact === null ? "" : number(row.impact))],
  ["pending", "Pending", "num mid", "updates that wait or are being loaded", (row) => (row.kind === "table" ? String(row.pending) : "")],
  ["dirty", "Dirty", "num mid", "stale ancestors; above zero it cannot run yet", (row) => (row.dirty ? String(row.dirty) : "")],
  ["popularity", "Popularity", "num wide", "its reads a minute, weighted, with those of all that derives from it", (row) => number(row.popularity)],
  ["cost", "Cost", "num wide", "expected slot-seconds of its next job", (row) => (row.virtual ? "" : duration(row.cost))],
  ["last", "Last run", "num wide", "", null],
  ["reads", "Reads fresh", "num wide", "share of the last hour's reads that met it fresh", (row) => (row.reads ? percent(row.reads_met_fresh / row.reads, 0) : "")],
  ["quality", "Quality", "mid", "expectations of the newest batch, and what is in quarantine", quality],
];
const LIVE = { staleness, predicted: freshIn, next: nextRun, last: lastRun };

export function stateOf(row, at = now()) {
  if (row.running) return "running";
  if (row.breach_at !== null && at > row.breach_at) return "breached";
  return row.fresh ? "fresh" : "stale";
}

function dot(row) {
  const state = stateOf(row);
  return h("span", { class: `dot ${state}`, title: state, role: "img", "aria-label": state });
}

function quality(row) {
  const told = [];
  if (row.error) told.push(h("span", { class: "badge bad", title: row.error }, "job failed"));
  if (row.quality) told.push(badge(QUALITY[row.quality], row.quality));
  if (row.quarantined) told.push(badge("warn", `${number(row.quarantined)} held`));
  if (row.held.length) told.push(h("span", { class: "badge", title: row.held.join("; ") }, row.held.some((why) => why.includes("paused")) ? "paused" : "waits"));
  return told;
}

function staleness(row, cell) {
  const age = row.current_to === null ? null : now() - row.current_to;
  cell.textContent = ticking(age);
  const share = row.limit && age !== null ? age / row.limit : 0;
  cell.className = `num ${share > 1 ? "bad" : share > 0.75 ? "warn" : ""}`;
}

/** A prediction that should have come true already says no more than that. */
function roughly(at) {
  return at - now() < 1 ? "soon" : `~${ticking(at - now())}`;
}

function freshIn(row, cell) {
  if (row.fresh) cell.textContent = "fresh";
  else if (row.predicted_fresh_at !== null) cell.textContent = roughly(row.predicted_fresh_at);
  else cell.textContent = row.running ? "running" : "";
  cell.className = `num ${row.fresh ? "good" : ""}`;
}

function nextRun(row, cell) {
  if (row.running) cell.textContent = "now";
  else cell.textContent = row.predicted_start_at === null ? "" : roughly(row.predicted_start_at);
}

function lastRun(row, cell) {
  cell.textContent = row.last_run === null ? "–" : `${ticking(now() - row.last_run)} ago`;
  cell.title = time(row.last_run);
}

export async function board(box) {
  const kept = JSON.parse(sessionStorage.getItem("freshet-board") ?? "{}");
  const asked = { search: "", state: "", kind: "", sort: "staleness", descending: true, ...kept };
  let shown = { total: 0, offset: 0, objects: [] };
  let asking = null;
  const rows = new Map();

  const search = h("input", { type: "search", placeholder: "Search objects, feeds, groups  ( / )", "aria-label": "Search", value: asked.search, oninput: () => change({ search: search.value }), onkeydown: walk });
  const filter = choice("Filter", FILTERS, asked.state, (state) => change({ state }));
  const kinds = choice("Kind", KINDS, asked.kind, (kind) => change({ kind }));
  const count = h("span", { class: "muted" });
  const figures = h("div", { class: "figures" });
  const curve = h("div", { class: "curve" });
  const heads = COLUMNS.map(([key, title, kind, why]) => h("th", { scope: "col", class: kind, title: why }, h("button", { onclick: () => sortBy(key) }, title)));
  const above = h("tr", { class: "space", "aria-hidden": "true" }, h("td", { colspan: COLUMNS.length }));
  const below = h("tr", { class: "space", "aria-hidden": "true" }, h("td", { colspan: COLUMNS.length }));
  const body = h("tbody", null, above, below);
  const scroller = h("div", { class: "scroll rows", tabindex: "0", role: "region", "aria-label": "Objects", onscroll: () => onScroll(), onkeydown: walk }, h("table", null, h("thead", null, h("tr", null, heads)), body));
  box.append(h("div", { class: "overview" }, figures, curve), h("div", { class: "tools" }, search, filter, kinds, count), scroller);

  function change(what) {
    Object.assign(asked, what);
    filter.value = asked.state;
    sessionStorage.setItem("freshet-board", JSON.stringify(asked));
    scroller.scrollTop = 0;
    load();
  }

  function sortBy(key) {
    change(asked.sort === key ? { descending: !asked.descending } : { sort: key, descending: !["name", "rank", "headroom", "next", "predicted"].includes(key) });
  }

  function wanted() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW) - AROUND);
    const fit = Math.ceil((scroller.clientHeight || 600) / ROW) + 2 * AROUND;
    return { offset: first, limit: Math.min(150, fit) };
  }

  async function load() {
    asking?.abort();
    asking = new AbortController();
    try {
      shown = await get("board", { ...asked, ...wanted() }, asking.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      throw error;
    }
    draw();
  }

  /** Whether the rows on the screen are there, and some around them. */
  function covered() {
    const first = Math.floor(scroller.scrollTop / ROW);
    const last = first + Math.ceil(scroller.clientHeight / ROW);
    const there = first >= shown.offset && Math.min(last, shown.total) <= shown.offset + shown.objects.length;
    return there && Math.abs(wanted().offset - shown.offset) < AROUND / 2;
  }

  /** Rows follow while it is scrolled: one request after the other, each for where it is by then. */
  let following = false;
  async function onScroll() {
    if (following || covered()) return;
    following = true;
    try {
      let at;
      do {
        at = scroller.scrollTop;
        await load();
      } while (at !== scroller.scrollTop && !covered());
    } finally {
      following = false;
    }
  }

  function draw() {
    const focused = document.activeElement?.closest?.("tr[data-name]")?.dataset.name;
    const lines = shown.objects.map((row) => line(row));
    const names = new Set(shown.objects.map((row) => row.name));
    for (const name of rows.keys()) if (!names.has(name)) rows.delete(name);
    above.firstChild.style.height = `${shown.offset * ROW}px`;
    below.firstChild.style.height = `${Math.max(0, shown.total - shown.offset - shown.objects.length) * ROW}px`;
    const now_there = [...body.children].slice(1, -1);
    if (now_there.length !== lines.length || lines.some((each, n) => each !== now_there[n])) {
      body.replaceChildren(above, ...lines, below);
    }
    // A row that moved, or was written anew, has lost it.
    if (focused && !body.contains(document.activeElement)) rows.get(focused)?.tr.querySelector("a")?.focus({ preventScroll: true });
    count.textContent = `${shown.total} of ${shown.summary.objects} objects`;
    COLUMNS.forEach(([key], n) => heads[n].setAttribute("aria-sort", key !== asked.sort ? "none" : asked.descending ? "descending" : "ascending"));
    redraw(figures, shown.summary, () => overview(shown.summary, change));
  }

  function line(row) {
    let known = rows.get(row.name);
    if (!known) {
      const cells = COLUMNS.map(([, , kind]) => h("td", { class: kind }));
      known = { cells, tr: h("tr", { "data-name": row.name }, cells), told: "" };
      rows.set(row.name, known);
    }
    const told = JSON.stringify(row) + stateOf(row);
    if (told !== known.told) {
      known.cells.forEach((cell, n) => { if (COLUMNS[n][4]) cell.replaceChildren(...[COLUMNS[n][4](row)].flat()); });
      known.told = told;
    }
    known.row = row;
    beat(known);
    return known.tr;
  }

  function beat({ row, cells }) {
    COLUMNS.forEach(([key, , kind], n) => {
      if (!LIVE[key]) return;
      LIVE[key](row, cells[n]);
      cells[n].classList.add(...kind.split(" "));
    });
  }

  function walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const here = event.target.closest("tr[data-name]");
    // From the search field, or the list as a whole, down leads to the first row on the screen.
    const top = step > 0 && [search, scroller].includes(event.target) ? body.children[Math.ceil(scroller.scrollTop / ROW) - shown.offset + 1] : null;
    const next = step > 0 ? here?.nextElementSibling : here?.previousElementSibling;
    const link = (top ?? next)?.querySelector("a");
    if (link) {
      event.preventDefault();
      link.focus();
    }
  }

  const slash = (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement?.tagName ?? "")) {
      event.preventDefault();
      search.focus();
    }
  };
  document.addEventListener("keydown", slash);
  const resized = new ResizeObserver(() => onScroll());
  resized.observe(scroller);

  let drawn = 0;
  async function drawCurve() {
    drawn = Date.now();
    const known = async (hours) => {
      const { buckets, until } = await get("qod", { hours, buckets: 72 });
      const first = buckets.findIndex((each) => each.qod !== null);
      return first < 0 ? { points: [], since: until, until } : { points: buckets.slice(first).filter((each) => each.at <= now()), since: buckets[first].at, until };
    };
    let told = await known(6);
    // A young installation would be a dot at the edge.
    if (told.points.length < 12) told = await known(0.5);
    curve.replaceChildren(sparkline(told.points.map((each) => [each.at, each.qod])), h("small", { class: "muted" }, `QoD, last ${duration(told.until - told.since)}`));
  }

  await load();
  drawCurve();
  return {
    every: 2,
    refresh: () => Promise.all([load(), Date.now() - drawn > 15000 ? drawCurve() : null]),
    tick: () => rows.forEach(beat),
    close: () => {
      document.removeEventListener("keydown", slash);
      resized.disconnect();
      asking?.abort();
    },
  };
}

function overview(told, change) {
  const figure = (words, value, kind = "", title = "") => h("div", { class: `figure ${kind}`, title }, h("strong", null, value), h("span", null, words));
  const filtering = (words, value, state, kind) => h("button", { class: `figure ${value ? kind : ""}`, onclick: () => change({ state }) }, h("strong", null, String(value)), h("span", null, words));
  return [
    figure("QoD now", percent(told.qod), "", "share of reads that meet a fresh object"),
    filtering(`of ${told.objects} fresh`, told.fresh, "fresh", ""),
    filtering(`of ${told.slots} slots busy`, told.running, "running", ""),
    told.backlog === null
      ? figure("backlog", "…", "", "Airflow's api-server has just started and reads the log: ranks and predictions follow")
      : figure("backlog", duration(told.backlog), "", "expected slot-seconds to make everything fresh"),
    filtering("past the limit", told.breached, "breached", "bad"),
    filtering("about to breach", told.about_to_breach, "about", "warn"),
  ];
}
