// Requests to our own server. Every failure is an ApiError whose message can be shown as it is.

export class ApiError extends Error {
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.field = body?.field ?? null;
    this.causes = body?.causes ?? [];
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The dashboard's server does not answer. Is it still running?");
  }
  if (answer.status === 204) return null;
  let body = null;
  try {
    body = await answer.json();
  } catch {
    // A body that is not JSON says nothing more than the status.
  }
  if (!answer.ok) throw new ApiError(answer.status, body?.error ?? `The server answered ${answer.status}.`, body);
  return body;
}

export const get = (path, signal) => ask(path, { signal });

export const post = (path, value) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });

/** A path below /api from names that may hold anything. */
export const path = (...parts) => `/api/${parts.map(encodeURIComponent).join("/")}`;

/** Name a query; empty values are left out. */
export function query(values) {
  const kept = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
}
