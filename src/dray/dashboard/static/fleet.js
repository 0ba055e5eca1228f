// The fleet at a glance: the numbers, the filter, the grid.
import { announce, byName, count, debounced, fill, h, setText } from "./dom.js";
import { countText, Grid } from "./grid.js";
import { live, listen } from "./live.js";
import { filtered, filterOf, SORTS } from "./picture.js";
import { mark, STATES } from "./states.js";

const NUMBERS = [
  ["nodes", "Nodes", "#/fleet"],
  ["devices", "Devices", "#/fleet"],
  ["free", "Free", "#/fleet?state=free"],
  ["held", "Held", "#/fleet?state=held"],
  ["tainted", "Tainted", "#/fleet?state=tainted"],
  ["unhealthy", "Unhealthy", "#/fleet?state=unhealthy"],
  ["pendingClaims", "Pending claims", "#/claims?state=pending"],
  ["pendingPods", "Pending pods", "#/pods?state=pending"],
];

export function render(page, { values }, signal) {
  const view = new FleetView(values, signal);
  page.append(...view.elements());
  view.refresh();
  listen("fleet", () => view.refreshSoon(), signal);
}

class FleetView {
  constructor(values, signal) {
    this.grid = new Grid(signal);
    this.filterNumber = 0;
    this.frame = 0;
    const changed = () => this.onFilter();
    this.search = h("input", {
      type: "search", id: "q", placeholder: "Node, device, product, claim, pod", autocomplete: "off", spellcheck: "false", on: { input: changed },
    });
    this.search.value = values.get("q") ?? "";
    this.kind = h("select", { id: "kind", on: { change: changed } });
    this.wantedKind = values.get("kind") ?? "";
    this.state = select("state", [["", "Any state"], ...STATES.map((one) => [one, one[0].toUpperCase() + one.slice(1)])], values.get("state"), changed);
    this.sort = select("sort", [["name", "By name"], ["free", "Most free first"], ["problems", "Problems first"]], values.get("sort"), changed);
    this.found = h("p", { class: "found muted", id: "found" });
    this.numbers = new Map();
    this.bar = h("div", { class: "bar", "aria-hidden": "true" }, STATES.map((state) => h("span", { class: state })));
    this.notes = h("div", { class: "notes" });
    this.empty = h("div", { class: "empty" });
    this.say = debounced(() => announce(this.found.textContent), 700);
    signal.addEventListener("abort", () => cancelAnimationFrame(this.frame));
  }

  elements() {
    const numbers = NUMBERS.map(([key, word, href]) => {
      const value = h("span", { class: "value" }, "–");
      this.numbers.set(key, value);
      const shape = STATES.includes(key) ? mark(key) : null;
      return h("a", { class: `number n-${key}`, href }, value, h("span", { class: "word" }, shape, word));
    });
    const label = (id, text, control) => h("div", { class: "field" }, h("label", { for: id, class: "unseen" }, text), control);
    return [
      h("h1", { class: "unseen" }, "Fleet"),
      h("div", { class: "numbers" }, numbers),
      this.bar,
      this.notes,
      h("div", { class: "filters", role: "search" },
        label("q", "Search nodes, devices and holders", this.search),
        label("kind", "Kind", this.kind),
        label("state", "State", this.state),
        label("sort", "Order", this.sort),
        this.found),
      this.empty,
      this.grid.element,
      legend(),
      this.grid.card,
    ];
  }

  onFilter() {
    const values = new URLSearchParams();
    this.wantedKind = this.kind.value;
    const sort = this.sort.value === "name" ? "" : this.sort.value;
    for (const [name, value] of [["q", this.search.value.trim()], ["kind", this.kind.value], ["state", this.state.value], ["sort", sort]]) {
      if (value) values.set(name, value);
    }
    history.replaceState(null, "", `#/fleet${values.size ? `?${values}` : ""}`);
    this.filterNumber += 1;
    this.grid.element.scrollTop = 0;
    this.refreshSoon();
    this.say();
  }

  refreshSoon() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.refresh());
  }

  refresh() {
    this.frame = 0;
    if (!live.summary) return;
    this.showNumbers();
    this.showKinds();
    const filter = filterOf(this.search.value, this.wantedKind, this.state.value);
    const names = [...live.nodes.keys()].sort(SORTS[this.sort.value](live.nodes));
    const rows = [];
    let devices = 0;
    let parts = 0;
    for (const name of names) {
      const node = live.nodes.get(name);
      const shown = filtered(node, filter);
      if (!shown) continue;
      shown.key = this.filterNumber;
      devices += shown.matches;
      parts += shown.matchingParts;
      rows.push({ node, shown });
    }
    this.grid.element.hidden = rows.length === 0;
    this.grid.setRows(rows);
    setText(this.found, rows.length ? countText(rows.filter(({ node }) => !node.shared).length, devices, parts) : "");
    this.showEmpty(rows.length === 0);
  }

  showNumbers() {
    const { summary } = live;
    for (const [key, element] of this.numbers) setText(element, (summary[key] ?? 0).toLocaleString("en"));
    for (const [index, state] of STATES.entries()) this.bar.children[index].style.flexGrow = summary[state] ?? 0;
    const notes = live.notes.join("\n");
    if (this.notes.dataset.text !== notes) {
      this.notes.dataset.text = notes;
      fill(this.notes, live.notes.map((note) => h("p", { class: "note" }, note)));
    }
  }

  showKinds() {
    const kinds = new Set();
    for (const node of live.nodes.values()) for (const device of node.devices) kinds.add(device.kind);
    if (this.wantedKind) kinds.add(this.wantedKind);
    const sorted = [...kinds].filter(Boolean).sort(byName);
    if (this.kind.dataset.kinds === sorted.join(" ")) return;
    this.kind.dataset.kinds = sorted.join(" ");
    fill(this.kind, option("", "Any kind"), sorted.map((kind) => option(kind, kind)));
    this.kind.value = this.wantedKind;
  }

  showEmpty(isEmpty) {
    const state = !isEmpty ? "" : live.nodes.size ? "filter" : "none";
    if (this.empty.dataset.state === state) return;
    this.empty.dataset.state = state;
    const clear = () => {
      this.search.value = this.kind.value = this.state.value = "";
      this.onFilter();
      this.search.focus();
    };
    fill(this.empty, {
      "": null,
      filter: [h("h2", null, "Nothing fits this filter"),
        h("p", null, `The fleet has ${count(live.nodes.size, "node")}. Try fewer words, or another state.`),
        h("button", { type: "button", on: { click: clear } }, "Clear the filter")],
      none: [h("h2", null, "No nodes yet"),
        h("p", null, "A node appears here when its agent publishes devices. Start ", h("code", null, "dray agent"),
          " on a node, or try a simulated fleet: ", h("code", null, "dray up --sim PROFILE"), ".")],
    }[state]);
  }
}

const option = (value, text) => h("option", { value }, text);

function select(id, choices, chosen, changed) {
  const element = h("select", { id, on: { change: changed } }, choices.map(([value, text]) => option(value, text)));
  element.value = choices.some(([value]) => value === chosen) ? chosen : choices[0][0];
  return element;
}

function legend() {
  return h("ul", { class: "legend", "aria-label": "What the shapes mean" },
    STATES.map((state) => h("li", null, mark(state), state)),
    h("li", { class: "muted" }, "boxes: NUMA nodes · gaps: PCIe roots · small cells: partitions"));
}
