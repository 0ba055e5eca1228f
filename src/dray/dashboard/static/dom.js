// Elements from values. Text is always a text node: nothing that a cluster says is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `props`: attributes; `class`, `data` (dataset) and `on` (listeners) by those names; null or false is left out. */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [type, act] of Object.entries(value)) element.addEventListener(type, act);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/** Put `children` in the place of what `element` has. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Make these the children, moving none that is in its place already: an element that is moved loses the focus. */
export function place(parent, elements) {
  const wanted = new Set(elements);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let here = parent.firstElementChild;
  for (const element of elements) {
    if (element === here) here = here.nextElementSibling;
    else parent.insertBefore(element, here);
  }
}

const FOCUSABLE = "a[href], button, select, input, textarea, summary, [tabindex]";

/** Run `act`, which draws `page` anew: what had the focus gets it again, known by where it leads, or else by its place. */
export function keepingFocus(page, act) {
  const before = [...page.querySelectorAll(FOCUSABLE)];
  const index = before.indexOf(document.activeElement);
  const href = before[index]?.getAttribute("href");
  act();
  if (index < 0) return;
  const after = [...page.querySelectorAll(FOCUSABLE)];
  const same = href ? after.find((one) => one.getAttribute("href") === href) : null;
  (same ?? after[index])?.focus({ preventScroll: true });
}

/** Change the text only where it differs, so that a selection and a screen reader are not disturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Tell a screen reader, politely. */
export function announce(text) {
  setText(document.getElementById("said"), text);
}

/** Call `act` once things have been quiet for `ms`. */
export function debounced(act, ms) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...args), ms);
  };
}

/** "1 device", "2 devices". */
export function count(number, word) {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

const collator = new Intl.Collator("en", { numeric: true });

/** gpu-2 before gpu-10. */
export function byName(a, b) {
  return collator.compare(a, b);
}
