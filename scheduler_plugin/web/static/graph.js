// The dependency graph around one object: left to right, coloured by freshness. Never all of it at once.

import { get, now } from "./api.js";
import { choice, duration, h, plural, s, ticking } from "./dom.js";

const WIDE = 168, TALL = 44, GAP_X = 64, GAP_Y = 14;
const DEPTHS = [["1", "1 step"], ["2", "2 steps"], ["3", "3 steps"], ["6", "6 steps"]];

export async function graph(box, name) {
  if (!name) {
    const { objects } = await get("board", { sort: "popularity", limit: 1 });
    if (!objects.length) throw new Error("There is no object yet.");
    name = objects[0].name;
  }
  let depth = sessionStorage.getItem("freshet-depth") ?? "2";
  const canvas = h("div", { class: "scroll canvas" });
  const card = h("div", { class: "card", hidden: true });
  // The card says what the box has no room for; whoever listens hears it from the box itself.
  const point = (event) => {
    const node = told?.nodes.find((each) => each.name === event.target.closest?.(".node")?.dataset.name);
    card.hidden = !node;
    if (node) showCard(card, node, event.target.closest(".node"));
  };
  for (const when of ["pointerover", "focusin"]) canvas.addEventListener(when, point);
  for (const when of ["pointerleave", "focusout"]) canvas.addEventListener(when, () => { card.hidden = true; });
  const found = h("datalist", { id: "objects" });
  const search = h("input", {
    type: "search", list: "objects", "aria-label": "Centre", value: name,
    oninput: async () => { const { objects } = await get("board", { search: search.value.slice(0, 100), sort: "name", descending: false, limit: 15 }); found.replaceChildren(...objects.map((row) => h("option", { value: row.name }))); },
    onchange: () => { location.hash = `#/graph/${encodeURIComponent(search.value)}`; },
  });
  box.append(
    h("div", { class: "tools" }, h("h1", null, "Graph"), h("label", null, "around ", search), found, choice("Depth", DEPTHS, depth, (value) => { depth = value; sessionStorage.setItem("freshet-depth", value); load(); }), key()),
    canvas, card, h("p", { class: "muted" }, "Click an object for its page; Shift-click puts it in the middle. +1: a neighbour that is not shown."));
  let told;

  async function load() {
    told = await get(`objects/${encodeURIComponent(name)}/graph`, { up: depth, down: depth });
    const focused = document.activeElement?.getAttribute?.("data-name");
    canvas.replaceChildren(draw(told));
    if (focused) canvas.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  await load();
  requestAnimationFrame(() => {
    const [around, middle] = [canvas, canvas.querySelector(".centre")].map((each) => each.getBoundingClientRect());
    canvas.scrollBy(middle.x + middle.width / 2 - around.x - around.width / 2, middle.y + middle.height / 2 - around.y - around.height / 2);
  });
  return { every: 2, refresh: load };
}

function showCard(card, node, box) {
  card.replaceChildren(h("strong", null, node.name), h("dl", null, facts(node).map(([name, value]) => [h("dt", null, name), h("dd", null, value)])));
  const { left, bottom, top } = box.getBoundingClientRect();
  card.style.left = `${Math.max(8, Math.min(left, window.innerWidth - card.offsetWidth - 8))}px`;
  card.style.top = `${bottom + card.offsetHeight + 8 < window.innerHeight ? bottom + 6 : top - card.offsetHeight - 6}px`;
}

/** What there is to say of an object, as [name, value]. */
function facts(node) {
  return [
    ["staleness", node.current_to === null ? "nothing yet" : ticking(now() - node.current_to)],
    ["limit", node.limit === null ? "none" : duration(node.limit)],
    ["state", [node.fresh ? "fresh" : "stale", node.running && `job ${node.running}`, node.held && "held"].filter(Boolean).join(", ")],
    node.kind === "table" && ["pending", plural(node.pending, "file")],
    node.dirty && ["stale ancestors", String(node.dirty)],
    node.virtual ? ["kind", "virtual: never run"] : ["next job", `about ${duration(node.cost)}`],
  ].filter(Boolean);
}

function key() {
  const item = (kind, words) => h("span", null, h("i", { class: `swatch node-${kind}` }), words);
  return h("span", { class: "legend" }, item("fresh", "fresh"), item("stale", "stale"), item("breached", "past its limit"), item("running", "running"));
}

function state(node) {
  if (node.limit !== null && node.current_to !== null && now() - node.current_to > node.limit) return "breached";
  return node.fresh ? "fresh" : "stale";
}

/** Columns by the longest way within what is shown; within a column, near the middle of its parents. */
function layout({ nodes, edges }) {
  const parents = new Map(nodes.map((node) => [node.name, []]));
  for (const [parent, child] of edges) parents.get(child).push(parent);
  const column = new Map();
  const place = (name) => {
    if (!column.has(name)) {
      column.set(name, 0);
      column.set(name, Math.max(-1, ...parents.get(name).map(place)) + 1);
    }
    return column.get(name);
  };
  nodes.forEach((node) => place(node.name));
  // A table whose first reader is far to the right stands just before it.
  const children = new Map(nodes.map((node) => [node.name, []]));
  for (const [parent, child] of edges) children.get(parent).push(child);
  for (const node of nodes) {
    if (!parents.get(node.name).length && children.get(node.name).length) column.set(node.name, Math.min(...children.get(node.name).map((each) => column.get(each))) - 1);
  }
  const columns = [];
  for (const node of [...nodes].sort((a, b) => a.name.localeCompare(b.name))) (columns[column.get(node.name)] ??= []).push(node.name);
  const row = new Map();
  const middle = (names) => (names.length ? names.reduce((sum, each) => sum + (row.get(each) ?? 0), 0) / names.length : 0);
  const settle = (names, near) => {
    names.sort((a, b) => middle(near.get(a)) - middle(near.get(b)));
    names.forEach((each, n) => row.set(each, n - (names.length - 1) / 2));
  };
  for (let pass = 0; pass < 4; pass += 1) {
    for (const names of columns) if (names) settle(names, parents);
    for (const names of [...columns].reverse()) if (names && pass < 3) settle(names, children);
  }
  const tallest = Math.max(...columns.map((names) => names?.length ?? 0));
  const at = new Map(nodes.map((node) => [node.name, [10 + column.get(node.name) * (WIDE + GAP_X), 10 + (row.get(node.name) + (tallest - 1) / 2) * (TALL + GAP_Y)]]));
  return { at, width: columns.length * (WIDE + GAP_X) - GAP_X + 20, height: tallest * (TALL + GAP_Y) - GAP_Y + 20 };
}

function draw(told) {
  const { at, width, height } = layout(told);
  const fresh = new Map(told.nodes.map((node) => [node.name, node.fresh]));
  const wires = told.edges.map(([parent, child]) => {
    const [x1, y1] = at.get(parent), [x2, y2] = at.get(child);
    const a = x1 + WIDE, b = y1 + TALL / 2, d = y2 + TALL / 2;
    return s("path", { class: `wire ${fresh.get(parent) ? "" : "stale"}`, d: `M${a} ${b}C${a + GAP_X / 2} ${b} ${x2 - GAP_X / 2} ${d} ${x2} ${d}` });
  });
  const boxes = told.nodes.map((node) => {
    const [x, y] = at.get(node.name);
    const age = node.current_to === null ? "nothing yet" : `${ticking(now() - node.current_to)} behind`;
    const short = node.name.length > 20 ? `${node.name.slice(0, 19)}…` : node.name;
    return s("a", {
      href: `#/object/${encodeURIComponent(node.name)}`, class: `node node-${state(node)} ${node.running ? "node-running" : ""} ${node.virtual ? "virtual" : ""} ${node.name === told.centre ? "centre" : ""}`,
      transform: `translate(${x} ${y})`, "data-name": node.name, "aria-label": `${node.name}: ${facts(node).map((each) => each.join(" ")).join(", ")}`,
      onclick: (event) => { if (event.shiftKey) { event.preventDefault(); location.hash = `#/graph/${encodeURIComponent(node.name)}`; } },
    },
    s("rect", { width: WIDE, height: TALL, rx: node.kind === "table" ? 4 : 14 }),
    s("text", { x: 10, y: 18 }, short),
    s("text", { x: 10, y: 34, class: "small" }, node.running ? `${age} · running` : age),
    node.hidden ? s("text", { x: WIDE - 8, y: 34, class: "small", "text-anchor": "end" }, `+${node.hidden}`) : null);
  });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `the objects around ${told.centre}` }, wires, boxes);
}
