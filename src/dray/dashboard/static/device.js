// One device: what it is, who has it, and its story.
import { get, path } from "./api.js";
import { byName, count, debounced, h, keepingFocus } from "./dom.js";
import { live, listen } from "./live.js";
import { holders } from "./node.js";
import { freeOf, prepared } from "./picture.js";
import { claimLink, deviceLink, nodeLink, podLink, shortName, stateBadge, stateOf, taintText } from "./states.js";
import { facts, joined, table, tableRow, valueText } from "./table.js";
import { duration, timeOf } from "./time.js";

const PARTITIONS = [["name", "Partition"], ["state", "State"], ["profile", "Profile"], ["holder", "Held by"]];

export async function render(page, { names }, signal) {
  let node = "";
  let others = []; // the claims and pods of its story
  const draw = async () => {
    const found = await get(path("devices", ...names), signal);
    if (signal.aborted) return;
    ({ node } = found.device);
    others = (found.device.holders ?? []).concat(found.story ?? []).flatMap((one) => [one.claim, one.pod, ...(one.pods ?? [])]).filter(Boolean);
    const open = page.querySelector("details")?.open;
    keepingFocus(page, () => page.replaceChildren(...contents(found)));
    if (open !== undefined) page.querySelector("details")?.toggleAttribute("open", open);
  };
  await draw();
  const soon = debounced(() => draw().catch(() => {}), 300); // a lost connection has its own banner
  listen("fleet", (changed) => (changed === null || changed.has(node)) && soon(), signal);
  listen("event", ({ object }) => others.some((name) => object?.endsWith(name)) && soon(), signal);
}

function contents({ device, story, notes }) {
  const state = stateOf(device);
  const { node } = device;
  return [
    h("p", { class: "crumbs" }, h("a", { href: "#/fleet" }, "Fleet"), " / ", h("a", { href: nodeLink(node) }, node), " / device"),
    h("h1", null, device.name, " ", stateBadge(state), device.simulated && h("span", { class: "badge plain" }, "simulated")),
    partitions(device),
    h("div", { class: "two" },
      h("section", null, h("h2", null, "What it is"), facts([
        ["Product", device.product],
        ["Kind", device.kind],
        ["Driver", h("code", null, device.driver)],
        ["Node", h("a", { href: nodeLink(node) }, node)],
        ["Profile", device.profile],
        ["Part of", device.parent && linkOf(device.parent)],
        ["PCI address", device.pciBusID && h("code", null, device.pciBusID)],
        ["PCIe root", device.pcieRoot && h("code", null, device.pcieRoot)],
        ["NUMA node", device.numa === null || device.numa === undefined ? "" : String(device.numa)],
        ["Shared", device.shareable ? "several claims may have a share at once" : ""],
        ["Held by", device.holders?.length ? holders(device.holders) : blockers(device) ?? "nobody"],
        ["Taints", joined((device.taints ?? []).map((taint) => h("code", { class: "taint" }, taintText(taint))), " ")],
      ]),
      values("Attributes", device.attributes),
      values("Capacity", device.capacity)),
      h("section", null, h("h2", { id: "story" }, "Story"), timeline(story ?? []), (notes ?? []).map((note) => h("p", { class: "note" }, note)))),
  ].filter(Boolean);
}

/** What it can be cut into, or is. */
function partitions(device) {
  const node = live.nodes.get(device.node);
  const one = node && prepared(node).tops.find((each) => each.device.id === device.id);
  if (!one?.parts.length) return null;
  const rows = one.parts.map((part) => tableRow(PARTITIONS, [
    h("a", { href: deviceLink(part.device.id) }, part.device.name), stateBadge(part.state), part.device.profile, holders(part.device.holders ?? [], part.note)]));
  return h("details", { open: one.parts.length <= 8 },
    h("summary", null, `${count(one.parts.length, "partition")}, ${freeOf(one.parts)} free`), table(`Partitions of ${device.name}`, PARTITIONS, rows));
}

const linkOf = (id) => h("a", { href: deviceLink(id) }, shortName(id));

/** Of a device that nobody has and nobody can have: what it needs is with others. */
function blockers({ blockedBy }) {
  return blockedBy?.length ? ["no claim of its own: what it needs is held by ", joined(blockedBy.map(linkOf))] : null;
}

function values(title, all) {
  const pairs = Object.entries(all ?? {}).sort(([a], [b]) => byName(a, b));
  return pairs.length ? [h("h3", null, title), facts(pairs.map(([name, value]) => [name, h("code", null, valueText(value))]))] : null;
}

/** Oldest first, as it went; between two steps stands how long it took. */
function timeline(story) {
  if (!story.length) {
    return h("p", { class: "muted" }, "Nothing is known of it yet. Its story is told by Events, and a cluster forgets those after an hour or so.");
  }
  let before = null;
  const steps = story.flatMap((step) => {
    const at = Date.parse(step.time ?? "");
    const waited = before !== null && !Number.isNaN(at) && at >= before ? (at - before) / 1000 : null;
    if (!Number.isNaN(at)) before = at;
    return [
      waited !== null && h("li", { class: "gap", "aria-label": `${duration(waited)} later` }, `+ ${duration(waited)}`),
      stepOf(step),
    ].filter(Boolean);
  });
  return h("ol", { class: "story", "aria-labelledby": "story" }, steps);
}

function stepOf(step) {
  return h("li", { class: `step ${step.stage}` },
    h("div", { class: "head" }, h("strong", null, step.stage),
      step.time ? timeOf(step.time, { focusable: true }) : h("span", { class: "muted" }, "time not known")),
    step.text && h("p", null, step.text),
    h("p", { class: "muted by" },
      [step.by && `by ${step.by}`,
        step.claim && h("span", null, "claim ", h("a", { href: claimLink(step.claim) }, step.claim)),
        step.pod && h("span", null, "pod ", h("a", { href: podLink(step.pod) }, step.pod))].filter(Boolean)));
}
