// Other policies and other slots on what really happened.
import { h } from "./dom.js";
export async function whatIf(box) { box.append(h("h1", null, "What if")); }
