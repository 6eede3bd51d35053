// Freshet's API, and the server's clock.

const ROOT = new URL("api/v1/", document.baseURI);
let offset = 0;

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Seconds since 1970 by the server's clock. */
export function now() {
  return Date.now() / 1000 + offset;
}

/** GET; the browser's cache and the server's ETags make an unchanged answer cheap. */
export async function get(path, query = {}, signal = undefined) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return read(await fetch(url, { credentials: "same-origin", cache: "no-cache", signal }));
}

export async function post(path, body = {}) {
  return read(await fetch(new URL(path, ROOT), {
    method: "POST",
    credentials: "same-origin",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  }));
}

async function read(answer) {
  const clock = Number(answer.headers.get("X-Freshet-Now"));
  if (clock) offset = clock - Date.now() / 1000;
  const told = await answer.json().catch(() => null);
  if (!answer.ok) throw new ApiError(answer.status, refusal(answer.status, told));
  return told;
}

function refusal(status, told) {
  if (status === 401) return "You are not logged in to Airflow any more. Reload the page.";
  const detail = told?.detail;
  if (Array.isArray(detail)) return detail.map((each) => `${each.loc?.at(-1)}: ${each.msg}`).join("; ");
  return typeof detail === "string" ? detail : `The server answered ${status}.`;
}
