// Why a claim or pod gets no devices: a funnel for each request, who holds the rest, the nearest miss, the way out.
import { get, query } from "./api.js";
import { count, fill, h, setText } from "./dom.js";
import { live } from "./live.js";
import { claimLink, deviceLink, nodeLink, podLink } from "./states.js";
import { joined, table, tableRow } from "./table.js";

/** In the order in which a device is charged to the first check that removes it; [one device, several]. */
const CHECKS = {
  pool: ["is in a pool that is not complete", "are in a pool that is not complete"],
  feature: ["needs a feature that is off", "need a feature that is off"],
  class: ["is not of the class", "are not of the class"],
  selector: ["does not match the selector", "do not match the selector"],
  "selector error": ["makes the selector fail", "make the selector fail"],
  taint: ["has a taint that is not tolerated", "have a taint that is not tolerated"],
  "in use": ["is in use", "are in use"],
  capacity: ["has too little capacity left", "have too little capacity left"],
  counters: ["lacks a share of its whole", "lack a share of their whole"],
  constraint: ["breaks a constraint", "break a constraint"],
};
const RESOURCES = [["node", "Node"], ["resource", "Resource"], ["wanted", "Wants"], ["allocatable", "Allocatable"], ["used", "In use"], ["free", "Free"], ["short", "Short by"]];
const FEW = 4;
const MOST = 40;
const MOST_CHOICES = 100;

/** Fill `place` with the explanation of one claim or pod ("claim" or "pod", "ns/name"); `node` is where it is, if anywhere. */
export async function explain(place, kind, name, node, signal) {
  const stop = working(place, signal);
  let answer;
  try {
    answer = await get(`/api/explain${query({ [kind]: name })}`, signal);
  } finally {
    stop();
  }
  if (signal.aborted) return;
  const workload = answer.workloads?.[0];
  fill(place, workload ? contents(workload, node) : h("p", null, "It does not wait for devices any more."), notes(answer));
}

/** Say at once that somebody thinks, and after a moment about how much. What stood there before stays until the answer is here. */
function working(place, signal) {
  const nodes = live.nodes.size;
  const devices = live.summary?.devices ?? 0;
  const time = h("span", { "aria-hidden": "true" });
  const line = h("p", { class: "muted working", role: "status" }, "Working out why…", time);
  place.setAttribute("aria-busy", "true");
  place.prepend(line);
  const from = Date.now();
  const tick = () => setText(time, ` asking ${count(nodes, "node")} about ${count(devices, "device")}, ${Math.round((Date.now() - from) / 1000)} s`);
  const timer = setInterval(tick, 1000);
  const stop = () => {
    clearInterval(timer);
    line.remove();
    place.removeAttribute("aria-busy");
  };
  signal.addEventListener("abort", stop, { once: true });
  return stop;
}

const notes = (answer) => (answer.notes ?? []).map((note) => h("p", { class: "note" }, note));

function contents(workload, node) {
  if (workload.notStarted) return notStarted(workload, node);
  if (node && hasAll(workload)) return h("p", { class: "muted" }, "It has its devices on ", nodeOf(node), "; its containers do not run yet.");
  const refusal = workload.refusal;
  const groups = (refusal?.nodes ?? []).filter((group) => group.requests.length || group.reason || Object.keys(group.unusablePools ?? {}).length);
  return [
    h("p", { class: `verdict ${workload.fitsOn.length ? "free" : "unhealthy"}` }, verdict(workload)),
    workload.error && h("p", { class: "error" }, workload.error),
    workload.notAdmitted && h("p", { class: "error" }, workload.notAdmitted),
    workload.differs && h("p", { class: "note" }, differs(workload.differs)),
    resources(workload.resources ?? []),
    groups.length > 0 && funnels(groups),
    ways(workload),
    misses(refusal?.nearestMisses ?? []),
    refusal && h("p", { class: "muted small" }, `Decided as profile ${refusal.profile} does, with the ${refusal.tier} allocator.`),
  ];
}

