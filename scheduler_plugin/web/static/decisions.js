// The stream of decisions: what was chosen, why, on which figures, and what was passed over.

import { get, now } from "./api.js";
import { airflowLink, badge, choice, duration, h, number, objectLink, plural, table, time } from "./dom.js";

const KIND = { done: "good", failed: "bad", claimed: "busy", dispatched: "busy", decided: "busy" };

export function decisionList(found, withObject = true) {
  if (!found.length) return h("p", { class: "muted" }, "Nothing has been decided yet.");
  return h("ul", { class: "plain decisions" }, found.map((each) => decision(each, withObject)));
}

function decision(each, withObject) {
  const took = (each.finished_at ?? now()) - each.decided_at;
  const dag = `${each.kind === "table" ? "load" : "refresh"}__${each.object}`;
  return h("li", null,
    h("div", { class: "line" },
      h("time", { title: `decision ${each.id}` }, time(each.decided_at)),
      badge(KIND[each.state] ?? "", each.state),
      withObject ? objectLink(each.object) : null,
      h("span", { class: "why" }, each.why),
      h("span", { class: "muted" }, duration(took))),
    each.error ? h("p", { class: "bad" }, each.error) : null,
    h("details", null,
      h("summary", null, `decision ${each.id}, slot ${each.slot}`, each.updates ? `, ${plural(each.updates, "file")}` : "", each.candidates ? `, best of ${each.candidates}` : ""),
      h("p", null, airflowLink(`dags/${dag}/runs/${each.run_id}`, "its run and log in Airflow"), h("span", { class: "muted" }, ` · policy ${each.policy}`)),
      h("div", { class: "columns" },
        h("div", null, h("h3", null, "Figures"), table([["Figure"], ["Value", "num"]], [["impact", number(each.impact)], ...Object.entries(each.ingredients).map(([key, value]) => [key.replaceAll("_", " "), number(value)])])),
        h("div", null, h("h3", null, "Passed over"), table([["Object"], ["Impact", "num"], ["Why"]], each.passed_over.map((other) => [objectLink(other.object), number(other.impact), other.why]), "Nothing else could start.")))));
}

export async function decisions(box) {
  let failed = "";
  let older = [];
  let newest = [];
  const list = h("div");
  const more = h("button", { onclick: async () => { older = older.concat(await get("decisions", { before: (older.at(-1) ?? newest.at(-1))?.id, failed, limit: 30 })); draw(); } }, "Older");
  box.append(
    h("div", { class: "tools" }, h("h1", null, "Decisions"), choice("Which", [["", "All"], ["true", "Failed"]], failed, async (value) => { failed = value; older = []; await load(); })),
    list, more);

  async function load() {
    const before = newest;
    newest = await get("decisions", { failed, limit: 30 });
    // What slid out of the newest page stays on the screen.
    const known = new Set(newest.map((each) => each.id));
    if (older.length || list.querySelector("details[open]")) older = before.filter((each) => !known.has(each.id)).concat(older.filter((each) => !known.has(each.id)));
    draw();
  }

  let told = "";
  function draw() {
    const all = [...newest, ...older];
    const state = JSON.stringify(all.map((each) => [each.id, each.state]));
    if (state === told) return;
    told = state;
    const open = new Set([...list.querySelectorAll("details[open]")].map((each) => each.closest("li").dataset.id));
    list.replaceChildren(decisionList(all));
    [...list.querySelectorAll(".decisions > li")].forEach((item, n) => {
      item.dataset.id = all[n].id;
      if (open.has(String(all[n].id))) item.querySelector("details").open = true;
    });
    more.hidden = all.length < 30;
  }

  await load();
  return { refresh: load, every: 2 };
}
