// The frame: which page is shown, login, keys, colours, the state of the connection.
import { ApiError, post } from "./api.js";
import { announce, fill, h, setText } from "./dom.js";
import { live, listen, start } from "./live.js";
import { absolute } from "./time.js";

const PAGES = {
  fleet: ["Fleet", () => import("./fleet.js")],
  nodes: ["Node", () => import("./node.js")],
  devices: ["Device", () => import("./device.js")],
  claims: ["Claims", () => import("./workloads.js")],
  pods: ["Pods", () => import("./workloads.js")],
  events: ["Events", () => import("./events.js")],
  whatif: ["What if", () => import("./whatif.js")],
};
const KEYS = { f: "fleet", c: "claims", p: "pods", e: "events", w: "whatif" };
const MAIN = document.getElementById("main");

let leave = new AbortController();
let shown = "";

/** "#/nodes/a%2Fb?q=x" → page, the names after it, and the values of its query. */
function route() {
  const [path, values] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...names] = path.split("/").map(decoded);
  return { page: page in PAGES ? page : "fleet", names, values: new URLSearchParams(values ?? "") };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Show the page of the address. A page gets an element, its route and a signal that ends what it started. */
async function show() {
  const at = route();
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const [title, load] = PAGES[at.page];
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.getAttribute("href") === `#/${at.page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${at.names.length ? `${at.names.at(-1)} · ` : ""}${title} · Dray`;
  const page = h("div", { class: `page at-${at.page}` });
  try {
    const module = await load();
    if (signal.aborted) return;
    fill(MAIN, page);
    await module.render(page, at, signal);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    fill(MAIN, page);
    failed(page, error);
  }
  if (shown && shown !== location.hash) {
    window.scrollTo(0, 0);
    MAIN.focus({ preventScroll: true });
    announce(document.title);
  }
  shown = location.hash;
}

function failed(page, error) {
  if (!(error instanceof ApiError)) throw error;
  if (error.status === 401) {
    login();
    return;
  }
  fill(
    page,
    h("h1", null, error.status === 404 ? "Not here" : "This did not work"),
    h("p", null, error.message),
    h("p", null, h("button", { type: "button", on: { click: show } }, "Try again"), " ", h("a", { href: "#/fleet" }, "Back to the fleet")),
  );
}

function login(message = "") {
  leave.abort();
  const token = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const said = h("p", { class: "error", role: "alert" }, message);
  const submit = async (event) => {
    event.preventDefault();
    try {
      await post("/api/login", { token: token.value.trim() });
      begin();
    } catch (error) {
      setText(said, error.message);
      token.select();
    }
  };
  document.title = "Log in · Dray";
  fill(
    MAIN,
    h("form", { class: "login", on: { submit } },
      h("h1", null, "Dray"),
      h("p", null, "The address that ", h("code", null, "dray up"), " or ", h("code", null, "dray dashboard"), " printed logs you in. Or give its token here."),
      h("label", { for: "token" }, "Token"),
      token,
      said,
      h("button", { type: "submit", class: "primary" }, "Log in")),
  );
  token.focus();
}

function begin() {
  start(() => login(live.summary ? "Please log in again." : ""));
  show();
}

/** The printed address has the token after the #: it never reaches a log, and leaves the address bar at once. */
async function enter() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token) {
    history.replaceState(null, "", "#/fleet");
    try {
      await post("/api/login", { token: decoded(token) });
    } catch (error) {
      login(error.message);
      return;
    }
  }
  begin();
}

// The state of the connection.

const BADGES = { wait: "Connecting", ok: "Live", lag: "Cluster away", lost: "Connection lost" };

function showLink(link) {
  const badge = document.getElementById("link-state");
  const banner = document.getElementById("banner");
  badge.dataset.state = link;
  setText(badge.lastElementChild, BADGES[link]);
  const since = absolute(live.since).slice(11);
  const text = {
    lost: `Connection lost at ${since}. What you see is from then; trying again.`,
    lag: `The cluster has not answered since ${since}. What you see is from then${live.why ? ` (${live.why})` : ""}.`,
  }[link];
  banner.hidden = !text;
  setText(banner, text ?? "");
}

// Colours.

const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };
const ORDER = Object.keys(THEMES);

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === "auto") localStorage.removeItem("dray-theme");
    else localStorage.setItem("dray-theme", theme);
  } catch {
    // Without storage the choice lasts until the page is left.
  }
  setText(document.getElementById("theme").lastElementChild, THEMES[theme]);
}

const theme = () => document.documentElement.dataset.theme ?? "auto";

// Keys.

let went = 0;

function onKey(event) {
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && event.target.type === "search" && event.target.value) {
    event.target.value = "";
    event.target.dispatchEvent(new Event("input", { bubbles: true }));
    event.preventDefault();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "/") {
    const search = MAIN.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
      search.select();
    }
  } else if (event.key === "?") {
    document.getElementById("help-dialog").showModal();
  } else if (event.key === "g") {
    went = Date.now();
  } else if (event.key in KEYS && Date.now() - went < 1500) {
    went = 0;
    location.hash = `#/${KEYS[event.key]}`;
  }
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part after # is the page's
  MAIN.focus();
});
document.getElementById("theme").addEventListener("click", () => setTheme(ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length]));
document.getElementById("help").addEventListener("click", () => document.getElementById("help-dialog").showModal());
document.getElementById("help-close").addEventListener("click", () => document.getElementById("help-dialog").close());
document.getElementById("logout").addEventListener("click", async () => {
  await post("/api/logout", {}).catch(() => {}); // without an answer the cookie stays, and so does the page
  location.reload();
});
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", show);
listen("link", showLink);
listen("fleet", () => {
  const { address, version } = live.server;
  setText(document.getElementById("foot"), address ? `Cluster ${address}${version ? `, Kubernetes ${version}` : ""}` : "");
});
setTheme(theme());
enter();
