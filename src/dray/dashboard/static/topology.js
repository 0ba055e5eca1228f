// A node as a picture: NUMA nodes, in them PCIe roots, on them devices. Each device is a link.
import { h, s } from "./dom.js";
import { prepared, profilesOf } from "./picture.js";
import { deviceFacts, deviceLink, SHAPES } from "./states.js";

const BOX = { width: 160, height: 46, gap: 10 };
const PART = { height: 20, gap: 4, columns: 2 };
const PAD = 14;
const HEAD = 26;
const ROOT = { label: 112, gap: 14 };

let watch = null; // there is one picture at a time
let width = 0; // of the last one: the next is drawn as wide at once, so that nothing jumps

/** The picture, as wide as its place; drawn again when that changes. */
export function topologyOf(node, topology, signal) {
  const place = h("div", { class: "topology" }, width > 0 && picture(node, topology, width));
  watch?.disconnect();
  watch = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now && Math.abs(now - width) > 8) {
      width = now;
      place.replaceChildren(picture(node, topology, width));
    }
  });
  watch.observe(place);
  signal.addEventListener("abort", () => watch.disconnect());
  return place;
}

function picture(node, topology, width) {
  const byId = new Map(prepared(node).entries.map((one) => [one.device.id, one]));
  const inside = new Set(prepared(node).entries.flatMap((one) => one.parts.map((part) => part.device.id)));
  const numas = topology.map((one) => ({
    numa: one.numa,
    roots: one.roots.map(({ root, devices }) => ({ root, entries: devices.filter((id) => !inside.has(id)).map((id) => byId.get(id)).filter(Boolean) })),
  }));
  const beside = width >= 980 && numas.length > 1 ? 2 : 1;
  const each = Math.floor((width - (beside - 1) * PAD) / beside);
  const drawn = numas.map((one) => numaOf(one, each));
  const svg = s("svg", { role: "group", "aria-label": `Topology of node ${node.name}` });
  let y = 1;
  for (let index = 0; index < drawn.length; index += beside) {
    const line = drawn.slice(index, index + beside);
    line.forEach((one, column) => {
      one.element.setAttribute("transform", `translate(${column * (each + PAD)} ${y})`);
      svg.append(one.element);
    });
    const height = Math.max(...line.map((one) => one.height));
    for (const one of line) one.frame.setAttribute("height", height);
    y += height + PAD;
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${y - PAD + 2}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", y - PAD + 2);
  return svg;
}

function numaOf({ numa, roots }, width) {
  const name = numa === null || numa === undefined ? "No NUMA node known" : `NUMA node ${numa}`;
  const frame = s("rect", { class: "t-numa", x: 0.5, y: 0.5, width: width - 1, rx: 8 });
  const element = s("g", { role: "group", "aria-label": name }, frame, s("text", { class: "t-title", x: PAD, y: 22 }, name));
  const inner = width - 2 * PAD;
  const upright = inner < 420 || roots.every((one) => one.entries.length <= 2);
  let [x, y, tallest] = [0, HEAD + PAD, 0];
  for (const root of roots) {
    const drawn = rootOf(root, inner, upright);
    if (x > 0 && x + drawn.width > inner) [x, y, tallest] = [0, y + tallest + ROOT.gap, 0];
    drawn.element.setAttribute("transform", `translate(${PAD + x} ${y})`);
    element.append(drawn.element);
    x += drawn.width + ROOT.gap;
    tallest = Math.max(tallest, drawn.height);
  }
  return { element, frame, height: y + tallest + PAD };
}

/** A bus: the root, a line from it, devices on the line. Upright, the root is above them, and several fit beside each other. */
function rootOf({ root, entries }, width, upright) {
  const left = upright ? 12 : ROOT.label + 22;
  const top = upright ? 28 : 0;
  const columns = Math.max(1, Math.floor((width - left + BOX.gap) / (BOX.width + BOX.gap)));
  const element = s("g", { role: "group", "aria-label": root ? `PCIe root ${root}` : "Not on PCIe" });
  const label = root ?? "not on PCIe";
  element.append(
    s("rect", { class: "t-root", x: 0, y: upright ? 0 : 9, width: ROOT.label, height: upright ? 22 : 28, rx: upright ? 11 : 14 }),
    s("text", { class: "t-root-name", x: ROOT.label / 2, y: upright ? 15 : 27, "text-anchor": "middle" }, clipped(label, 15)),
  );
  let y = top;
  let middle = 0;
  for (let index = 0; index < entries.length; index += columns) {
    const line = entries.slice(index, index + columns);
    const height = Math.max(...line.map(heightOf));
    middle = y + BOX.height / 2;
    const from = upright ? 4 : left - 12;
    element.append(s("path", { class: "t-bus", d: `M${from} ${middle}H${left + (line.length - 1) * (BOX.width + BOX.gap)}` }));
    line.forEach((one, column) => element.append(deviceOf(one, left + column * (BOX.width + BOX.gap), y)));
    y += height + BOX.gap;
  }
  const trunk = upright ? `M4 ${top - 8}V${middle}` : `M${ROOT.label} ${BOX.height / 2}H${left - 12}V${middle}`;
  if (entries.length) element.append(s("path", { class: "t-bus", d: trunk }));
  const used = Math.max(1, Math.min(columns, entries.length));
  return { element, height: Math.max(y - BOX.gap, 28 + top), width: upright ? left + used * (BOX.width + BOX.gap) - BOX.gap : width };
}

function heightOf(one) {
  const lines = profilesOf(one)?.length ?? Math.ceil(one.parts.length / PART.columns);
  return BOX.height + (lines ? lines * (PART.height + PART.gap) + PART.gap : 0);
}

function deviceOf(one, x, y) {
  const { device, state, parts, note } = one;
  const under = device.holders?.length ? (device.holders[0].claim ?? "held") : note || device.product || device.kind || "";
  const element = s("g", { transform: `translate(${x} ${y})` },
    parts.length > 0 && s("rect", { class: "t-whole", x: 0, y: 0, width: BOX.width, height: heightOf(one), rx: 6 }),
    link(one, BOX.width, BOX.height, [
      [clipped(device.name, 18), { class: "t-name", x: 28, y: 20 }],
      [clipped(under, 23), { class: "t-under", x: 10, y: 37 }],
    ], shape(state, 10, 10)));
  const profiles = profilesOf(one);
  element.append(...(profiles ? profiles.map((each, index) => profileOf(one, each, index)) : partsOf(one)));
  return element;
}

/** Of partitions that are many, a line for each profile. */
function profileOf(one, { name, parts, free }, index) {
  const width = BOX.width - 2 * PART.gap;
  const count = `${free}/${parts.length}`;
  return s("a", {
    href: deviceLink(one.device.id), class: `t-device ${free ? "free" : "held"}`, transform: `translate(${PART.gap} ${lineAt(index)})`,
    "aria-label": `${clipped(name, 14)} ${count} free, partitions of ${one.device.name}`,
  },
    s("rect", { class: "t-box", x: 0.5, y: 0.5, width: width - 1, height: PART.height - 1, rx: 5 }),
    shape(free ? "free" : "held", 4, 4),
    s("text", { class: "t-part", x: 20, y: 14 }, clipped(name, 14)), " ",
    s("text", { class: "t-part", x: width - 6, y: 14, "text-anchor": "end" }, count));
}

const lineAt = (line) => BOX.height + PART.gap + line * (PART.height + PART.gap);

function partsOf(one) {
  const width = (BOX.width - PART.gap * (PART.columns + 1)) / PART.columns;
  return one.parts.map((part, index) => {
    const px = PART.gap + (index % PART.columns) * (width + PART.gap);
    const py = lineAt(Math.floor(index / PART.columns));
    const text = [ending(part.device.name, one.device.name), { class: "t-part", x: 20, y: 14 }];
    const drawn = link(part, width, PART.height, [text], shape(part.state, 4, 4));
    drawn.setAttribute("transform", `translate(${px} ${py})`);
    return drawn;
  });
}

/** Its name begins with what is seen in it, for those who speak to their computer. */
function link(one, width, height, texts, inside) {
  const seen = texts.map(([text]) => text).join(" ");
  const name = [seen, seen.startsWith(one.device.name) ? "" : one.device.name, deviceFacts(one.device, one.state), one.note];
  return s("a", { href: deviceLink(one.device.id), class: `t-device ${one.state}`, "aria-label": name.filter(Boolean).join(", ") },
    s("rect", { class: "t-box", x: 0.5, y: 0.5, width: width - 1, height: height - 1, rx: 5 }),
    inside,
    texts.map(([text, props]) => [s("text", props, text), " "]));
}

const shape = (state, x, y) => s("g", { class: `mark ${state}`, transform: `translate(${x} ${y})`, "aria-hidden": "true" }, SHAPES[state]());

const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** A partition's name mostly begins with its GPU's: what comes after it is what tells them apart. */
function ending(name, whole) {
  const rest = name.startsWith(whole) ? name.slice(whole.length).replace(/^[-_.]/, "") : name;
  return rest.length > 8 ? `…${rest.slice(-7)}` : rest || name;
}
