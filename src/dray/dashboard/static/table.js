// Tables that become cards on a phone.
import { h } from "./dom.js";

/** `columns`: [[key, title]…]; `rows`: elements from `tableRow`. */
export function table(caption, columns, rows) {
  return h("div", { class: "table-wrap" },
    h("table", { class: "stacks" },
      h("caption", { class: "unseen" }, caption),
      h("thead", null, h("tr", null, columns.map(([key, title]) => h("th", { scope: "col", class: `c-${key}` }, title)))),
      h("tbody", null, rows)));
}

/** One row; the first cell names it. `cells` are nodes or texts, in the order of `columns`. */
export function tableRow(columns, cells, props) {
  return h("tr", props, columns.map(([key, title], index) => {
    const cell = cells[index];
    const empty = cell === null || cell === undefined || cell === "" || (Array.isArray(cell) && cell.length === 0);
    return h(index ? "td" : "th", { class: `c-${key}${empty ? " blank" : ""}`, scope: index ? null : "row", data: { title } },
      h("div", null, empty ? h("span", { class: "muted", "aria-hidden": "true" }, "–") : cell));
  }));
}

/** Facts as a list of terms: [[term, value]…]; empty ones are left out. */
export function facts(pairs) {
  const kept = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length));
  return h("dl", { class: "facts" }, kept.map(([term, value]) => h("div", null, h("dt", null, term), h("dd", null, value))));
}

/** Things with something between them. */
export function joined(things, between = ", ") {
  return things.flatMap((one, index) => (index ? [between, one] : [one]));
}

/** Attributes and capacities: {name: value} or {name: {string|int|bool|version|value: …}}. */
export function valueText(value) {
  if (value === null || typeof value !== "object") return String(value);
  const inner = Object.values(value);
  if (Array.isArray(value)) return value.map(valueText).join(", ");
  return inner.length === 1 ? valueText(inner[0]) : "value" in value ? valueText(value.value) : JSON.stringify(value);
}
