// The grid of nodes and devices. Only the rows in view are in the document, so a fleet may have any size.
import { count, h, place } from "./dom.js";
import { counted, freeOf, grouped, partsOf, prepared } from "./picture.js";
import { deviceLink, deviceText, mark, nodeLink, nodeName } from "./states.js";

const ROW = 62; // pixels; style.css says the same
const MARGIN = 6; // rows above and below the view
const MOST_PRINTED = 400; // rows
const MOST_CELLS = 64; // in a row; the node's page has the rest

export class Grid {
  constructor(signal) {
    this.rows = []; // [{node, shown}]
    this.drawn = new Map(); // name → {row, index, element}
    this.at = { row: 0, cell: 0 }; // where the focus is or was: the one cell that Tab reaches
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.element = h("div", { class: "grid", role: "grid", "aria-label": "Devices by node", tabindex: -1 }, this.body);
    this.card = h("div", { class: "card", "aria-hidden": "true" });
    this.card.hidden = true;
    this.frame = 0;
    this.widest = 0;
    const later = () => this.drawSoon();
    this.element.addEventListener("scroll", later, { passive: true });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("focusin", (event) => this.onFocus(event.target));
    this.element.addEventListener("focusout", () => this.hideCard());
    this.element.addEventListener("pointerover", (event) => this.onHover(event));
    this.element.addEventListener("pointerleave", () => this.hideCard());
    window.addEventListener("resize", later, { signal });
    window.addEventListener("beforeprint", () => this.draw(MOST_PRINTED), { signal });
    window.addEventListener("afterprint", later, { signal });
    signal.addEventListener("abort", () => this.card.remove());
  }

  /** Show these rows: [{node, shown}], where `shown` is what `filtered` gave. The same objects are not drawn again. */
  setRows(rows) {
    this.rows = rows;
    this.element.setAttribute("aria-rowcount", rows.length);
    this.at.row = Math.max(0, Math.min(this.at.row, rows.length - 1));
    this.body.style.height = `${rows.length * ROW}px`;
    this.draw();
  }