/** A pod that has its devices, and whose kubelet says why it does not run. */
function notStarted(workload, node) {
  return [
    h("p", { class: "verdict unhealthy" }, `It has its devices, but does not ${workload.notStarted.startsWith("CrashLoopBackOff") ? "keep running" : "start"}`, node && [" on ", nodeOf(node)], "."),
    h("p", { class: "error" }, workload.notStarted),
  ];
}

/** Whether there is nothing left to decide. */
const hasAll = (workload) => workload.kind === "pod" && !workload.claims.length && !workload.resources?.length && !workload.error && !workload.notAdmitted;

function verdict(workload) {
  const tried = workload.nodesTried;
  if (workload.notAdmitted) return "The kubelet did not admit it.";
  if (workload.error) return "It cannot be decided on any node.";
  if (!workload.fitsOn.length) return tried === 1 ? "It does not fit on the one node there is." : `It does not fit on any of ${tried} nodes.`;
  const some = workload.fitsOn.slice(0, 5).join(", ");
  const more = workload.fitsOn.length > 5 ? ` and ${workload.fitsOn.length - 5} more` : "";
  return `It fits on ${workload.fitsOn.length} of ${count(tried, "node")}: ${some}${more}. The scheduler should place it soon.`;
}

function differs(other) {
  const where = other.fitsOn.length ? `it fits on ${count(other.fitsOn.length, "node")}` : "it fits nowhere";
  return `Profile ${other.profile} decides otherwise: ${where}${other.causes.length ? `, because of ${other.causes.join(" or ")}` : ""}.`;
}

/** What would make it fit; the same change on several nodes is one line. */
function ways(workload) {
  const byText = new Map();
  for (const one of [...(workload.refusal?.changes ?? []), ...(workload.resourceChanges ?? [])]) {
    byText.set(one.text, [...(byText.get(one.text) ?? []), one.node]);
  }
  if (!byText.size) {
    if (workload.fitsOn.length || workload.error || workload.notAdmitted || !workload.refusal) return null;
    return h("p", { class: "note" }, "No change of one thing or two was found that makes it fit.");
  }
  const lines = [...byText].slice(0, MOST).map(([text, nodes]) => h("li", null, quoted(text), " ", h("span", { class: "muted" }, "on "), joined(nodes.slice(0, 4).map(nodeOf)), nodes.length > 4 && ` and ${nodes.length - 4} more`));
  return h("section", { class: "ways" }, h("h2", null, "What would make it fit"), h("ul", null, lines));
}

/** What stands in backticks is code. */
const quoted = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));

const nodeOf = (name) => h("a", { href: nodeLink(name) }, name);

function funnels(groups) {
  const place = h("div", { class: "funnels", "aria-live": "polite" });
  const many = groups.reduce((sum, group) => sum + group.nodes.length, 0);
  const withRequests = groups.filter((group) => group.requests.length);
  const choose = h("select", { id: "funnel-node", on: { change: () => draw() } },
    withRequests.length > 0 && many > 1 && h("option", { value: "all" }, `All ${count(many, "node")} together`),
    groups.map(nodeChoices));
  const draw = () => fill(place, choose.value === "all" ? together(withRequests).map(funnel) : ofGroup(groups[Number(choose.value)]));
  draw();
  return h("section", null,
    h("div", { class: "funnel-head" }, h("h2", null, "Where the devices go"),
      many > 1 && [h("label", { for: "funnel-node", class: "unseen" }, "Nodes"), choose]),
    place);
}

/** Nodes that refuse for the same reasons stand together; of very many, the first are enough. */
function nodeChoices(group, index) {
  const options = group.nodes.slice(0, MOST_CHOICES).map((name) => h("option", { value: index }, name));
  if (group.nodes.length === 1) return options;
  return h("optgroup", { label: `${group.nodes.length} nodes alike` }, options);
}

