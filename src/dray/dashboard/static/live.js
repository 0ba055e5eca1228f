// What the page knows of the cluster, kept up to date by one stream. Pages read `live` and listen to its changes.
import { ApiError, get, query } from "./api.js";
import { setServerTime } from "./time.js";

const MOST_EVENTS = 1000;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15000;

export const live = {
  nodes: new Map(), // name → node
  summary: null, // null until the first picture is here
  notes: [],
  server: {}, // address and version of the API server
  revision: "",
  events: [], // newest first
  link: "wait", // wait, ok, lag (the cluster is away) or lost (our server is)
  since: 0, // when `link` became what it is
  why: "",
};

const changes = new EventTarget();
let source = null;
let pause = FIRST_PAUSE_MS;
let attempt = 0; // of connecting: answers to earlier ones are not looked at
let onDenied = () => {};

/** Listen until `signal` is aborted. Topics: fleet (detail: changed names, null for all),
 * claims and pods (detail: {changed, removed}, null where all may have changed), event, link. */
export function listen(topic, act, signal) {
  changes.addEventListener(topic, (event) => act(event.detail), { signal });
}

const tell = (topic, detail) => changes.dispatchEvent(new CustomEvent(topic, { detail }));

/** Begin; `denied` is called when the server wants a token. May be called again after a login. */
export function start(denied) {
  onDenied = denied;
  connect();
}

function setLink(link, why = "", since = NaN) {
  if (live.link === link && live.why === why) return;
  if (live.link !== link) live.since = since || Date.now();
  live.link = link;
  live.why = why;
  tell("link", link);
}

/** The whole picture first, then the stream from its revision on, so that nothing is missed between them. */
async function connect() {
  source?.close();
  source = null;
  const mine = ++attempt;
  try {
    await load(mine);
  } catch (error) {
    if (mine === attempt) onFailed(error);
    return;
  }
  if (mine !== attempt) return;
  source = new EventSource(`/api/stream${query({ since: live.revision })}`);
  source.addEventListener("open", () => {
    pause = FIRST_PAUSE_MS;
    if (live.link !== "lag") setLink("ok");
  });
  source.addEventListener("fleet", (event) => onFleet(JSON.parse(event.data)));
  source.addEventListener("claims", (event) => tell("claims", JSON.parse(event.data)));
  source.addEventListener("pods", (event) => tell("pods", JSON.parse(event.data)));
  source.addEventListener("event", (event) => onEvent(JSON.parse(event.data)));
  source.addEventListener("reset", () => load(mine).then(tellLists).catch(onFailed));
  source.addEventListener("lag", (event) => onLag(JSON.parse(event.data)));
  source.addEventListener("error", () => onFailed(new ApiError(0, "")));
}

/** After a gap nobody knows what changed: the lists are read again. */
function tellLists() {
  tell("claims", null);
  tell("pods", null);
}

async function load(mine) {
  const fleet = await get("/api/fleet");
  if (mine !== attempt) return;
  const again = live.summary !== null;
  live.nodes = new Map(fleet.nodes.map((node) => [node.name, node]));
  live.summary = fleet.summary;
  live.notes = fleet.notes ?? [];
  live.server = fleet.server ?? {};
  live.revision = fleet.revision;
  setServerTime(fleet.time);
  if (fleet.lag) onLag({ lagging: true, ...fleet.lag });
  else if (live.link === "lag") setLink("ok");
  tell("fleet", null);
  if (again) tellLists();
}

function onFleet(change) {
  live.revision = change.revision;
  live.summary = change.summary;
  if (change.notes) live.notes = change.notes;
  for (const [name, node] of Object.entries(change.nodes)) {
    if (node === null) live.nodes.delete(name);
    else live.nodes.set(name, node);
  }
  tell("fleet", new Set(Object.keys(change.nodes)));
}

/** An event that happened again has the key of the earlier one, and takes its place. */
export function withEvent(events, event) {
  const old = event.key ? events.findIndex((one) => one.key === event.key) : -1;
  if (old >= 0) events.splice(old, 1);
  events.unshift(event);
  if (events.length > MOST_EVENTS) events.length = MOST_EVENTS;
}

function onEvent(event) {
  withEvent(live.events, event);
  tell("event", event);
}

function onLag({ lagging, since, reason }) {
  setLink(lagging ? "lag" : "ok", reason ?? "", Date.parse(since ?? ""));
}

function onFailed(error) {
  source?.close();
  source = null;
  if (error.status === 401) {
    onDenied();
    return;
  }
  setLink("lost", error.message);
  const mine = attempt;
  setTimeout(() => mine === attempt && connect(), pause);
  pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
}
