// Other policies and other numbers of slots on what really happened, side by side.

import { get } from "./api.js";
import { curves } from "./charts.js";
import { by, choice, duration, h, number, percent, plural, table, time, toast } from "./dom.js";

const WINDOWS = [["0.25", "last 15 minutes"], ["1", "last hour"], ["6", "last 6 hours"], ["24", "last 24 hours"]];

export async function whatIf(box) {
  const [policies, { summary }] = await Promise.all([get("policies"), get("board", { limit: 0 })]);
  const ticks = policies.map((name) => {
    const input = h("input", { type: "checkbox", name });
    input.checked = name === summary.policy || name === "fifo";
    return [name, input];
  });
  const slots = h("input", { value: [...new Set([summary.slots, summary.slots * 2])].join(", "), "aria-label": "Slots", pattern: "[0-9 ,]+", size: 8 });
  let hours = "0.25";
  const result = h("div");
  const go = h("button", { type: "submit", class: "primary" }, "Compare");
  const form = h("form", { class: "choices" },
    h("label", null, h("span", null, "Recorded history"), choice("Window", WINDOWS, hours, (value) => { hours = value; })),
    h("fieldset", null, h("legend", null, "Policies"), ticks.map(([name, input]) => h("label", null, input, " ", name))),
    h("label", null, h("span", null, "Slots, one or several"), slots), go);
  form.addEventListener("submit", (event) => { event.preventDefault(); compare(); });
  box.append(h("div", { class: "tools" }, h("h1", null, "What if"), h("span", { class: "muted" }, `in force: ${summary.policy}, ${summary.slots} slots`)), form, result, await waitingQueries());

  async function compare() {
    const wanted = ticks.filter(([, input]) => input.checked).flatMap(([policy]) => slots.value.split(",").map((each) => Number.parseInt(each, 10)).filter((each) => each > 0).map((many) => [policy, many]));
    if (!wanted.length) return toast("Choose a policy and a number of slots.", "bad");
    go.disabled = true;
    const until = Math.floor(Date.now() / 1000);
    const told = [];
    try {
      for (const [policy, many] of wanted.slice(0, 8)) {
        result.replaceChildren(h("p", { class: "muted" }, `Replaying ${policy} on ${many} slots …`));
        told.push(await get("whatif", { policy, slots: many, hours, until }));
      }
      draw(told);
    } catch (error) {
      result.replaceChildren(h("p", { class: "bad" }, error.message));
    } finally {
      go.disabled = false;
    }
    return null;
  }

  function draw(told) {
    const real = told[0].real;
    const all = [["as it was", real], ...told.map((each) => [`${each.replayed.policy}, ${each.replayed.slots} slots`, each.replayed])];
    const width = Math.max(300, box.clientWidth - 20);
    const line = (name, outcome, key) => ({ name, points: outcome.curve.filter((point) => point[key] !== null).map((point) => [point.after, point[key]]) });
    result.replaceChildren(
      h("p", { class: "muted" }, `${told[0].arrivals} arrivals in ${duration(told[0].until - told[0].since)}, decided anew. Replaying what really ran may differ from what was recorded by up to ${percent(told[0].margin, 0)} of QoD.`),
      table([["Way"], ["QoD", "num"], ["Weighted staleness", "num"], ["Worst stretch", "num mid"], ["Limits breached", "num"], ["Time over limits", "num mid"], ["Jobs", "num mid"], ["Slot-hours", "num mid"]],
        all.map(([name, each]) => [
          name, by(each.qod, percent(each.qod)), by(each.weighted_staleness, duration(each.weighted_staleness)), by(each.worst_stretch, number(each.worst_stretch)), by(each.limits_breached, String(each.limits_breached)),
          by(each.seconds_over_limit, duration(each.seconds_over_limit)), by(each.jobs, String(each.jobs)), by(each.slot_hours, number(each.slot_hours))])),
      h("h2", null, "Share of accesses that met a fresh object"), curves(all.map(([name, each]) => line(name, each, "fresh")), { width, high: 1 }),
      h("h2", null, "Mean staleness, by popularity"), curves(all.map(([name, each]) => line(name, each, "staleness")), { width, label: duration }));
  }

  return {};
}

/** Queries that said how much they would wait for fresher data: the curve, and the point that was taken. */
async function waitingQueries() {
  const told = await get("queries", { weighed: true });
  const figure = h("div");
  const draw = (id) => {
    const query = told.find((each) => String(each.id) === id);
    const others = query.together_with.length - 1;
    figure.replaceChildren(
      h("p", { class: "muted" }, `Asked by ${query.by} at ${time(query.asked_at)} with preference ${number(query.prefer)} over ${query.objects.join(", ")}; weighed ${others ? `together with ${plural(others, "other")}` : "alone"}. ${others ? "Together they accept" : "It accepts"} ${duration(query.accepted)} of waiting; the point taken costs ${duration(query.taken.wait)} of it.`),
      curves([{ name: "staleness spared, by waiting added", steps: true, points: query.curve.map((point) => [point.wait, point.help]) }], { width: Math.min(640, figure.clientWidth || 640), label: duration, marks: [[query.taken.wait, query.taken.help, "the point taken"]] }));
  };
  if (told.length) requestAnimationFrame(() => draw(String(told[0].id)));
  return h("section", null, h("h2", null, "Waiting queries: fast or fresh"),
    told.length ? choice("Query", told.map((each) => [String(each.id), `query ${each.id}, ${each.state}`]), String(told[0].id), draw) : h("p", { class: "muted" }, "No query has stated a preference between fast and fresh yet."), figure);
}
