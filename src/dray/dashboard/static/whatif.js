// What if: how many more of these claims would fit. Nothing is written to the cluster.
import { ApiError, post } from "./api.js";
import { announce, count, fill, h } from "./dom.js";
import { live } from "./live.js";
import { nodeLink } from "./states.js";
import { joined, table, tableRow } from "./table.js";

const COLUMNS = [["nodes", "Nodes"], ["fits", "Fit on each"], ["why", "Why not one more"]];
const KEEP = "dray-whatif";

const example = (deviceClass) => `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: what-if
  namespace: default
spec:
  devices:
    requests:
    - name: device
      exactly:
        deviceClassName: ${deviceClass}
        count: 1
`;

/** Classes are named like drivers: the example asks for the one that most devices have. */
function likelyClass() {
  const counts = new Map();
  for (const node of live.nodes.values()) for (const device of node.devices) counts.set(device.driver, (counts.get(device.driver) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? "gpu.nvidia.com";
}

export function render(page) {
  const form = new Form();
  page.append(...form.elements());
}

class Form {
  constructor() {
    this.text = h("textarea", { id: "manifests", rows: 16, spellcheck: "false", autocomplete: "off", wrap: "off", "aria-describedby": "manifests-error" });
    this.text.value = sessionStorage.getItem(KEEP) ?? example(likelyClass());
    this.lines = h("div", { class: "line-numbers", "aria-hidden": "true" });
    this.number = h("input", { id: "claims", type: "number", min: 1, max: 100000, value: 10, required: true });
    this.policy = h("select", { id: "policy" }, h("option", { value: "first-fit" }, "First node that fits"), h("option", { value: "best-fit" }, "Fullest node that fits"));
    this.error = h("p", { class: "error", id: "manifests-error", role: "alert" });
    this.button = h("button", { type: "submit", class: "primary" }, "Try it");
    this.result = h("div", { class: "result", "aria-live": "polite" });
    this.text.addEventListener("input", () => this.onInput());
    this.text.addEventListener("scroll", () => {
      this.lines.scrollTop = this.text.scrollTop;
    });
    this.text.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.submit(event));
    this.showLines(0);
  }

  elements() {
    return [
      h("h1", null, "What if"),
      h("p", { class: "lead" }, "How many more of these claims would fit, where, and what runs out first. Nothing is written to the cluster."),
      h("form", { class: "whatif-form", novalidate: true, on: { submit: (event) => this.submit(event) } },
        h("label", { for: "manifests" }, "Manifests: a ResourceClaim or a ResourceClaimTemplate, and DeviceClasses if they are new"),
        h("div", { class: "editor" }, this.lines, this.text),
        this.error,
        h("div", { class: "filters" },
          h("label", { for: "claims" }, "How many"), this.number,
          h("label", { for: "policy" }, "Place on"), this.policy,
          this.button,
          h("span", { class: "muted" }, h("kbd", null, "Ctrl"), " ", h("kbd", null, "Enter"), " does it too"))),
      this.result,
    ];
  }

  onInput() {
    sessionStorage.setItem(KEEP, this.text.value);
    this.text.removeAttribute("aria-invalid");
    fill(this.error);
    this.showLines(0);
  }

  showLines(wrong) {
    const many = this.text.value.split("\n").length;
    this.lines.replaceChildren(...Array.from({ length: many }, (_, index) => h("div", { class: index + 1 === wrong ? "wrong" : null }, String(index + 1))));
    this.lines.scrollTop = this.text.scrollTop;
  }

  async submit(event) {
    event.preventDefault();
    fill(this.error);
    this.showLines(0);
    this.button.disabled = true;
    fill(this.result, h("p", { class: "muted" }, "Trying…"));
    try {
      const answer = await post("/api/whatif", { manifests: this.text.value, claims: Number(this.number.value), policy: this.policy.value });
      fill(this.result, outcome(answer));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(this.result);
      this.fail(error);
    } finally {
      this.button.disabled = false;
    }
  }

  /** Show the error, and where the server names a line, go there. */
  fail(error) {
    const [, row, column, text] = /^manifests:(\d+):(\d+): (.*)$/s.exec(error.message) ?? [];
    const line = Number(row ?? 0);
    const others = error.causes.length > 1 ? error.causes.slice(1, 6).map((cause) => `\n${cause}`) : [];
    fill(this.error, line ? `Line ${line}, column ${column}: ${text}` : error.message, others);
    if (error.field === "claims") {
      this.number.focus();
      return;
    }
    this.text.setAttribute("aria-invalid", "true");
    this.showLines(line);
    if (!line) return;
    const before = this.text.value.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    const end = this.text.value.indexOf("\n", before);
    this.text.focus();
    this.text.setSelectionRange(before, end < 0 ? this.text.value.length : end);
  }
}

function outcome(answer) {
  if (answer.error) return h("p", { class: "verdict unhealthy" }, answer.error);
  const all = answer.fits >= answer.asked;
  const head = all ? `All ${answer.asked} fit.` : answer.fits ? `${answer.fits} of ${answer.asked} fit.` : `None of ${answer.asked} fits.`;
  announce(head);
  const used = answer.nodes.filter((one) => one.fits).length;
  const first = answer.runsOutFirst;
  const share = h("span", { class: "kept" });
  share.style.width = `${(answer.fits / Math.max(1, answer.asked)) * 100}%`;
  return [
    h("p", { class: `verdict ${all ? "free" : answer.fits ? "tainted" : "unhealthy"}` }, head, answer.fits > 0 && ` They use ${used} of ${count(answer.nodes.length, "node")}.`),
    h("div", { class: "share", "aria-hidden": "true" }, share),
    first && h("p", null, h("strong", null, "Runs out: "), first.text, " on ", h("a", { href: nodeLink(first.node) }, first.node)),
    table("Nodes", COLUMNS, alike(answer.nodes).map(({ names, fits, why }) => tableRow(COLUMNS, [
      [joined(names.slice(0, 6).map((name) => h("a", { href: nodeLink(name) }, name))), names.length > 6 && ` and ${names.length - 6} more`],
      String(fits), why]))),
  ];
}

/** Nodes with the same outcome are one row. */
function alike(nodes) {
  const groups = new Map();
  for (const one of nodes) {
    const why = one.shortage?.text ?? "";
    const key = `${one.fits}\n${why}`;
    if (!groups.has(key)) groups.set(key, { names: [], fits: one.fits, why });
    groups.get(key).names.push(one.node);
  }
  return [...groups.values()].sort((a, b) => b.fits - a.fits);
}
