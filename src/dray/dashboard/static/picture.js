// From the nodes that the server tells to what the grid shows. No elements here.
import { byName } from "./dom.js";
import { shortName, stateOf } from "./states.js";

const known = new WeakMap(); // node → prepared; a node that changes is a new object

/** A node's devices in the order of its hardware, partitions below the device they are part of. */
export function prepared(node) {
  let found = known.get(node);
  if (!found) {
    found = prepare(node);
    known.set(node, found);
  }
  return found;
}

function prepare(node) {
  const entries = node.devices.map((device) => entryOf(node, device));
  const byId = new Map(entries.map((one) => [one.device.id, one]));
  const tops = [];
  for (const one of entries) {
    const parent = byId.get(one.device.parent);
    if (parent && parent !== one) parent.parts.push(one);
    else tops.push(one);
  }
  for (const one of entries) withParts(one);
  tops.sort(byPlace);
  return { node, tops, entries };
}

function entryOf(node, device) {
  const holders = (device.holders ?? []).flatMap((one) => [one.claim, ...(one.pods ?? [])]);
  const words = [node.name, device.name, device.kind, device.product, device.driver, ...holders];
  if (device.simulated) words.push("simulated");
  return { device, state: stateOf(device), note: "", parts: [], search: words.join(" ").toLowerCase() };
}

/** A whole and its parts take from the same thing: say why one that nobody holds is not free. */
function withParts(one) {
  one.parts.sort(byPlace);
  const isHeld = Boolean(one.device.holders?.length);
  const held = one.parts.filter((part) => part.device.holders?.length).length;
  if (held && !isHeld) {
    one.note = `${held} of ${one.parts.length} partitions held`;
    if (one.state === "free") one.state = "held";
  }
  for (const part of one.parts) {
    if (part.device.holders?.length || (part.state === "free" && !isHeld) || !["free", "held"].includes(part.state)) continue;
    part.state = "held";
    part.note = isHeld ? `held with ${one.device.name}` : `what it needs is held by ${takers(part.device)}`;
  }
}

const takers = (device) => device.blockedBy?.map(shortName).join(", ") || "other partitions";

const place = (device) => [device.numa ?? Infinity, device.pcieRoot ?? "\uffff"];

function byPlace(a, b) {
  const [numaA, rootA] = place(a.device);
  const [numaB, rootB] = place(b.device);
  return (numaA === numaB ? 0 : numaA - numaB) || byName(rootA, rootB) || byName(a.device.name, b.device.name);
}

/** A filter from what was typed and chosen. */
export function filterOf(text, kind, state) {
  return { words: text.toLowerCase().split(/\s+/).filter(Boolean), kind, state };
}

function fits(filter, one) {
  if (filter.kind && one.device.kind !== filter.kind) return false;
  if (filter.state && one.state !== filter.state) return false;
  return filter.words.every((word) => one.search.includes(word));
}

const named = (filter, text) => filter.words.every((word) => text.toLowerCase().includes(word));

/** The devices to show of a node, or null where nothing of it fits. A whole stays for the sake of its parts. */
export function filtered(node, filter) {
  const all = prepared(node);
  const resources = filter.kind || filter.state ? [] : (node.resources ?? []).filter((one) => named(filter, `${node.name} ${one.name}`));
  if (!filter.words.length && !filter.kind && !filter.state) return { tops: all.tops, resources, parts: null, matches: all.tops.length, matchingParts: all.entries.length - all.tops.length };
  const hits = new Set(all.entries.filter((one) => fits(filter, one)));
  if (!hits.size) {
    const isNamed = !filter.kind && !filter.state && (resources.length || named(filter, node.name));
    return isNamed ? { tops: [], resources, parts: null, matches: 0, matchingParts: 0 } : null;
  }
  const tops = all.tops.filter((one) => hits.has(one) || one.parts.some((part) => hits.has(part)));
  const matches = tops.filter((one) => hits.has(one)).length;
  return { tops, resources, parts: hits, matches, matchingParts: hits.size - matches };
}

const FEW = 8;
const MOST_HELD = 14;

/** Partitions to show one by one, and the rest, which is counted: of a GPU that can be cut in many ways, those that are held. */
export function partsOf(one, hits) {
  const parts = hits ? one.parts.filter((part) => hits.has(part)) : one.parts;
  if (parts.length <= FEW) return { each: parts, rest: [] };
  const each = parts.filter((part) => part.device.holders?.length).slice(0, MOST_HELD);
  return { each, rest: parts.filter((part) => !each.includes(part)) };
}

/** Partitions by profile, null where they are few enough to stand alone. */
export function profilesOf(one) {
  if (one.parts.length <= FEW) return null;
  const found = new Map();
  for (const part of one.parts) {
    const name = part.device.profile || part.device.product || part.device.kind || "partition";
    if (!found.has(name)) found.set(name, { name, parts: [] });
    found.get(name).parts.push(part);
  }
  return [...found.values()].map((each) => ({ ...each, free: freeOf(each.parts) }));
}

export const freeOf = (parts) => parts.filter((part) => part.state === "free").length;

/** Devices of a row by NUMA node, and in it by PCIe root. */
export function grouped(tops) {
  const numas = [];
  for (const one of tops) {
    const numa = one.device.numa ?? null;
    const root = one.device.pcieRoot ?? null;
    if (numas.at(-1)?.numa !== numa) numas.push({ numa, roots: [] });
    const { roots } = numas.at(-1);
    if (!roots.length || roots.at(-1).root !== root) roots.push({ root, tops: [] });
    roots.at(-1).tops.push(one);
  }
  return numas;
}

/** How many whole devices of a node are in each state. */
export function counted(tops) {
  const counts = { free: 0, held: 0, tainted: 0, unhealthy: 0 };
  for (const one of tops) counts[one.state] += 1;
  return counts;
}

const problems = (node) => {
  const counts = counted(prepared(node).tops);
  return (node.ready ? 0 : 1000) + counts.unhealthy * 10 + counts.tainted;
};

/** Devices on the network, which are told as those of a node "*", come last. */
const byNode = (a, b) => (a === "*") - (b === "*") || byName(a, b);

export const SORTS = {
  name: () => byNode,
  free: (nodes) => descending(nodes, (node) => counted(prepared(node).tops).free),
  problems: (nodes) => descending(nodes, problems),
};

function descending(nodes, measure) {
  const values = new Map([...nodes.values()].map((node) => [node.name, measure(node)]));
  return (a, b) => values.get(b) - values.get(a) || byNode(a, b);
}
