// The stream of decisions: what was chosen, why, on which figures, and what was passed over.

import { get, now } from "./api.js";
import { airflowLink, badge, by, choice, duration, h, live, number, objectLink, plural, searchField, table, ticking, time } from "./dom.js";

const KIND = { done: "good", failed: "bad", claimed: "busy", dispatched: "busy", decided: "busy" };

export function decisionList(found, empty, withObject = true) {
  if (!found.length) return h("p", { class: "muted" }, empty);
  return h("ul", { class: "plain decisions" }, found.map((each) => decision(each, withObject)));
}

function decision(each, withObject) {
  const took = each.finished_at === null ? live(() => ticking(now() - each.decided_at)) : duration(each.finished_at - each.decided_at);
  const dag = `${each.kind === "table" ? "load" : "refresh"}__${each.object}`;
  const over = each.passed_over.map((other) => other.object);
  const passed = over.length ? ` · passed over ${over.slice(0, 3).join(", ")}${over.length > 3 ? ` and ${over.length - 3} more` : ""}` : "";
  return h("li", null,
    h("div", { class: "line" },
      h("time", { title: `decision ${each.id}` }, time(each.decided_at)),
      badge(KIND[each.state] ?? "", each.state),
      h("span", { class: "why" }, withObject ? [objectLink(each.object), " "] : null, each.why),
      h("span", { class: "muted took", title: "from the decision to its end" }, took)),
    each.error ? h("p", { class: "bad" }, each.error) : null,
    h("details", null,
      h("summary", null, `decision ${each.id} · slot ${each.slot}`, each.updates ? ` · ${plural(each.updates, "file")}` : "", each.candidates ? ` · best of ${each.candidates}` : "", passed),
      h("p", null, airflowLink(`dags/${dag}/runs/${each.run_id}`, "its run and log in Airflow"), h("span", { class: "muted" }, ` · policy ${each.policy}`)),
      h("div", { class: "beside" },
        h("div", null, h("h3", null, "Figures"), figures(each)),
        h("div", null, h("h3", null, "Passed over"), ahead(each.passed_over, "Nothing else could start.")))));
}

/** What an impact was made of. */
export function figures({ impact, ingredients }) {
  const value = (each) => by(each, number(each));
  return table([["Figure"], ["Value", "num"]], [["impact", value(impact)], ...Object.entries(ingredients).map(([key, each]) => [key.replaceAll("_", " "), value(each)])]);
}

/** Others that were weighed. */
export function ahead(others, empty) {
  return table([["Object"], ["Impact", "num"], ["Why"]], others.map((other) => [objectLink(other.object), by(other.impact, number(other.impact)), other.why]), empty);
}

export async function decisions(box) {
  let failed = "";
  let search = "";
  let older = [];
  let newest = [];
  const list = h("div");
  const more = h("button", { onclick: async () => { older = older.concat(await get("decisions", { before: (older.at(-1) ?? newest.at(-1))?.id, failed, search, limit: 30 })); draw(); } }, "Older");
  box.append(
    h("div", { class: "tools" }, h("h1", null, "Decisions"), searchField("Search objects", "", (words) => { search = words; anew(); }),
      choice("Which", [["", "All"], ["true", "Failed"]], failed, (value) => { failed = value; anew(); })),
    list, more);

  function anew() {
    newest = older = [];
    return load();
  }

  async function load() {
    const before = newest;
    const asked = [failed, search];
    const told = await get("decisions", { failed, search, limit: 30 });
    if (asked[0] !== failed || asked[1] !== search) return; // somebody has typed on
    newest = told;
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
    list.replaceChildren(decisionList(all, search || failed ? "No such decision yet." : "No decision yet."));
    [...list.querySelectorAll(".decisions > li")].forEach((item, n) => {
      item.dataset.id = all[n].id;
      if (open.has(String(all[n].id))) item.querySelector("details").open = true;
    });
    more.hidden = all.length < 30;
  }

  await load();
  return { refresh: load, every: 2 };
}
