// What was kept out of the tables, why, and what to do with it.
import { h } from "./dom.js";
export async function quarantine(box) { box.append(h("h1", null, "Quarantine")); }
