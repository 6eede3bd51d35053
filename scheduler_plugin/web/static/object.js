// One object: how stale, why, when; what it is; what can be done about it.

import { get, now, post } from "./api.js";
import { stateOf } from "./board.js";
import { costBars, sawtooth } from "./charts.js";
import { airflowLink, ask, badge, bytes, choice, duration, h, live, number, objectLink, plural, redraw, table, ticking, time, toast } from "./dom.js";
import { decisionList } from "./decisions.js";

const WINDOWS = [["0.25", "15 minutes"], ["1", "1 hour"], ["6", "6 hours"], ["24", "24 hours"], ["168", "7 days"]];

export async function object(box, name) {
  if (!name) return pick(box);
  const path = `objects/${encodeURIComponent(name)}`;
  let hours = sessionStorage.getItem("freshet-hours") ?? "0.25";
  let [told, teeth] = await Promise.all([get(path), get(`${path}/history`, { hours })]);

  const head = h("div", { class: "head" });
  const chart = h("div", { class: "chart" });
  const why = h("div");
  const lower = h("div", { class: "columns" });
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
    redraw(head, [steady, told.may_edit, stateOf(row)], () => [
      h("div", null,
        h("h1", null, h("span", { class: `dot ${stateOf(row)}` }), row.name, " ", h("small", { class: "muted" }, row.virtual ? "virtual view" : row.kind), row.group && badge("", row.group)),
        h("p", { class: "lead" },
          row.current_to === null ? "Nothing has arrived for it yet. " : [h("strong", { class: row.limit && now() - row.current_to > row.limit ? "bad" : "" }, live(() => ticking(now() - row.current_to))), ` behind${row.limit === null ? "" : `, limit ${duration(row.limit)}`}. `],
          row.fresh ? "Fresh: it holds everything that has arrived. " : "Stale: newer data has arrived. ",
          row.running ? ["A job is under way (", row.running, ", ", live(() => ticking(now() - row.decided_at)), "). "] : "",
          !row.fresh && row.predicted_fresh_at !== null ? live(() => `Probably fresh in ${ticking(told.row.predicted_fresh_at - now())}.`) : ""),
        h("p", { class: "muted" },
          row.rows === null ? "no version yet" : [`${plural(row.rows, "row")}, last run `, live(() => ticking(now() - row.last_run)), " ago"],
          row.virtual ? "" : ` · next job about ${duration(row.cost)} · popularity ${number(row.popularity)}`,
          told.dag_id ? [" · ", airflowLink(`dags/${told.dag_id}`, "DAG ", told.dag_id)] : "")),
      h("div", { class: "buttons" }, buttons(told, reload))]);
  }

  function drawChart() {
    const end = Math.max(teeth.until, now());
    chart.replaceChildren(sawtooth(teeth, end, Math.max(300, chart.clientWidth || box.clientWidth || 800)));
    if (teeth.truncated) chart.append(h("p", { class: "muted" }, "Only the newest part of the window is drawn: there is too much of it."));
  }

  function drawWhy() {
    const { explanation, row } = told;
    if (!explanation) return;
    const ancestors = explanation.dirty_ancestors;
    redraw(why, [explanation, row.held, row.fresh, row.running], () => h("section", null,
      h("h2", null, row.fresh || row.running ? "Where it stands" : explanation.rank === 1 ? "Next in line" : "Why not now"),
      h("p", null, badge("", explanation.state), " ", explanation.summary),
      row.held.length ? h("p", { class: "warn" }, `Held: ${row.held.join("; ")}.`) : null,
      row.fresh ? null : h("p", { class: "muted" }, explanation.why),
      ancestors.length ? h("p", null, "Waits for ", ancestors.flatMap((each, n) => [n ? ", " : "", objectLink(each)]), ".") : null,
      !row.fresh && explanation.ahead.length ? [h("h3", null, "Before it in the queue"), table([["Object"], ["Impact", "num"], ["Why"]], explanation.ahead.map((each) => [objectLink(each.object), number(each.impact), each.why]))] : null,
      row.fresh ? null : h("details", null, h("summary", null, "The figures"), table([["Figure"], ["Value", "num"]], [["impact", number(explanation.impact)], ...Object.entries(explanation.ingredients).map(([key, value]) => [key.replaceAll("_", " "), number(value)])]))));
  }

  async function drawLower() {
    const [versions, costs, quality, decided] = await Promise.all([get(`${path}/versions`), get(`${path}/costs`), told.row.kind === "table" ? get(`${path}/quality`) : [], get("decisions", { object: name, limit: 15 })]);
    const parts = [
      told.waiting.length && panel("Waiting", table([["File"], ["Size", "num"], ["Arrived", "num"], ["State"]], told.waiting.map((each) => [each.path.split("/").at(-1), bytes(each.bytes), time(each.release), each.state]))),
      told.row.virtual ? null : panel("Duration of its jobs", costs.length ? costBars(costs, Math.max(280, lower.clientWidth > 900 ? lower.clientWidth / 2 - 40 : lower.clientWidth - 24)) : h("p", { class: "muted" }, "No job has finished yet.")),
      told.row.virtual ? null : panel("Decisions", decisionList(decided, false)),
      told.row.virtual ? null : panel("Versions", table([["Committed"], ["Rows", "num"], ["Snapshot"], ["Read"]], versions.map((each) => [time(each.committed_at), number(each.rows, 6), h("code", null, each.snapshot_id), Object.keys(each.reads).length ? plural(Object.keys(each.reads).length, "parent") : ""]), "No version yet.")),
      told.row.kind === "table" && panel("Quality", table([["Batch", "num"], ["Expectation"], ["On failure"], ["Result"]], quality.map((each) => [String(each.batch), each.expectation, each.on_fail, h("span", null, badge(each.passed ? "good" : "bad", each.passed ? "held" : "failed"), " ", each.message, each.samples.length ? ` (${each.samples.join(", ")})` : "")]), "No expectation has been tried on it yet.")),
      panel("Made of", definition(told)),
    ].filter(Boolean);
    lower.replaceChildren(...parts);
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
  let decision = told.row.decision;
  return {
    every: 2,
    tick: drawHead,
    refresh: async () => {
      await reload();
      if (told.row.decision !== decision) {
        decision = told.row.decision;
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
    h("p", { class: "muted" }, `Weight ${number(told.weight)}, ${number(told.access)} reads a minute assumed until real ones are counted.`),
    told.sql && h("pre", null, h("code", null, told.sql.trim())),
    told.columns.length ? table([["Column"], ["Type"]], told.columns.map(([column, kind]) => [h("code", null, column), kind])) : null,
  ];
}

function buttons(told, reload) {
  if (told.row.virtual) return [];
  const path = `objects/${encodeURIComponent(told.row.name)}`;
  const paused = told.row.held.some((why) => why.includes("paused"));
  const button = (words, act, title) => h("button", {
    disabled: !told.may_edit, title: told.may_edit ? title : "You may not edit its DAG.",
    onclick: async () => {
      try {
        const message = await act();
        if (message) toast(message);
        await reload();
      } catch (error) {
        toast(error.message, "bad");
      }
    },
  }, words);
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
  const { objects } = await get("board", { sort: "staleness", limit: 30 });
  box.append(h("h1", null, "Choose an object"), h("ul", { class: "plain" }, objects.map((row) => h("li", null, objectLink(row.name)))));
}
