// Claims and pods: two lists with the same face, and the page of one of them.
import { get, query } from "./api.js";
import { announce, count, debounced, fill, h, keepingFocus, place as put, setText } from "./dom.js";
import { explain } from "./explain.js";
import { listen } from "./live.js";
import { claimLink, deviceLink, nodeLink, podLink, shortName } from "./states.js";
import { facts, joined, table, tableRow } from "./table.js";
import { timeOf } from "./time.js";

const STEP = 200;
const NAME = (row) => `${row.namespace}/${row.name}`;
const LOOKS = { pending: "tainted", allocated: "held", reserved: "held", scheduled: "held", running: "held", crashing: "unhealthy", failed: "unhealthy" };
const ASKS_WHY = new Set(["pending", "crashing"]);

/** What the list showed last: a page that is opened from it is there at once, before it is asked for. */
const listed = new Map();

const KINDS = {
  claims: {
    one: "claim",
    title: "Claims",
    link: claimLink,
    states: ["pending", "allocated", "reserved", "deleting"],
    columns: [["name", "Claim"], ["state", "State"], ["class", "Class"], ["devices", "Devices"], ["node", "Node"], ["pods", "Pods"], ["age", "Created"]],
    cells: (row) => [row.class, devices(row.devices), node(row), names(row.pods, podLink), timeOf(row.created)],
    none: ["No claims yet", "A pod asks for devices with a ResourceClaim. Put one into a file and run ", "dray apply -f FILE", "."],
  },
  pods: {
    one: "pod",
    title: "Pods",
    link: podLink,
    states: ["pending", "scheduled", "running", "crashing", "succeeded", "failed", "deleting"],
    columns: [["name", "Pod"], ["state", "State"], ["asks", "Asks for"], ["devices", "Devices"], ["node", "Node"], ["age", "Created"]],
    cells: (row) => [asks(row), devices(row.devices), node(row), timeOf(row.created)],
    none: ["No pods that ask for devices yet", "Put a pod with a claim or a device plugin's resource into a file and run ", "dray apply -f FILE", "."],
  },
};

export async function render(page, { page: kind, names: [namespace, name], values }, signal) {
  if (name) await one(page, KINDS[kind], kind, namespace, name, signal);
  else await list(page, KINDS[kind], kind, values, signal);
}

const node = (row) => row.node && h("a", { href: nodeLink(row.node) }, row.node);

/** The first few; the rest is counted. */
function names(all, link, most = 3) {
  const shown = (all ?? []).slice(0, most).map((each) => h("a", { href: link(each) }, each));
  const more = (all ?? []).length - shown.length;
  return more > 0 ? [joined(shown), ` and ${more} more`] : joined(shown);
}

function devices(all, most = 3) {
  const shown = (all ?? []).slice(0, most).map((id) => h("a", { href: deviceLink(id), title: id }, shortName(id)));
  const more = (all ?? []).length - shown.length;
  return more > 0 ? [joined(shown), ` and ${more} more`] : joined(shown);
}

function asks(row) {
  const plugin = Object.entries(row.resources ?? {}).map(([name, amount]) => h("code", null, `${name}: ${amount}`));
  const claims = (row.claims ?? []).map((claim) => h("a", { href: claimLink(claim) }, claim));
  return joined([...claims, ...plugin]);
}

function stateOf(row) {
  return h("span", { class: `badge ${LOOKS[row.state] ?? "plain"}` }, row.state);
}

function rowOf(kind, row) {
  const state = [stateOf(row)];
  if (ASKS_WHY.has(row.state)) state.push(" ", h("a", { class: "why", href: kind.link(NAME(row)), "aria-label": `why? ${NAME(row)} is ${row.state}` }, "why?"));
  else if (row.state === "failed" && row.reason) state.push(" ", h("span", { class: "muted" }, row.reason));
  const name = h("a", { href: kind.link(NAME(row)) }, h("span", { class: "muted" }, `${row.namespace}/`), row.name);
  return tableRow(kind.columns, [name, state, ...kind.cells(row)], { data: { name: NAME(row) } });
}

// The list.

async function list(page, kind, plural, values, signal) {
  const view = { limit: STEP };
  const search = h("input", { type: "search", id: "q", placeholder: "Namespace, name, class, node, device", autocomplete: "off", spellcheck: "false" });
  const state = h("select", { id: "state" });
  search.value = values.get("q") ?? "";
  const found = h("p", { class: "found muted" });
  const place = h("div");
  page.append(
    h("h1", null, kind.title),
    h("div", { class: "filters", role: "search" },
      h("div", { class: "field" }, h("label", { for: "q", class: "unseen" }, `Search ${plural}`), search),
      h("div", { class: "field" }, h("label", { for: "state", class: "unseen" }, "State"), state),
      found),
    place,
  );
  showStates(state, kind, {}, values.get("state") ?? "");
  const load = async () => {
    const answer = await get(`/api/${plural}${query({ state: state.value, search: search.value.trim(), limit: view.limit })}`, signal);
    if (signal.aborted) return;
    listed.clear();
    for (const row of answer.rows) listed.set(`${plural} ${NAME(row)}`, row);
    showStates(state, kind, answer.states ?? {}, state.value);
    setText(found, count(answer.total, kind.one));
    showRows(place, kind, answer, () => {
      view.limit += STEP * 5;
      load();
    }, Boolean(search.value.trim() || state.value));
  };
  const again = () => load().catch(() => {}); // a lost connection has its own banner
  const typed = debounced(again, 120);
  const say = debounced(() => announce(found.textContent), 900);
  const changed = () => {
    view.limit = STEP;
    history.replaceState(null, "", `#/${plural}${query({ q: search.value.trim(), state: state.value })}`);
    typed();
    say();
  };
  search.addEventListener("input", changed);
  state.addEventListener("change", changed);
  listen(plural, debounced(again, 250), signal);
  await load();
}