function ofGroup(group) {
  return [
    group.reason && h("p", null, group.reason),
    Object.entries(group.unusablePools ?? {}).map(([pool, why]) => h("p", null, `Pool ${pool} cannot be used: ${why}`)),
    group.requests.map((one) => funnel(counts(one))),
    group.requests.length > 0 && group.requests.every((one) => one.left && one.left >= one.wanted) &&
      h("p", { class: "note" }, group.requests.length > 1 ? "Enough is left for each request alone, but not for all together." : "Enough devices are left one by one, but they do not go together."),
    (group.obstacles ?? []).map((text) => h("p", { class: "note" }, text)),
  ];
}

/** A request on one node: devices of other nodes are not counted. */
function counts(one, times = 1) {
  const { node = 0, ...removed } = one.removed;
  const scaled = Object.fromEntries(Object.entries(removed).map(([check, number]) => [check, number * times]));
  const taints = Object.fromEntries(Object.entries(one.taints ?? {}).map(([taint, number]) => [taint, number * times]));
  return { ...one, here: (one.total - node) * times, removed: scaled, taints, left: one.left * times, best: one.left, places: times };
}

/** The same request on all nodes, added up. */
function together(groups) {
  const sums = new Map();
  for (const group of groups) {
    for (const one of group.requests) {
      const key = `${one.claim}\n${one.request}`;
      const here = counts(one, group.nodes.length);
      const sum = sums.get(key);
      sums.set(key, sum ? added(sum, here) : here);
    }
  }
  return [...sums.values()];
}

function added(a, b) {
  const removed = { ...a.removed };
  for (const [check, number] of Object.entries(b.removed)) removed[check] = (removed[check] ?? 0) + number;
  const taints = { ...a.taints };
  for (const [taint, number] of Object.entries(b.taints ?? {})) taints[taint] = (taints[taint] ?? 0) + number;
  return {
    ...a, here: a.here + b.here, left: a.left + b.left, best: Math.max(a.best, b.best), places: a.places + b.places, removed, taints,
    lacking: { ...a.lacking, ...b.lacking }, heldBy: [...a.heldBy, ...b.heldBy],
  };
}

/** Bars that narrow: what each check leaves is solid, what it removed is hatched on both sides. */
function funnel(one) {
  const order = Object.keys(CHECKS);
  const steps = Object.entries(one.removed).filter(([, number]) => number).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  const all = Math.max(1, one.here);
  let left = one.here;
  const wants = one.all ? "all that fit" : String(one.wanted);
  const where = one.places > 1 ? ` on ${one.places} nodes` : "";
  const rows = [bar(`${count(one.here, "device")}${where}`, one.here, 0, all, null)];
  for (const [check, number] of steps) {
    left -= number;
    const words = CHECKS[check] ?? [`removed by ${check}`, `removed by ${check}`];
    rows.push(bar(`${number.toLocaleString("en")} ${words[number === 1 ? 0 : 1]}`, left, number, all, details(check, one)));
  }
  const enough = one.best >= one.wanted && one.best > 0;
  const most = one.places > 1 && one.left ? `, at most ${one.best} on one node` : "";
  const summed = one.places > 1 && h("p", { class: "muted small" }, "Added up over the nodes: a device that several nodes can reach counts on each.");
  return h("figure", { class: "funnel" },
    h("figcaption", null, "Request ", h("strong", null, one.request), " of claim ", h("a", { href: claimLink(one.claim) }, one.claim), ` wants ${wants}`),
    h("ol", null, rows,
      h("li", { class: `end ${enough ? "free" : "unhealthy"}` }, `${one.left.toLocaleString("en")} left${most}; ${wants} wanted`)),
    summed);
}

