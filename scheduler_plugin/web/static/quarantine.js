// What was kept out of the tables, why, and what to do with it.

import { get, post } from "./api.js";
import { ask, h, objectLink, plural, table, time, toast } from "./dom.js";

const ACTIONS = [
  ["release", "Release", "Loads it whatever the expectations say"],
  ["retry", "Retry", "Loads it as if it had just arrived"],
  ["drop", "Drop", "Nobody waits for it any more"],
];

export async function quarantine(box) {
  const list = h("div");
  const chosen = new Set();
  const buttons = ACTIONS.map(([action, words, title]) => h("button", { title, class: action === "drop" ? "danger" : "", onclick: () => act(action, words) }, words));
  const count = h("span", { class: "muted" });
  box.append(h("div", { class: "tools" }, h("h1", null, "Quarantine"), buttons, count), list);
  let told = [];
  let key = null;

  async function act(action, words) {
    const asked = await ask(`${words} ${plural(chosen.size, "item")}`, [["why", "Why (kept with what was done)", { required: true, maxlength: 500 }]], words);
    if (!asked) return;
    try {
      toast((await post("quarantine", { action, ids: [...chosen], why: asked.why })).message);
      chosen.clear();
      await load();
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  function tally() {
    count.textContent = chosen.size ? `${chosen.size} chosen` : `${told.length}${told.length === 100 ? " or more" : ""} held`;
    buttons.forEach((button) => { button.disabled = !chosen.size; });
  }

  function tick(item) {
    const input = h("input", { type: "checkbox", "aria-label": `choose ${item.id}`, disabled: !item.may_edit, title: item.may_edit ? null : "You may not edit its DAG.", onchange: () => { if (input.checked) chosen.add(item.id); else chosen.delete(item.id); tally(); } });
    input.checked = chosen.has(item.id);
    return input;
  }

  async function load() {
    told = await get("quarantine");
    const now_there = JSON.stringify(told);
    if (now_there !== key) {
      key = now_there;
      for (const id of chosen) if (!told.some((item) => item.id === id)) chosen.delete(id);
      list.replaceChildren(table([[""], ["Table"], ["File"], ["Row", "num"], ["Why"], ["Sample", "mid"], ["Since", "num mid"]],
        told.map((item) => [tick(item), objectLink(item.table), h("span", { title: item.file }, item.file.split("/").at(-1)), item.row === null ? (item.sample === null ? "all" : "–") : String(item.row), item.reason, item.sample === null ? "" : h("code", null, item.sample), time(item.at)]),
        "Nothing is held: every file and row that arrived has been loaded, or was dropped by somebody."));
    }
    tally();
  }

  await load();
  return { every: 4, refresh: load };
}
