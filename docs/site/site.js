// Loaded before mkdocs' own search, which asks for `base_url`.
"use strict";
var base_url = document.documentElement.dataset.base;

(function () {
  const menu = document.getElementById("menu");
  const pages = document.getElementById("pages");
  menu.addEventListener("click", function () {
    const open = pages.classList.toggle("open");
    menu.setAttribute("aria-expanded", String(open));
  });
  const query = document.getElementById("mkdocs-search-query");
  const found = document.getElementById("mkdocs-search-results");
  query.addEventListener("input", function () {
    found.classList.toggle("searched", query.value.length > 0);
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "/" && document.activeElement !== query) {
      event.preventDefault();
      query.focus();
    } else if (event.key === "Escape" && document.activeElement === query) {
      query.value = "";
      found.classList.remove("searched");
    }
  });
})();