function bar(words, left, removed, all, more) {
  const kept = h("span", { class: "kept" });
  const lost = h("span", { class: "lost" });
  kept.hidden = left === 0;
  kept.style.width = `${(left / all) * 100}%`;
  lost.style.width = `${((left + removed) / all) * 100}%`;
  return h("li", null,
    h("span", { class: "words" }, words),
    h("span", { class: "track", "aria-hidden": "true" }, lost, kept),
    h("span", { class: "left" }, removed ? h("span", null, h("span", { class: "unseen" }, "remain: "), left.toLocaleString("en")) : left.toLocaleString("en")),
    more);
}

function details(check, one) {
  if (check === "taint") return small(Object.entries(one.taints ?? {}).map(([taint, number]) => [h("code", { class: "taint" }, taint), ` on ${number}`]));
  if (check === "in use") return folded("Who holds them", (one.heldBy ?? []).map(holder));
  if (check === "capacity" || check === "counters") {
    return small(Object.entries(one.lacking ?? {}).map(([name, number]) => [h("code", null, name), ` short on ${number}`]));
  }
  return null;
}

function small(lines) {
  if (!lines.length) return null;
  const more = lines.length - MOST;
  return h("ul", { class: "details" }, lines.slice(0, MOST).map((line) => h("li", null, line)), more > 0 && h("li", null, `and ${more} more`));
}

/** Many holders would tear the funnel apart: they are folded away. */
function folded(title, lines) {
  if (lines.length <= FEW) return small(lines);
  return h("details", { class: "fold" }, h("summary", null, title), small(lines));
}

function holder(one) {
  return [h("a", { href: deviceLink(one.device) }, one.device), " by claim ", h("a", { href: claimLink(one.claim) }, one.claim),
    one.pods?.length > 0 && [", pod ", joined(one.pods.map((pod) => h("a", { href: podLink(pod.includes("/") ? pod : `${one.claim.split("/")[0]}/${pod}`) }, pod)))]];
}

/** The devices that came nearest, and what stands against each. */
function misses(list) {
  if (!list.length) return null;
  return h("section", null, h("h2", null, "Nearest miss"), list.slice(0, 4).map((one) =>
    h("div", { class: "miss" },
      h("p", null, h("a", { href: deviceLink(one.device) }, one.device), " on ", nodeOf(one.node), ` for request ${one.request}`),
      h("ul", null, against(one).map((line) => h("li", null, line))))));
}

function against(one) {
  const told = new Set(["class", "selector", "selector error", "taint"]);
  const lines = one.falseParts.map((part) => [`${part.of}: `, h("code", null, part.text), " is false", sawText(part.saw)]);
  if (one.error) lines.push([one.error]);
  for (const taint of one.taints) lines.push(["taint ", h("code", { class: "taint" }, taint), " is not tolerated"]);
  for (const check of one.checks.filter((name) => !told.has(name))) {
    const by = ["in use", "capacity", "counters"].includes(check) && one.heldBy.length ? [": ", joined(one.heldBy.map(holder), "; ")] : [];
    lines.push([check, ...by]);
  }
  for (const lack of one.lacks) lines.push([`short of ${lack.name}`, lack.needed ? `: needs ${lack.needed}, ${lack.left ?? "nothing"} left` : lack.why ? `: ${lack.why}` : ""]);
  return lines;
}

function sawText(saw) {
  const pairs = Object.entries(saw ?? {});
  return pairs.length ? [" (", joined(pairs.map(([name, value]) => h("code", null, `${name} = ${value}`))), ")"] : null;
}

function resources(list) {
  if (!list.length) return null;
  const sorted = [...list].sort((a, b) => Number(b.short) - Number(a.short));
  const rows = sorted.slice(0, 50).map((one) => tableRow(RESOURCES, [nodeOf(one.node), h("code", null, one.resource), one.wanted, one.deviceClass ? `of class ${one.deviceClass}` : (one.allocatable ?? "never had it"), one.used, one.free, Number(one.short) ? one.short : ""]));
  return h("section", null, h("h2", null, "Resources of device plugins"), table("What nodes have of the resources it asks for", RESOURCES, rows));
}
