// The four states of a device, and how each looks: a colour, a shape and a word, so that none stands alone.
import { h, s } from "./dom.js";

export const STATES = ["free", "held", "tainted", "unhealthy"];

/** The server says it. One that nobody has and nobody can have looks like one that is held; a note says who is in the way. */
export function stateOf({ state }) {
  return state === "blocked" ? "held" : state;
}

export const SHAPES = {
  free: () => s("circle", { cx: 6, cy: 6, r: 4.25, class: "hollow" }),
  held: () => s("rect", { x: 1, y: 1, width: 10, height: 10, rx: 1.5 }),
  tainted: () => s("path", { d: "M6 .8 11.4 11H.6z" }),
  unhealthy: () => s("path", { d: "M2.6 1 6 4.3 9.4 1 11 2.6 7.7 6 11 9.4 9.4 11 6 7.7 2.6 11 1 9.4 4.3 6 1 2.6z" }),
};

/** The shape of a state. Decoration: the word stands next to it, or in the name of what it is in. */
export function mark(state) {
  return s("svg", { class: `mark ${state}`, viewBox: "0 0 12 12", "aria-hidden": "true", width: 12, height: 12 }, SHAPES[state]?.());
}

/** Shape and word. */
export function stateBadge(state) {
  return h("span", { class: `badge ${state}` }, mark(state), state);
}

/** Who has it: "claim ml/train for pod ml/train-0". */
export function holderText(holder) {
  const pods = holder.pods?.length ? `pod ${holder.pods.join(", ")}` : "";
  if (!holder.claim) return pods || "somebody";
  if (holder.door === "other") return `claim ${holder.claim} (as another device)`;
  return pods ? `claim ${holder.claim} for ${pods}` : `claim ${holder.claim}`;
}

export function taintText(taint) {
  if (typeof taint === "string") return taint;
  return `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`;
}

/** A device in one sentence, for screen readers and the card. */
export const deviceText = (device, state) => `${device.name}, ${deviceFacts(device, state)}`;

/** The same without its name. */
export function deviceFacts(device, state) {
  const words = [state];
  if (device.simulated) words.push("simulated");
  if (device.product || device.kind) words.push(device.product || device.kind);
  if (device.profile && device.profile !== device.product) words.push(`profile ${device.profile}`);
  if (device.parent) words.push(`part of ${shortName(device.parent)}`);
  if (device.holders?.length) words.push(`${state === "free" ? "shared" : "held"} by ${device.holders.map(holderText).join("; ")}`);
  if (device.taints?.length) words.push(`taints ${device.taints.map(taintText).join(", ")}`);
  return words.join(", ");
}

/** A device's name, of its id. */
export const shortName = (id) => id.split("/").at(-1);

/** Where a device's page is. Its id is driver/pool/name, and none of them holds a slash. */
export const deviceLink = (id) => `#/devices/${String(id).split("/").map(encodeURIComponent).join("/")}`;
export const nodeLink = (name) => `#/nodes/${encodeURIComponent(name)}`;
export const claimLink = (name) => `#/claims/${name.split("/").map(encodeURIComponent).join("/")}`;
export const podLink = (name) => `#/pods/${name.split("/").map(encodeURIComponent).join("/")}`;

/** Devices that hang on no node (on the network) are told as those of a node "*". */
export const nodeName = (node) => (node.shared ? "On the network" : node.name);
