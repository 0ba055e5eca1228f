// Events as they come: pause, filter.
import { get } from "./api.js";
import { announce, count, fill, h, place, setText } from "./dom.js";
import { live, listen, withEvent } from "./live.js";
import { claimLink, mark, nodeLink, podLink } from "./states.js";
import { timeOf } from "./time.js";

const MOST_SHOWN = 300;
const LINKS = { resourceclaim: claimLink, pod: podLink };

export async function render(page, { values }, signal) {
  const view = new EventsView(values);
  page.append(...view.elements());
  const { rows } = await get("/api/events?limit=500", signal);
  if (signal.aborted) return;
  const newer = live.events;
  live.events = rows;
  for (const event of [...newer].reverse()) if (event.key) withEvent(live.events, event);
  view.draw();
  listen("event", () => view.onEvent(), signal);
}

class EventsView {
  constructor(values) {
    this.paused = null; // the events at that moment
    this.missed = 0;
    this.frame = 0;
    this.drawn = new Map(); // event → element
    const draw = () => this.draw();
    this.search = h("input", { type: "search", id: "q", placeholder: "Reason, object, text", autocomplete: "off", spellcheck: "false", on: { input: draw } });
    this.search.value = values.get("q") ?? "";
    this.type = h("select", { id: "type", on: { change: draw } }, h("option", { value: "" }, "All events"), h("option", { value: "Warning" }, "Warnings only"));
    this.pause = h("button", { type: "button", "aria-pressed": "false", on: { click: () => this.toggle() } }, "Pause");
    this.found = h("p", { class: "found muted" });
    this.list = h("ol", { class: "events-list", "aria-label": "Events, newest first" });
    this.empty = h("div", { class: "empty", hidden: true });
  }

  elements() {
    return [
      h("h1", null, "Events"),
      h("div", { class: "filters", role: "search" },
        h("div", { class: "field" }, h("label", { for: "q", class: "unseen" }, "Search events"), this.search),
        h("div", { class: "field" }, h("label", { for: "type", class: "unseen" }, "Type"), this.type),
        this.pause, this.found),
      this.empty,
      this.list,
    ];
  }

  toggle() {
    this.paused = this.paused ? null : [...live.events];
    this.missed = 0;
    this.pause.setAttribute("aria-pressed", String(Boolean(this.paused)));
    setText(this.pause, this.paused ? "Go on" : "Pause");
    announce(this.paused ? "Paused" : "Live again");
    this.draw();
  }

  onEvent() {
    if (this.paused) {
      this.missed += 1;
      setText(this.found, `${count(this.missed, "newer event")} waiting`);
    } else if (!this.frame) {
      this.frame = requestAnimationFrame(() => this.draw());
    }
  }

  draw() {
    this.frame = 0;
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = (this.paused ?? live.events).filter((event) => fits(event, words, this.type.value));
    const shown = all.slice(0, MOST_SHOWN);
    const next = new Map(shown.map((event) => [event, this.drawn.get(event) ?? item(event)]));
    this.drawn = next;
    place(this.list, [...next.values()]);
    setText(this.found, this.missed ? `${count(this.missed, "newer event")} waiting` : count(all.length, "event"));
    this.empty.hidden = shown.length > 0;
    if (!shown.length) {
      fill(this.empty, words.length || this.type.value
        ? [h("h2", null, "No event fits this filter"), h("p", null, "Try fewer words, or all types.")]
        : [h("h2", null, "Quiet so far"), h("p", null, "Events appear here as devices are allocated, prepared and given back. Create a claim to see some: ", h("code", null, "dray apply -f FILE"), ".")]);
    }
  }
}

function fits(event, words, type) {
  if (type && event.type !== type) return false;
  const text = `${event.reason} ${event.object} ${event.message} ${event.by}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function item(event) {
  return h("li", { class: event.type === "Warning" ? "warning" : "normal" },
    timeOf(event.time, { focusable: true }),
    h("span", { class: "reason" }, event.type === "Warning" && [mark("tainted"), h("span", { class: "unseen" }, "Warning: ")], h("strong", null, event.reason)),
    objectLink(event.object),
    h("span", { class: "message" }, event.message, event.count > 1 && h("span", { class: "muted" }, ` (${event.count} times)`)),
    h("span", { class: "muted by" }, event.by));
}

/** "Pod ml/train-0" or "pod/ml/train-0": pods, claims and nodes have pages. */
function objectLink(object) {
  const [, kind, name] = /^([A-Za-z]+)[ /](.+)$/.exec(object ?? "") ?? [];
  const known = kind?.toLowerCase();
  const href = LINKS[known] && name.includes("/") ? LINKS[known](name) : known === "node" ? nodeLink(name.split("/").at(-1)) : null;
  return h("span", { class: "object" }, href ? h("a", { href }, object) : object);
}
