// What was kept out of the tables, why, and what to do with it.

import { get, post } from "./api.js";
import { ask, by, h, objectLink, plural, searchField, table, time, toast } from "./dom.js";

const ACTIONS = [
  ["release", "Release", "Loads it whatever the expectations say"],
  ["retry", "Retry", "Loads it as if it had just arrived"],
  ["drop", "Drop", "Nobody waits for it any more"],
];

const MOST = 200;

export async function quarantine(box) {
  const list = h("div");
  const chosen = new Set();
  const buttons = ACTIONS.map(([action, words, title]) => h("button", { title, class: action === "drop" ? "danger" : "", onclick: () => act(action, words) }, words));
  const count = h("span", { class: "muted" });
  const all = h("input", { type: "checkbox", onchange: () => { for (const item of matching()) if (item.may_edit) chosen[all.checked ? "add" : "delete"](item.id); draw(); } });
  let search = "";
  box.append(h("div", { class: "tools" }, h("h1", null, "Quarantine"), searchField("Search table, file, reason, sample", "", (words) => { search = words.toLowerCase(); draw(); }), h("label", null, all, " choose all shown"), buttons, count), list);
  let told = [];
  const matching = () => told.filter((item) => `${item.table} ${item.feed} ${item.file} ${item.reason} ${item.sample ?? ""}`.toLowerCase().includes(search));
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
    const shown = matching();
    count.textContent = chosen.size ? `${chosen.size} chosen` : `${search ? `${shown.length} of ` : ""}${told.length}${told.length === MOST ? " or more" : ""} held`;
    all.checked = shown.length > 0 && shown.every((item) => chosen.has(item.id) || !item.may_edit);
    all.disabled = !shown.some((item) => item.may_edit);
    buttons.forEach((button) => { button.disabled = !chosen.size; });
  }

  function tick(item) {
    const input = h("input", { type: "checkbox", "aria-label": `choose ${item.file.split("/").at(-1)}${item.row === null ? "" : `, row ${item.row}`}`, disabled: !item.may_edit, title: item.may_edit ? null : "You may not edit its DAG.", onchange: () => { if (input.checked) chosen.add(item.id); else chosen.delete(item.id); tally(); } });
    input.checked = chosen.has(item.id);
    return input;
  }

  async function load() {
    told = await get("quarantine", { limit: MOST });
    const now_there = JSON.stringify(told);
    if (now_there === key) return;
    key = now_there;
    for (const id of chosen) if (!told.some((item) => item.id === id)) chosen.delete(id);
    draw();
  }

  function draw() {
    list.replaceChildren(table([[""], ["Table"], ["File"], ["Row", "num"], ["Why"], ["Sample"], ["Since", "num"]],
      matching().map((item) => [tick(item), objectLink(item.table), h("span", { class: "file", title: item.file }, item.file.split("/").at(-1)), by(item.row ?? -1, item.row === null ? (item.sample === null ? "all" : "–") : String(item.row)), h("span", { class: "reason" }, item.reason.replace(`${item.file}: `, "")), item.sample === null ? "" : h("code", null, item.sample), by(item.at, time(item.at))]),
      told.length ? "Nothing held is like that." : "Nothing is held: every file and row that arrived has been loaded, or was dropped by somebody."));
    list.firstChild.classList.add("cards");
    tally();
  }

  await load();
  return { every: 4, refresh: load };
}