function showStates(select, kind, counts, chosen) {
  const key = JSON.stringify(counts);
  if (select.dataset.key === key && select.value === chosen) return;
  select.dataset.key = key;
  fill(select, h("option", { value: "" }, "Any state"),
    kind.states.map((state) => h("option", { value: state }, state in counts ? `${state} (${counts[state]})` : state)));
  select.value = chosen;
}

/** Rows that say the same as before stay the same elements, so that focus and selection do. */
function showRows(place, kind, { rows, total }, more, isFiltered) {
  if (!rows.length) {
    fill(place, empty(kind, isFiltered));
    return;
  }
  let body = place.querySelector("tbody");
  if (!body) {
    fill(place, table(kind.title, kind.columns, []), h("p", { class: "more-line" }));
    body = place.querySelector("tbody");
  }
  const old = new Map([...body.children].map((element) => [element.dataset.name, element]));
  const elements = rows.map((row) => {
    const key = JSON.stringify({ ...row, age: 0 });
    const before = old.get(NAME(row));
    if (before?.dataset.key === key) return before;
    const element = rowOf(kind, row);
    element.dataset.key = key;
    return element;
  });
  keepingFocus(body, () => put(body, elements));
  const line = place.querySelector(".more-line");
  fill(line, rows.length < total && [`The first ${rows.length} of ${total}. `, h("button", { type: "button", on: { click: more } }, "Show more")]);
}

function empty(kind, isFiltered) {
  if (isFiltered) return h("div", { class: "empty" }, h("h2", null, `No ${kind.one} fits this filter`), h("p", null, "Try fewer words, or another state."));
  const [title, before, command, after] = kind.none;
  return h("div", { class: "empty" }, h("h2", null, title), h("p", null, before, h("code", null, command), after));
}

// One of them.

async function one(page, kind, plural, namespace, name, signal) {
  const full = `${namespace}/${name}`;
  const why = h("section", { class: "explanation" });
  const head = h("div", null, crumbs(kind, plural), h("h1", null, full), h("p", { class: "muted", role: "status" }, "Loading…"));
  page.append(head, why);
  let shown = "";
  let state = "";
  let asking = new AbortController(); // one question at a time: the next one ends it, and so does leaving the page
  signal.addEventListener("abort", () => asking.abort(), { once: true });
  const ask = async (row) => {
    asking.abort();
    const mine = (asking = new AbortController());
    try {
      await explain(why, kind.one, full, row.node, mine.signal);
    } catch (error) {
      if (mine.signal.aborted && !signal.aborted) return;
      shown = "";
      throw error;
    }
  };
  const show = async (row) => {
    fill(head, headOf(kind, plural, row, full));
    const key = `${row?.state} ${row?.reason}`;
    const before = shown;
    shown = key;
    state = row?.state;
    if (!row || !isAsked(kind, row)) {
      asking.abort();
      fill(why);
    } else if (before !== key) await ask(row);
  };
  const load = async () => {
    const { rows } = await get(`/api/${plural}${query({ search: full, limit: 500 })}`, signal);
    if (!signal.aborted) await show(rows.find((each) => NAME(each) === full));
  };
  const soon = debounced(() => load().catch(() => {}), 250);
  const changed = (change) => !change || [...change.changed.map(NAME), ...change.removed].includes(full);
  listen(plural, (change) => changed(change) && soon(), signal);
  listen("event", (event) => {
    if (kind.one !== "pod" || state !== "scheduled" || !warnsOf(event, full)) return;
    shown = "";
    soon();
  }, signal);
  const known = listed.get(`${plural} ${full}`);
  await Promise.all([known && show(known), load()]);
}

/** Whether there is something to explain: it waits for devices, was refused by its node, or has them and does not run. */
const isAsked = (kind, row) => ASKS_WHY.has(row.state) || (kind.one === "pod" && (row.state === "failed" || row.state === "scheduled"));

/** What a kubelet says last may be why a pod does not start. */
const warnsOf = (event, pod) => event.type === "Warning" && event.object === `Pod ${pod}`;

const crumbs = (kind, plural) => h("p", { class: "crumbs" }, h("a", { href: `#/${plural}` }, kind.title), ` / ${kind.one}`);

function headOf(kind, plural, row, name) {
  if (!row) return [crumbs(kind, plural), h("h1", null, name), h("p", null, `There is no such ${kind.one}; it may have been deleted. `, h("a", { href: `#/${plural}` }, `All ${plural}`))];
  return [
    crumbs(kind, plural),
    h("h1", null, name, " ", stateOf(row)),
    facts([
      ["Class", row.class],
      ["Asks for", kind.one === "pod" ? asks(row) : ""],
      ["Devices", devices(row.devices, 100)],
      ["Node", node(row)],
      ["Pods", names(row.pods, podLink, 100)],
      ["Created", timeOf(row.created, { focusable: true })],
      ["Says", row.reason],
    ]),
  ];
}
