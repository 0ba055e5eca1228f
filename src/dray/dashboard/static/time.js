// Times: relative for the eye, absolute on hover and focus, kept up to date while they are on the page.
import { h, setText } from "./dom.js";

const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

let ahead = 0; // milliseconds by which this machine's clock is ahead of the server's

/** Reckon from the server's clock: a phone's may be wrong. */
export function setServerTime(stamp) {
  const server = Date.parse(stamp ?? "");
  if (!Number.isNaN(server)) ahead = Math.abs(Date.now() - server) > 3000 ? Date.now() - server : 0;
}

const now = () => Date.now() - ahead;

/** "3 min", "2 h 5 min", "0.4 s": at most two units. */
export function duration(seconds) {
  const all = Math.max(0, seconds);
  if (all < 10) return `${all < 0.01 ? "0" : all.toFixed(all < 1 ? 2 : 1)} s`;
  const first = UNITS.findIndex(([, size]) => all >= size);
  const [unit, size] = UNITS[first];
  const whole = Math.floor(all / size);
  const next = UNITS[first + 1];
  const rest = next && whole < 10 ? Math.floor((all - whole * size) / next[1]) : 0;
  return rest ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
}

function relative(ms, at) {
  const seconds = (at - ms) / 1000;
  if (Math.abs(seconds) < 2) return "now";
  const away = Math.abs(seconds) < 60 ? `${Math.floor(Math.abs(seconds))} s` : duration(Math.abs(seconds));
  return seconds < 0 ? `in ${away}` : `${away} ago`;
}

/** "2026-11-16 02:50:01" in the reader's own zone, with its name. */
export function absolute(ms) {
  return new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" }).format(ms);
}

/** A <time>; `focusable` where nothing next to it takes the focus. */
export function timeOf(stamp, { focusable = false } = {}) {
  const ms = typeof stamp === "number" ? stamp : Date.parse(stamp ?? "");
  if (Number.isNaN(ms)) return h("span", { class: "muted" }, stamp ? String(stamp) : "time unknown");
  const full = absolute(ms);
  return h(
    "time",
    {
      datetime: new Date(ms).toISOString(),
      title: full,
      class: "when",
      tabindex: focusable ? 0 : null,
      data: { ms, full },
    },
    relative(ms, now()),
  );
}

setInterval(() => {
  if (document.hidden) return;
  const at = now();
  for (const one of document.querySelectorAll("time.when")) setText(one, relative(Number(one.dataset.ms), at));
}, 5000);
