// The page: tabs, the address, and one view at a time. A view is a function that fills the content and may return
// {refresh, every, tick, close}: asked for news every so many seconds, ticked every second, closed when it is left.

import { ApiError, get } from "./api.js";
import { board } from "./board.js";
import { decisions } from "./decisions.js";
import { badge, h, redraw, toast } from "./dom.js";
import { graph } from "./graph.js";
import { object } from "./object.js";
import { picture } from "./picture.js";
import { quarantine } from "./quarantine.js";
import { followTheme } from "./theme.js";
import { whatIf } from "./whatif.js";

const TABS = [
  ["board", "Board", board],
  ["graph", "Graph", graph],
  ["object", "Object", object],
  ["decisions", "Decisions", decisions],
  ["whatif", "What if", whatIf],
  ["quarantine", "Quarantine", quarantine],
  ["qod", "QoD picture", picture],
];
const content = document.getElementById("content");
let view = null;
let polling = 0;
let lastObject = null;

function route() {
  const [, tab = "board", name = ""] = location.hash.replace(/^#/, "").split("/");
  return { tab: TABS.some(([key]) => key === tab) ? tab : "board", name: decodeURIComponent(name) };
}

async function show() {
  const { tab, name } = route();
  if (name) lastObject = name;
  view?.close?.();
  view = null;
  clearTimeout(polling);
  drawTabs(tab);
  tellParent();
  const box = h("section", { class: `view ${tab}` });
  try {
    const opened = await TABS.find(([key]) => key === tab)[2](box, name || (tab === "object" || tab === "graph" ? lastObject : ""));
    if (route().tab !== tab || (name && route().name !== name)) return opened?.close?.();
    content.replaceChildren(box);
    view = opened;
    poll();
  } catch (error) {
    content.replaceChildren(h("p", { class: "bad", role: "alert" }, error.message));
    if (!(error instanceof ApiError)) throw error;
    polling = setTimeout(show, 5000);
  }
}

const bar = document.getElementById("tabs");
const tabs = TABS.map(([key, words]) => [key, h("a", null, words)]);
bar.append(...tabs.map(([, tab]) => tab));

function drawTabs(current) {
  for (const [key, tab] of tabs) {
    const own = (key === "object" || key === "graph") && lastObject ? `/${encodeURIComponent(lastObject)}` : "";
    tab.href = `#/${key}${own}`;
    tab.ariaCurrent = key === current ? "page" : null;
  }
  intoSight();
}

/** In a narrow window the tabs are wider than their bar. */
function intoSight() {
  const tab = bar.querySelector("[aria-current]");
  if (tab) bar.scrollLeft = tab.offsetLeft - bar.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
}

/** The address bar around the page shows where it is, so that it can be reloaded and passed on. */
function tellParent() {
  if (window.parent === window || location.search) return;
  try {
    const around = window.parent.location;
    if (around.pathname.includes("/plugin/freshet")) {
      const base = around.pathname.replace(/\/plugin\/freshet.*/, "/plugin/freshet");
      window.parent.history.replaceState(window.parent.history.state, "", `${base}${location.pathname}${location.hash}`);
    }
  } catch { /* a stranger's window */ }
}

function poll() {
  clearTimeout(polling);
  const current = view;
  if (!current?.refresh) return;
  polling = setTimeout(async () => {
    if (!document.hidden) {
      try {
        await current.refresh();
        document.body.classList.remove("away");
      } catch (error) {
        if (error.name !== "AbortError") {
          document.body.classList.add("away");
          toast(error.message, "bad");
        }
      }
    }
    if (view === current) poll();
  }, (current.every ?? 2) * 1000);
}

setInterval(() => view?.tick?.(), 1000);

async function tick() {
  try {
    const { summary } = await get("board", { limit: 0 });
    const { state = "", silent } = summary.tick;
    const told = document.getElementById("tick");
    const kind = silent ? "bad" : state.startsWith("deciding") ? "good" : "warn";
    const words = silent ? "not ticking" : state.split(":")[0] || "starting";
    // Only when it changes: it is read aloud.
    redraw(told, [kind, words, summary.policy], () => [badge(kind, words), h("span", { class: "muted wide" }, ` policy ${summary.policy}`)]);
    told.title = silent ? "The loop gives no sign of life: is freshet_tick running in Airflow?" : state;
  } catch { /* the view tells */ }
  setTimeout(tick, 5000);
}

new ResizeObserver(intoSight).observe(bar);
followTheme();
const dag = new URLSearchParams(location.search).get("dag");
if (dag !== null && !location.hash) {
  const match = /^(?:load|refresh)__(.+)$/.exec(dag);
  document.body.classList.toggle("foreign", !match);
  history.replaceState(null, "", match ? `#/object/${encodeURIComponent(match[1])}` : "#/board");
}
window.addEventListener("hashchange", show);
window.addEventListener("popstate", () => drawTabs(route().tab));
show().then(tick);
