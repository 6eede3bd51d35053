// One object: how stale, why, when; what it is; what can be done about it.

import { get, now, post } from "./api.js";
import { stateOf } from "./board.js";
import { costBars, sawtooth } from "./charts.js";
import { ahead, decisionList, figures } from "./decisions.js";
import { airflowLink, ask, badge, by, bytes, choice, duration, h, live, number, objectLink, plural, redraw, searchField, table, ticking, time, toast } from "./dom.js";

const WINDOWS = [["0.25", "15 minutes"], ["1", "1 hour"], ["6", "6 hours"], ["24", "24 hours"], ["168", "7 days"]];

export async function object(box, name) {
  if (!name) return pick(box);
  const path = `objects/${encodeURIComponent(name)}`;
  let hours = sessionStorage.getItem("freshet-hours") ?? "0.25";
  let [told, teeth] = await Promise.all([get(path), get(`${path}/history`, { hours })]);

  const head = h("div", { class: "head" });
  const chart = h("div", { class: "chart" });
  const why = h("div", { class: "standing" });
  const lower = h("div", { class: "panels" });
  const windows = choice("Window", WINDOWS, hours, async (chosen) => {
    hours = chosen;
    sessionStorage.setItem("freshet-hours", hours);
    teeth = await get(`${path}/history`, { hours });
    drawChart();
  });
  box.append(head, h("section", null, h("h2", null, "Staleness ", windows, legend()), chart), why, lower);

  function drawHead() {
    const { row } = told;
    const steady = { ...row, impact: 0, rank: 0, popularity: number(row.popularity), cost: number(row.cost), predicted_fresh_at: row.predicted_fresh_at === null };
    redraw(head, [steady, told.may_edit, told.overrides, stateOf(row)], () => [
      h("div", null,
        h("h1", null, h("span", { class: `dot ${stateOf(row)}` }), row.name, " ", h("small", { class: "muted" }, row.virtual ? "virtual view" : row.kind), row.group && badge("", row.group)),
        h("p", { class: "lead" },
          row.current_to === null ? "Nothing has arrived for it yet. " : [h("strong", { class: row.limit && now() - row.current_to > row.limit ? "bad" : "" }, live(() => ticking(now() - row.current_to))), ` behind${row.limit === null ? "" : `, limit ${duration(row.limit)}`}. `],
          row.fresh ? "Fresh: it holds everything that has arrived. " : "Stale: newer data has arrived. ",
          row.running ? ["A job is under way (", row.running, ", ", live(() => ticking(now() - row.decided_at)), "). "] : "",
          !row.fresh && row.predicted_fresh_at !== null ? live(() => `Probably fresh ${told.row.predicted_fresh_at - now() < 1 ? "any moment" : `in ${ticking(told.row.predicted_fresh_at - now())}`}.`) : ""),
        h("p", { class: "muted" },
          row.rows === null ? "no version yet" : [`${plural(row.rows, "row")}, last run `, live(() => ticking(now() - row.last_run)), " ago"],
          row.virtual ? "" : ` · next job about ${duration(row.cost)} · popularity ${number(row.popularity)}`,
          told.dag_id ? [" · ", airflowLink(`dags/${told.dag_id}`, "DAG ", told.dag_id)] : ""),
        told.overrides.map((each) => override(each))),
      h("div", { class: "buttons" }, buttons(told, act))]);
  }

  function drawChart() {
    const end = Math.max(teeth.until, now());
    chart.replaceChildren(sawtooth(teeth, end, Math.max(300, chart.clientWidth || box.clientWidth || 800)));
    if (teeth.truncated) chart.append(h("p", { class: "muted" }, "Only the newest part of the window is drawn: there is too much of it."));
  }

  function drawWhy() {
    const { explanation, row } = told;
    if (!explanation) {
      redraw(why, null, () => h("p", { class: "muted" }, "Airflow's api-server has just started and reads the log: in a moment it says why this object is, or is not, next."));
      return;
    }
    const ancestors = explanation.dirty_ancestors;
    redraw(why, [explanation, row.held, row.fresh, row.running], () => h("section", null,
      h("h2", null, ["fresh", "running"].includes(explanation.state) ? "Where it stands" : explanation.rank === 1 ? "Next in line" : "Why not now"),
      h("p", null, badge("", explanation.state), " ", explanation.summary),
      row.held.length && explanation.state !== "held" ? h("p", { class: "warn" }, `Held: ${row.held.join("; ")}.`) : null,
      row.fresh ? null : h("p", { class: "muted" }, explanation.why),
      ancestors.length ? h("p", null, "Waits for ", ancestors.flatMap((each, n) => [n ? ", " : "", objectLink(each)]), ".") : null,
      !row.fresh && explanation.ahead.length ? [h("h3", null, "Before it in the queue"), ahead(explanation.ahead)] : null,
      row.fresh ? null : h("details", null, h("summary", null, "The figures"), h("div", { class: "beside" }, figures(explanation)))));
  }

  const bars = h("div");
  async function drawLower() {
    const [versions, costs, quality, decided] = await Promise.all([get(`${path}/versions`), get(`${path}/costs`), told.row.kind === "table" ? get(`${path}/quality`) : [], get("decisions", { object: name, limit: 15 })]);
    const parts = [
      told.waiting.length && panel("Waiting", table([["File"], ["Size", "num"], ["Arrived", "num"], ["State"]], told.waiting.map((each) => [h("span", { class: "file", title: each.path }, each.path.split("/").at(-1)), by(each.bytes, bytes(each.bytes)), by(each.release, time(each.release)), each.state]))),
      told.backfills.length && panel("Backfills", backfillTable(told.backfills)),
      told.row.virtual ? null : panel("Duration of its jobs", costs.length ? bars : h("p", { class: "muted" }, "No job has finished yet.")),
      told.row.virtual ? null : panel("Decisions", decisionList(decided, "No decision yet.", false)),
      told.row.virtual ? null : panel("Versions", versionTable(versions, told.row.kind)),
      told.row.kind === "table" && panel("Quality", qualityTable(quality)),
      panel("Made of", definition(told)),
    ].filter(Boolean);
    lower.replaceChildren(...parts);
    if (costs.length) bars.replaceChildren(...costBars(costs, bars.clientWidth));
  }

  /** Does what a button asks for, and shows what came of it. */
  async function act(what) {
    try {
      const message = await what();
      if (!message) return;
      toast(message);
      await reload();
      await drawLower();
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  function override({ what, value, until, by: who, why: reason }) {
    const words = what === "weight" ? `Weighs ${number(value)} instead of ${number(told.weight)}` : `Limit ${duration(value)}`;
    const back = what === "weight" && told.may_edit ? h("button", { class: "link", onclick: () => act(async () => (await post(`${path}/weight`, { weight: null })).message) }, "take it back") : null;
    return h("p", { class: "warn" }, words, until === null ? "" : [" for ", live(() => ticking(until - now()))], `, set by ${who}${reason ? `: ${reason}` : ""} `, back);
  }

  async function reload() {
    [told, teeth] = await Promise.all([get(path), get(`${path}/history`, { hours })]);
    drawHead();
    drawChart();
    drawWhy();
  }

  drawHead();
  drawWhy();
  requestAnimationFrame(() => { drawChart(); drawLower(); });
  const resized = new ResizeObserver(drawChart);
  resized.observe(box);
  const state = () => JSON.stringify([told.row.decision, told.backfills, told.waiting.length]);
  let before = state();
  return {
    every: 2,
    tick: drawHead,
    refresh: async () => {
      await reload();
      if (state() !== before) {
        before = state();
        await drawLower();
      }
    },
    close: () => resized.disconnect(),
  };
}

function panel(title, ...content) {
  return h("section", { class: "panel" }, h("h2", null, title), ...content);
}

function legend() {
  const item = (kind, words) => h("span", null, h("i", { class: `swatch ${kind}` }), words);
  return h("span", { class: "legend" }, item("arrival", "arrival"), item("run", "load or refresh"), item("fresh-area", "fresh"), item("stale-area", "stale"), item("breach", "past the limit"));
}

function definition(told) {
  const links = (names) => (names.length ? names.flatMap((each, n) => [n ? ", " : "", objectLink(each)]) : ["none"]);
  return [
    h("p", null, told.row.feed ? `Fed by ${told.row.feed}, about every ${duration(told.period)}. ` : ["Derived from ", ...links(told.parents), ". "], "Read by ", ...links(told.children), ". ", h("a", { href: `#/graph/${encodeURIComponent(told.row.name)}` }, "Show in the graph")),
    h("p", { class: "muted" }, `Weight ${number(told.weight)}, ${plural(told.access, "read")} a minute assumed until real ones are counted.`),
    told.sql && h("pre", null, h("code", null, told.sql.trim())),
    told.columns.length ? table([["Column"], ["Type"]], told.columns.map(([column, kind]) => [h("code", null, column), kind])) : null,
  ];
}

function versionTable(versions, kind) {
  const columns = [["Committed"], ["Rows", "num"], ["Snapshot"], ...(kind === "table" ? [] : [["Read from", "num"]])];
  return table(columns, versions.map((each) => [
    by(each.committed_at, time(each.committed_at)), by(each.rows, number(each.rows, 6)), h("code", null, each.snapshot_id),
    h("span", { title: Object.entries(each.reads).map(([parent, snapshot]) => `${parent}: ${snapshot ?? "as it was"}`).join("\n") }, plural(Object.keys(each.reads).length, "parent")),
  ].slice(0, columns.length)), "No version yet.");
}

/** expect_column_values_to_be_unique(carrier) as words, and what it is about. */
function expectation(rule, otherwise) {
  const [, words, about = ""] = /^(?:expect_)?(\w+)(?:\((.*)\))?$/s.exec(rule) ?? [null, rule];
  return h("span", { class: "rule", title: rule }, words.replaceAll("_", " "), h("small", { class: "muted" }, `, or ${otherwise}`), about && h("code", null, about));
}

/** An expectation a line: how it went with the newest batch, and a pip for each of the last ones. */
function qualityTable(results) {
  const rules = new Map();
  for (const each of results) rules.set(each.expectation, [...(rules.get(each.expectation) ?? []), each]);
  return table([["Expectation"], ["Newest batch"], ["Lately"]], [...rules].map(([rule, [newest, ...older]]) => [
    expectation(rule, newest.on_fail),
    by(newest.passed ? 1 : 0, h("span", { title: newest.samples.join(", ") }, badge(newest.passed ? "good" : newest.on_fail === "warn" ? "warn" : "bad", newest.passed ? "met" : "not met"), newest.passed ? "" : newest.message)),
    h("span", { class: "pips", role: "img", "aria-label": `met by ${older.filter((each) => each.passed).length + newest.passed} of the last ${older.length + 1} batches` }, [newest, ...older].slice(0, 12).reverse().map((each) => h("i", { class: each.passed ? "met" : each.on_fail === "warn" ? "off" : "not", title: `batch ${each.batch}, ${time(each.at)}: ${each.message || "met"}` }))),
  ]), "No expectation has been tried on it yet.");
}

function backfillTable(backfills) {
  const KINDS = { running: "busy", done: "good", paused: "warn" };
  const covered = (at, open) => (at === null ? open : `${new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`);
  return table([["Started"], ["What"], ["State"], ["Jobs", "num"], ["By"]], backfills.map((each) => [
    by(each.started_at, time(each.started_at)), h("span", null, each.mode, each.covers_from || each.covers_to ? ` ${covered(each.covers_from, "the first")} to ${covered(each.covers_to, "the last")}` : "", each.next && each.state !== "stopped" ? h("small", { class: "muted" }, ` next: ${each.next}`) : ""),
    badge(KINDS[each.state] ?? "", each.state), by(each.pieces_done, `${each.pieces_done} of ${each.pieces}`), `${each.who}${each.why ? `: ${each.why}` : ""}`]));
}

function buttons(told, act) {
  if (told.row.virtual) return [];
  const path = `objects/${encodeURIComponent(told.row.name)}`;
  const paused = told.row.held.some((why) => why.includes("paused"));
  const button = (words, what, title) => h("button", { disabled: !told.may_edit, title: told.may_edit ? title : "You may not edit its DAG.", onclick: () => act(what) }, words);
  return [
    button("Run now", async () => {
      const asked = await ask(`Run ${told.row.name} now`, [["why", "Why (for the record)", { maxlength: 500 }]], "Run now", h("p", { class: "muted" }, "It goes before everything else, with what it needs."));
      return asked && (await post(`${path}/run`, asked)).message;
    }, "Before everything else, with the stale ancestors it needs"),
    button(paused ? "Resume" : "Pause", async () => {
      const asked = await ask(paused ? `Resume ${told.row.name}` : `Pause ${told.row.name}`, [["why", "Why (for the record)", { maxlength: 500 }]], paused ? "Resume" : "Pause");
      return asked && (await post(`${path}/${paused ? "resume" : "pause"}`, asked)).message;
    }, "No new jobs until it is resumed; what runs goes on"),
    button("Weight …", async () => {
      const asked = await ask(`Weight of ${told.row.name} for a while`, [["weight", `Weight (the catalog says ${number(told.weight)})`, { type: "number", min: 0.01, max: 1000, step: "any", value: told.weight * 3, required: true }], ["minutes", "For so many minutes", { type: "number", min: 1, max: 10080, step: "any", value: 60, required: true }], ["why", "Why (for the record)", { maxlength: 500 }]], "Set");
      return asked && (await post(`${path}/weight`, asked)).message;
    }, "Counts for more or less for a while"),
    button("Backfill …", () => backfill(told, path), "Load or compute a range again, after a preview"),
  ];
}

async function backfill(told, path) {
  const range = told.row.kind === "table" ? [["since", "From (UTC; empty: from the beginning)", { type: "datetime-local", step: 1 }], ["until", "To (UTC; empty: to the end)", { type: "datetime-local", step: 1 }]] : [];
  const asked = await ask(`Backfill ${told.row.name}`, [...range, ["why", "Why (for the record)", { maxlength: 500 }]], "Preview", h("p", { class: "muted" }, range.length ? "Loads the files again whose data covers this time, and refreshes what derives from them." : "Computes the view again in full, and what derives from it."));
  if (!asked) return null;
  const seconds = (words) => (words ? Date.parse(`${words}Z`) / 1000 : null);
  const body = { since: seconds(asked.since), until: seconds(asked.until), why: asked.why };
  const preview = await post(`${path}/backfill/preview`, body);
  const sure = await ask(`Backfill ${told.row.name}?`, [], "Start", h("div", null, h("p", null, preview.message), table([["Figure"], ["Value", "num"]], [["files", String(preview.files)], ["size", bytes(preview.bytes)], ["jobs", String(preview.pieces)], ["slot-seconds, about", duration(preview.slot_seconds)]]), preview.views.length ? h("p", { class: "muted" }, `Refreshes ${preview.views.join(", ")}.`) : null));
  return sure && (await post(`${path}/backfill`, body)).message;
}

async function pick(box) {
  const list = h("ul", { class: "plain" });
  const load = async (search) => {
    const { objects } = await get("board", { search, sort: "staleness", limit: 30 });
    list.replaceChildren(...objects.map((row) => h("li", null, h("span", { class: `dot ${stateOf(row)}` }), objectLink(row.name), " ", h("small", { class: "muted" }, row.kind))));
  };
  box.append(h("div", { class: "tools" }, h("h1", null, "Choose an object"), searchField("Search objects", "", load)), list);
  await load("");
}
