// Runs before the first paint, so that the page never flashes in the other colours.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("dray-theme");
  } catch {
    // Storage may be forbidden; the system's choice is fine then.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
