// The table of values by key: only the rows in sight are in the page; the others are fetched as somebody scrolls to them.

const CHUNK = 250;
const AROUND = 12;  // rows beyond both edges, so that a quick turn of the wheel shows no gap
const box = document.querySelector("[data-values]");
const scroller = box.querySelector(".rows");
const table = scroller.querySelector("table");
const body = table.tBodies[0];
const figures = [...box.querySelectorAll("figure[data-chart]")];
const field = box.querySelector("input[type=search]");
const list = box.querySelector("#listed-feature");
const columns = table.tHead.rows[0].cells.length;
const asked = { feature: box.dataset.feature, sort: box.dataset.sort, down: box.dataset.down === "1", keys: field.value,
  level: box.dataset.level ?? "", within: box.dataset.within ?? "" };
let chunks = new Map();  // by number: rows, or a promise of them
let total = Number(box.dataset.total);
let question = 0;

for (const plain of box.querySelectorAll("[data-plain]")) plain.hidden = true;
box.classList.add("live");
const height = body.rows[0]?.getBoundingClientRect().height || 36;
const [above, below] = [spacer(), spacer()];
const pool = [];
for (const head of table.tHead.rows[0].cells) head.style.minWidth = `${head.offsetWidth}px`;  // columns keep their places

function spacer() {
  const row = document.createElement("tr");
  row.setAttribute("aria-hidden", "true");
  const cell = document.createElement("td");
  cell.colSpan = columns;
  row.className = "space";
  row.append(cell);
  return row;
}

function line() {
  const row = document.createElement("tr");
  for (let place = 0; place < columns; place++) {
    const cell = document.createElement(place ? "td" : "th");
    if (place) cell.className = "number";
    else cell.scope = "row";
    cell.append(document.createTextNode(""));
    row.append(cell);
  }
  return row;
}

function address(path, more = {}) {
  const query = { feature: asked.feature, sort: asked.sort === "key" ? "" : asked.sort, down: asked.down ? "1" : "", keys: asked.keys,
    level: asked.level, within: asked.within, ...more };
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  return `${box.dataset.values}${path}?${words}`;
}

async function answer(path) {
  for (;;) {
    const response = await fetch(path, { headers: { Accept: "application/json" } });
    if (response.status !== 429) return response.json();
    await new Promise((done) => { setTimeout(done, 1000 * Number(response.headers.get("Retry-After") ?? 1)); });
  }
}

function fetched(number) {
  const known = chunks.get(number);
  if (known !== undefined) return Array.isArray(known) ? known : null;
  const [mine, kept] = [question, chunks];
  kept.set(number, answer(address("/rows", { start: String(CHUNK * number) })).then((found) => {
    kept.set(number, found.rows.slice(0, CHUNK));
    if (mine !== question) return;
    if (found.total !== total) count(found.total);
    show();
  }));
  return null;
}

function count(found) {
  total = found;
  table.setAttribute("aria-rowcount", String(total + 1));
  box.querySelector("[data-count]").textContent = `${total.toLocaleString("en")} ${total === 1 ? "key" : "keys"}`;
  box.querySelector("[data-none]").hidden = total > 0;
  box.querySelector("[data-sought]").textContent = asked.keys;
}

function show() {
  const seen = Math.ceil(scroller.clientHeight / height) + 2 * AROUND;
  const first = Math.max(Math.min(Math.floor(scroller.scrollTop / height) - AROUND, total - seen), 0);
  const shown = Math.min(seen, total - first);
  while (pool.length < shown) pool.push(line());
  const rows = pool.slice(0, shown);
  if (body.children.length !== shown + 2) body.replaceChildren(above, ...rows, below);
  above.firstChild.style.height = `${first * height}px`;
  below.firstChild.style.height = `${(total - first - shown) * height}px`;
  for (const [place, row] of rows.entries()) {
    const at = first + place;
    const cells = fetched(Math.floor(at / CHUNK))?.[at % CHUNK];
    row.setAttribute("aria-rowindex", String(at + 2));
    for (let i = 0; i < columns; i++) {
      const text = cells ? cells[i] : i ? "" : "…";
      if (row.cells[i].firstChild.data !== text) row.cells[i].firstChild.data = text;
      if (!i && row.cells[i].title !== text) row.cells[i].title = text;  // names may be cut on a narrow screen
    }
  }
}

let waiting = false;
scroller.addEventListener("scroll", () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; show(); });
}, { passive: true });
addEventListener("resize", show);

function ask() {
  question += 1;
  chunks = new Map();
  scroller.scrollTop = 0;
  for (const link of table.tHead.querySelectorAll("a")) {
    const head = link.closest("th");
    if (link.dataset.by === asked.sort) head.setAttribute("aria-sort", asked.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  history.replaceState(null, "", `${address("")}#values`);
  show();
}

table.tHead.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link) return;
  event.preventDefault();
  asked.down = asked.sort === link.dataset.by ? !asked.down : link.dataset.by !== "key";
  asked.sort = link.dataset.by;
  ask();
});

let typing = null;
field.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => { asked.keys = field.value.trim(); ask(); }, 150);
});
field.form.addEventListener("submit", (event) => event.preventDefault());

async function pick(name, unit) {
  asked.feature = name;
  for (const link of box.querySelectorAll("[data-pick]")) {
    if (link.dataset.pick === name) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (list) list.value = name;
  for (const hidden of box.querySelectorAll("input[name=feature]")) hidden.value = name;
  table.tHead.querySelector("[data-of-unit]").textContent = unit && `(${unit})`;
  if ("one" in box.dataset) {  // files of a large sketch hold one feature
    for (const link of box.querySelectorAll("[data-file]")) {
      link.href = `${link.pathname}?${new URLSearchParams({ feature: name, ...(asked.level && { level: asked.level }) })}`;
    }
  }
  ask();
  const found = await answer(address("/charts"));
  if (asked.feature !== name) return;  // another one was picked meanwhile
  box.querySelector("[data-note]").hidden = !found.says_little;
  for (const figure of figures) {
    document.getElementById(figure.dataset.chart).textContent = JSON.stringify(found.charts[figure.dataset.chart]);
    dispatchEvent(new CustomEvent("saibot:redraw", { detail: figure }));
  }
}

box.addEventListener("click", (event) => {
  const link = event.target.closest(".picks a");
  if (!link) return;
  event.preventDefault();
  if ("pick" in link.dataset) pick(link.dataset.pick, link.dataset.unit);
  else if ("level" in link.dataset) location.assign(`${address("", { level: link.dataset.level, keys: "" })}#values`);
  else location.assign(`${address("", { within: link.dataset.within })}#values`);
});
list?.addEventListener("change", () => { pick(list.value, list.selectedOptions[0].dataset.unit); });
list?.form.addEventListener("submit", (event) => event.preventDefault());

show();
