// Elements and words. Every value becomes a text node or an attribute, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** h("a", {href: "#/board", class: "plain", onclick: f}, "text", another) */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** 4.2 s, 3 m 12 s, 5 h 3 m, 2 d 4 h */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds < 10) return `${seconds.toFixed(1).replace(".0", "")} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const [size, large, small] = whole < 3600 ? [60, "m", "s"] : whole < 86400 ? [3600, "h", "m"] : [86400, "d", "h"];
  const rest = Math.floor((whole % size) / { m: 1, h: 60, d: 3600 }[large]);
  return `${Math.floor(whole / size)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/** A duration that ticks: whole seconds. */
export function ticking(seconds) {
  return seconds === null ? "–" : duration(Math.max(0, Math.floor(seconds)));
}

export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return new Intl.NumberFormat("en", { maximumSignificantDigits: digits, notation: Math.abs(value) >= 1e5 ? "compact" : "standard" }).format(value);
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${number(value)} ${units[unit]}`;
}

export function percent(share, digits = 1) {
  return share === null || share === undefined ? "–" : `${(share * 100).toFixed(digits)} %`;
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** 14:03:12, or with the day when it is not today. */
export function time(epoch) {
  if (epoch === null || epoch === undefined) return "–";
  const at = new Date(epoch * 1000);
  const clock = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return at.toDateString() === new Date().toDateString() ? clock : `${at.toLocaleDateString()} ${clock}`;
}

export function objectLink(name) {
  return h("a", { href: `#/object/${encodeURIComponent(name)}` }, name);
}

/** Goes to a page of Airflow's own: in the window around this one, which may not be left by a plain link. */
export function airflowLink(path, ...children) {
  const root = new URL("..", document.baseURI).pathname;
  const href = root + path;
  const go = (event) => {
    if (window.parent === window) return;
    event.preventDefault();
    window.parent.history.pushState(null, "", href);
    window.parent.dispatchEvent(new PopStateEvent("popstate"));
  };
  return h("a", { href, onclick: go }, ...children);
}

/** Replaces what is in `box` where it has changed, and keeps the focus and what is folded open. */
export function redraw(box, told, make) {
  const key = JSON.stringify(told);
  if (box.told === key) return;
  box.told = key;
  const all = () => [...box.querySelectorAll("a, button, summary, select, input")];
  const focused = all().indexOf(document.activeElement);
  const open = [...box.querySelectorAll("details")].map((each) => each.open);
  box.replaceChildren(...[make()].flat(2).filter(Boolean));
  [...box.querySelectorAll("details")].forEach((each, n) => { each.open = open[n] ?? false; });
  if (focused >= 0) all()[focused]?.focus({ preventScroll: true });
}

const beating = new Set();

/** A word that is written anew every second. */
export function live(words, attributes = null) {
  const element = h("span", attributes, words());
  beating.add([element, words]);
  return element;
}

setInterval(() => {
  for (const each of beating) {
    if (each[0].isConnected) each[0].textContent = each[1]();
    else if (each[2]) beating.delete(each);
    each[2] = true;
  }
}, 1000);

export function badge(kind, ...children) {
  return h("span", { class: `badge ${kind}` }, ...children);
}

/** A cell that is sorted by a value other than its words. */
export function by(value, shown) {
  return { value, shown };
}

/** How tables are sorted, by their titles: kept when one is drawn again. */
const orders = new Map();

/** A table of plain cells, sorted by a click on a title: columns are [title, class?]; a cell is a string, an element or `by(...)`. */
export function table(columns, rows, empty = "Nothing yet.") {
  if (!rows.length) return h("p", { class: "muted" }, empty);
  const key = columns.map(([title]) => title).join();
  const lines = rows.map((cells) => {
    const shown = cells.map((cell, n) => h("td", { class: columns[n][1], "data-title": columns[n][0] }, cell?.shown ?? cell));
    return { line: h("tr", null, shown), values: cells.map((cell, n) => (cell && "value" in Object(cell) ? cell.value : shown[n].textContent)) };
  });
  const heads = columns.map(([title, kind], n) => h("th", { scope: "col", class: kind }, title ? h("button", { type: "button", onclick: () => turn(n) }, title) : null));
  const body = h("tbody");
  function turn(n) {
    const [column, descending] = orders.get(key) ?? [];
    // Up, down, and as it came.
    if (column !== n) orders.set(key, [n, false]);
    else if (!descending) orders.set(key, [n, true]);
    else orders.delete(key);
    draw();
  }
  function draw() {
    const [column, descending] = orders.get(key) ?? [];
    const sorted = column === undefined ? lines : [...lines].sort((a, b) => (descending ? -1 : 1) * compare(a.values[column], b.values[column]));
    body.replaceChildren(...sorted.map((each) => each.line));
    heads.forEach((head, n) => head.setAttribute("aria-sort", n !== column ? "none" : descending ? "descending" : "ascending"));
  }
  draw();
  return h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, heads)), body));
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""), undefined, { numeric: true });
}

/** A search field that calls `changed` a moment after the last key. */
export function searchField(label, value, changed) {
  let waiting;
  const field = h("input", { type: "search", "aria-label": label, placeholder: label, value, maxlength: 100, oninput: () => { clearTimeout(waiting); waiting = setTimeout(() => changed(field.value.trim()), 150); } });
  return field;
}

export function choice(label, options, value, changed) {
  const select = h("select", { "aria-label": label, onchange: () => changed(select.value) },
    options.map(([key, words]) => h("option", { value: key, selected: key === value }, words)));
  return select;
}

let hiding;
export function toast(message, kind = "good") {
  const box = document.getElementById("toast");
  box.className = kind;
  box.textContent = message;
  box.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { box.hidden = true; }, kind === "bad" ? 9000 : 4000);
}

/** Asks for words or a number before something is done; resolves to them by name, or to null. */
export function ask(title, fields, action, extra = null) {
  return new Promise((resolve) => {
    const inputs = fields.map(([name, label, attributes]) => [name, label, h("input", { name, ...attributes })]);
    const form = h("form", { method: "dialog" },
      h("h2", null, title), extra,
      inputs.map(([, label, input]) => h("label", null, h("span", null, label), input)),
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "submit", class: "primary" }, action)));
    const dialog = h("dialog", null, form);
    let told = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      told = Object.fromEntries(inputs.map(([name, , input]) => [name, input.type === "number" ? input.valueAsNumber : input.value.trim()]));
      dialog.close();
    });
    dialog.addEventListener("close", () => { dialog.remove(); resolve(told); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