  drawSoon() {
    this.hideCard();
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  /** The rows in view; or, for paper, as many as there are. */
  draw(most = 0) {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { scrollTop, clientHeight } = this.element;
    const first = most ? 0 : Math.max(0, Math.floor(scrollTop / ROW) - MARGIN);
    const end = Math.min(this.rows.length, most || Math.ceil((scrollTop + (clientHeight || 800)) / ROW) + MARGIN);
    const focused = this.element.contains(document.activeElement) ? document.activeElement : null;
    const next = new Map();
    for (let index = first; index < end; index++) {
      const row = this.rows[index];
      const old = this.drawn.get(row.node.name);
      const same = old && old.row.node === row.node && old.row.shown.key === row.shown.key && old.index === index;
      next.set(row.node.name, same ? old : { row, index, element: this.rowOf(row, index) });
    }
    this.drawn = next;
    this.body.style.paddingTop = `${first * ROW}px`;
    place(this.body, [...next.values()].map((one) => one.element));
    this.tabStop();
    if (focused && !focused.isConnected) this.focusAgain(first, end);
    if (this.body.scrollWidth > this.widest) {
      this.widest = this.body.scrollWidth;
      this.body.style.minWidth = `${this.widest}px`;
    }
  }

  /** The focused row was drawn anew, or scrolled away: then the grid itself keeps the focus, and the keys go on from there. */
  focusAgain(first, end) {
    if (this.at.row >= first && this.at.row < end) this.cellAt(this.at)?.focus({ preventScroll: true });
    else this.element.focus({ preventScroll: true });
  }

  rowOf({ node, shown }, index) {
    const cells = { left: MOST_CELLS };
    const numas = grouped(shown.tops).map((numa) => this.numaOf(numa, shown, cells));
    const hidden = cells.left < 0 ? -cells.left : 0;
    return h(
      "div",
      { class: "row", role: "row", "aria-rowindex": index + 1, data: { index } },
      headOf(node),
      h("div", { class: "devices", role: "none" },
        numas,
        shown.tops.length === 0 && !shown.resources.length && h("div", { class: "none muted", role: "gridcell" }, "no devices"),
        shown.resources.map((one) => resourceOf(node, one)),
        hidden > 0 && h("div", { class: "cell more", role: "gridcell" },
          h("a", { href: nodeLink(node.name), tabindex: -1 }, `+${hidden} more`))),
    );
  }

  numaOf({ numa, roots }, shown, cells) {
    const drawn = roots.map(({ tops }) => h("div", { class: "root", role: "none" }, tops.map((one) => wholeOf(one, shown.parts, cells))));
    return h("div", { class: numa === null ? "numa loose" : "numa", role: "none" },
      h("span", { class: "numa-name", "aria-hidden": "true" }, numa === null ? "\u00a0" : `NUMA ${numa}`),
      h("div", { class: "roots", role: "none" }, drawn));
  }

  // Keys: one cell of the grid is in the order of Tab, the arrows move it.

  cellsOf(row) {
    const name = this.rows[row]?.node.name;
    return [...(this.drawn.get(name)?.element.querySelectorAll("a") ?? [])];
  }

  cellAt({ row, cell }) {
    const cells = this.cellsOf(row);
    return cells[Math.min(cell, cells.length - 1)];
  }

  tabStop() {
    for (const old of this.body.querySelectorAll('a[tabindex="0"]')) old.tabIndex = -1;
    const cell = this.cellAt(this.at) ?? this.body.querySelector("a");
    if (cell) cell.tabIndex = 0;
  }

  onFocus(target) {
    const row = target.closest?.(".row");
    if (!row) return;
    const index = Number(row.dataset.index);
    this.at = { row: index, cell: Math.max(0, this.cellsOf(index).indexOf(target)) };
    this.tabStop();
    if (target.matches(":focus-visible")) this.showCard(target);
  }

  onKey(event) {
    const { row, cell } = this.at;
    const last = this.rows.length - 1;
    const far = event.ctrlKey;
    const to = {
      ArrowRight: [row, Math.min(cell + 1, this.cellsOf(row).length - 1)],
      ArrowLeft: [row, Math.max(0, Math.min(cell, this.cellsOf(row).length - 1) - 1)],
      ArrowDown: [Math.min(row + 1, last), cell],
      ArrowUp: [Math.max(row - 1, 0), cell],
      Home: [far ? 0 : row, 0],
      End: [far ? last : row, Infinity],
      PageDown: [Math.min(row + 10, last), cell],
      PageUp: [Math.max(row - 10, 0), cell],
    }[event.key];
    if (!to || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.go(...to);
  }

  go(row, cell) {
    const top = row * ROW;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
    this.at = { row, cell: 0 };
    this.draw();
    const cells = this.cellsOf(row);
    const target = cells[Math.min(cell, cells.length - 1)];
    target?.focus({ preventScroll: true });
    target?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // The card: what a cell's name says, for those who see it.

  onHover(event) {
    const link = event.target.closest?.(".cell a[aria-label]");
    if (link && event.pointerType === "mouse") this.showCard(link);
    else this.hideCard();
  }

  showCard(link) {
    if (!link.getAttribute("aria-label")) return;
    const [head, ...facts] = link.getAttribute("aria-label").split(", ");
    this.card.replaceChildren(h("strong", null, head), ...facts.map((fact) => h("div", null, fact)));
    this.card.hidden = false;
    const box = link.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = this.card;
    const below = box.bottom + 6 + offsetHeight < window.innerHeight;
    this.card.style.left = `${Math.max(8, Math.min(box.left, window.innerWidth - offsetWidth - 8))}px`;
    this.card.style.top = `${below ? box.bottom + 6 : box.top - 6 - offsetHeight}px`;
  }

  hideCard() {
    this.card.hidden = true;
  }
}

function headOf(node) {
  const { tops } = prepared(node);
  const words = tops.length ? [`${counted(tops).free} of ${tops.length} free`] : [];
  if (node.hollow) words.push("simulated");
  else if (node.devices.some((device) => device.simulated)) words.push("simulated devices");
  return h("div", { class: "node", role: "rowheader" },
    h("a", { href: nodeLink(node.name), tabindex: -1, title: nodeName(node) }, nodeName(node)),
    h("span", { class: "under" }, node.ready === false && h("span", { class: "badge unhealthy" }, mark("unhealthy"), "not ready"), words.map((word) => h("span", null, word))));
}

/** What a device plugin serves: which of them a pod has, the cluster does not tell. */
function resourceOf(node, { name, used, allocatable }) {
  return h("div", { class: "cell resource", role: "gridcell" },
    h("a", { href: nodeLink(node.name), tabindex: -1, "aria-label": `${name.split("/").at(-1)} ${used}/${allocatable} in use, ${name} of a device plugin` },
      h("span", { class: "name", "aria-hidden": "true" }, name.split("/").at(-1)), " ", h("strong", { "aria-hidden": "true" }, `${used}/${allocatable}`)));
}

/** A device; with its partitions in it, where it has some. */
function wholeOf(one, hits, cells) {
  cells.left -= 1;
  if (cells.left < 0) return null;
  const { each, rest } = partsOf(one, hits);
  const cell = cellOf(one, false, hits && !hits.has(one));
  if (!each.length && !rest.length) return cell;
  return h("div", { class: "whole", role: "none" }, cell,
    h("div", { class: "parts", role: "none" }, each.map((part) => cellOf(part, true, false)), rest.length > 0 && restOf(one, rest)));
}

function restOf(one, rest) {
  const name = `+${rest.length} partitions of ${one.device.name}, ${freeOf(rest)} of them free`;
  return h("div", { class: "cell rest", role: "gridcell" },
    h("a", { href: deviceLink(one.device.id), tabindex: -1, "aria-label": name }, `+${rest.length}`));
}

function cellOf(one, isPart, dim) {
  const { device, state, note } = one;
  const where = [device.numa === null || device.numa === undefined ? "" : `NUMA node ${device.numa}`, device.pcieRoot ?? ""];
  const name = [deviceText(device, state), note, ...where].filter(Boolean).join(", ");
  return h("div", { class: `cell ${state}${isPart ? " part" : ""}${dim ? " dim" : ""}`, role: "gridcell" },
    h("a", { href: deviceLink(device.id), tabindex: -1, "aria-label": name, class: "link" },
      mark(state), !isPart && h("span", { class: "name", "aria-hidden": "true" }, device.name)));
}

/** "8 devices and 14 partitions on 2 nodes". */
export function countText(nodes, devices, parts) {
  return `${count(devices, "device")}${parts ? ` and ${count(parts, "partition")}` : ""} on ${count(nodes, "node")}`;
}
