// One node: its picture, what device plugins serve, its devices.
import { get, path } from "./api.js";
import { count, debounced, h, keepingFocus } from "./dom.js";
import { listen } from "./live.js";
import { counted, prepared } from "./picture.js";
import { claimLink, deviceLink, mark, nodeName, podLink, stateBadge, taintText } from "./states.js";
import { facts, joined, table, tableRow } from "./table.js";
import { timeOf } from "./time.js";
import { topologyOf } from "./topology.js";

const DEVICES = [["name", "Device"], ["state", "State"], ["product", "Product"], ["holder", "Held by"], ["place", "Place"], ["driver", "Driver"]];
const RESOURCES = [["name", "Resource"], ["used", "In use"], ["allocatable", "Allocatable"], ["capacity", "Capacity"]];
const CONDITIONS = [["type", "Condition"], ["status", "Status"], ["reason", "Reason"], ["message", "Message"], ["since", "Since"]];

export async function render(page, { names: [name] }, signal) {
  const draw = async () => {
    const node = await get(path("nodes", name), signal);
    if (!signal.aborted) keepingFocus(page, () => page.replaceChildren(...contents(node, signal)));
  };
  await draw();
  const soon = debounced(() => draw().catch(() => {}), 300); // a lost connection has its own banner
  listen("fleet", (changed) => (changed === null || changed.has(name)) && soon(), signal);
}

function contents(node, signal) {
  const all = prepared(node).entries;
  const { tops } = prepared(node);
  const counts = counted(tops);
  const parts = all.length - tops.length;
  return [
    h("p", { class: "crumbs" }, h("a", { href: "#/fleet" }, "Fleet"), " / node"),
    h("h1", null, nodeName(node), " ",
      node.ready ? h("span", { class: "badge free" }, "ready") : h("span", { class: "badge unhealthy" }, mark("unhealthy"), "not ready"),
      node.hollow && h("span", { class: "badge plain" }, "simulated node")),
    h("p", { class: "lead" }, all.length
      ? `${count(tops.length, "device")}${parts ? ` with ${count(parts, "partition")}` : ""}: ${Object.entries(counts).filter(([, many]) => many).map(([state, many]) => `${many} ${state}`).join(", ")}.`
      : "No devices are published for this node. An agent on it would: see dray agent --help."),
    all.length > 0 && node.topology?.length > 0 && h("section", null, h("h2", null, "Topology"), topologyOf(node, node.topology, signal)),
    resources(node.resources ?? []),
    all.length > 0 && h("section", null, h("h2", null, "Devices"), deviceTable(node, tops, parts)),
    conditions(node.conditions ?? []),
    node.labels && h("section", null, h("h2", null, "Labels"), facts(Object.entries(node.labels))),
  ].filter(Boolean);
}

let showsParts = false; // kept from page to page

/** Whole devices; partitions, which may be many, on demand. */
function deviceTable(node, tops, parts) {
  const place = h("div");
  const draw = () => {
    const rows = tops.flatMap((one) => (showsParts ? [one, ...one.parts] : [one]));
    place.replaceChildren(table(`Devices of ${nodeName(node)}`, DEVICES, rows.map(deviceRow)));
  };
  const toggle = h("button", { type: "button", "aria-pressed": String(showsParts), on: { click: () => {
    showsParts = !showsParts;
    toggle.setAttribute("aria-pressed", String(showsParts));
    draw();
  } } }, `Show ${count(parts, "partition")}`);
  draw();
  return [parts > 0 && h("p", null, toggle), place];
}

function deviceRow(one) {
  const { device } = one;
  return tableRow(DEVICES, [
    [device.parent && h("span", { class: "muted", "aria-hidden": "true" }, "└ "), h("a", { href: deviceLink(device.id) }, device.name)],
    [stateBadge(one.state), (device.taints ?? []).map((taint) => h("code", { class: "taint" }, taintText(taint)))],
    [device.product || device.kind, device.simulated ? h("span", { class: "badge plain" }, "simulated") : null].filter(Boolean).flatMap((one) => [one, " "]),
    holders(device.holders ?? [], one.note),
    [device.numa === null || device.numa === undefined ? null : `NUMA ${device.numa}`, device.pciBusID ?? device.pcieRoot].filter(Boolean).join(" · "),
    device.driver,
  ]);
}

/** Links to the claims and pods that have it. */
export function holders(list, note = "") {
  if (!list.length) return note;
  return joined(list.map((one) => h("span", { class: "holder" },
    one.claim && (one.door === "other" ? `claim ${one.claim}` : h("a", { href: claimLink(one.claim) }, one.claim)),
    one.pods?.length > 0 && [one.claim ? " for " : "", joined(one.pods.map((pod) => h("a", { href: podLink(pod) }, pod)))],
    one.door === "plugin" && h("span", { class: "muted" }, " (device plugin)"),
    one.door === "other" && h("span", { class: "muted" }, " (as another device)"))), "; ");
}

function resources(list) {
  if (!list.length) return null;
  const rows = list.map((one) => tableRow(RESOURCES, [h("code", null, one.name), meter(one), String(one.allocatable ?? ""), String(one.capacity ?? "")]));
  return h("section", null, h("h2", null, "Resources of device plugins"), table("Resources of device plugins", RESOURCES, rows));
}

function meter({ name, used, allocatable }) {
  const most = Math.max(1, Number(allocatable) || 0);
  return h("span", { class: "meter" }, h("meter", { min: 0, max: most, value: Number(used) || 0, "aria-label": `${name} in use` }), String(used ?? 0));
}

function conditions(list) {
  if (!list.length) return null;
  const rows = list.map((one) => tableRow(CONDITIONS, [one.type, one.status, one.reason, one.message, one.time ? timeOf(one.time) : ""]));
  return h("section", null, h("h2", null, "Conditions"), table("Conditions", CONDITIONS, rows));
}
