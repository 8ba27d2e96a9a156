// Small helpers of the page: elements, problems, progress, files to save. Text goes in as text, never as HTML.

import { Refused } from "./refused.js";

export function at(id) {
  return document.getElementById(id);
}

export function element(name, facts = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(facts)) {
    if (key in made && typeof value !== "string") made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// A table with a caption for those who do not see it; the first cell of a row is its heading.
export function tableOfRows(caption, names, rows) {
  const cell = (value, i) => element(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : { class: "number" }, String(value));
  const table = element(
    "table", {},
    element("caption", { class: "hidden-visually" }, caption),
    element(
      "thead",
      {},
      element("tr", {}, ...names.map((name, i) => element("th", { scope: "col", ...(i ? { class: "number" } : {}) }, name))),
    ),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))),
  );
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption }, table);
}

export function details(summary, ...children) {
  return element("details", {}, element("summary", {}, summary), ...children);
}

// Says what is wrong where it was asked for, or takes that away again.
export function tell(place, problem) {
  place.replaceChildren();
  if (!problem) return;
  const known = problem instanceof Refused;
  const words = known ? problem.message : "something went wrong in this page, and nothing was released.";
  place.append(
    element(
      "div",
      { class: "note bad" },
      element("strong", {}, capital(words)),
      known ? problem.hint : String(problem.message ?? ""),
    ),
  );
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Shows a section and goes there, also for those who listen.
export function showStep(id, heading) {
  at(id).hidden = false;
  at(heading).focus();
  at(id).scrollIntoView({ block: "start" });
}

let painted = 0;
export async function showProgress(words, share) {
  if (performance.now() - painted < 60 && !at("progress").hidden && at("progress-words").textContent === words) return;
  at("progress").hidden = false;
  at("progress-words").textContent = words;
  if (share === null) at("progress-bar").removeAttribute("value"); else at("progress-bar").value = share;
  await new Promise((ready) => setTimeout(ready));  // lets the browser paint
  painted = performance.now();
}

export function hideProgress() {
  at("progress").hidden = true;
}

// A button that saves a file. Names of files are made of public words alone. `saved` hears that it was asked to.
export function saveButton(words, name, content, type, saved = () => {}, look = "button") {
  const button = element("button", { class: look, type: "button" }, words);
  button.addEventListener("click", () => {
    saveFile(name, content, type);
    button.textContent = `${words} (saved)`;
    saved();
  });
  return button;
}

export function saveFile(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
