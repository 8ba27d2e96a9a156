// What makes reading easier: colours, copy buttons, where one is on the page, and the search box. The guide reads well without.

const root = document.documentElement;

// ------------------------------------------------------------------------------------------------ colours

const button = document.querySelector("[data-scheme-button]");
const dark = () => (root.dataset.scheme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const showScheme = () => button.setAttribute("aria-pressed", String(dark()));
button.hidden = false;
showScheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showScheme);
button.addEventListener("click", () => {
  root.dataset.scheme = dark() ? "light" : "dark";
  try { localStorage.setItem("saibot-guide-scheme", root.dataset.scheme); } catch { /* for this page only, then */ }
  showScheme();
});

// ------------------------------------------------------------------------------------------------ frame

// Served by a platform, the way back to it is shown; on a disk or elsewhere there is none.
if (location.protocol.startsWith("http") && location.pathname.startsWith("/help/")) document.querySelector("[data-platform]").hidden = false;

const menu = document.querySelector("[data-menu]");
if (menu && matchMedia("(max-width: 62rem)").matches) menu.open = false;
menu?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

for (const block of document.querySelectorAll(".highlight > pre, .highlight > code > pre")) {
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "copy-code";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.innerText.replace(/\n$/, ""));
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(block); // plain http has no clipboard: one key press copies what is selected
      copy.textContent = "Selected";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  });
  block.parentElement.append(copy);
}

const links = new Map([...document.querySelectorAll(".toc a")].map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
if (links.size) {
  const heads = [...links.keys()].map((id) => document.getElementById(id)).filter(Boolean);
  const mark = () => {
    const passed = heads.filter((head) => head.getBoundingClientRect().top < 140);
    const now = passed.at(-1)?.id;
    for (const [id, link] of links) link.toggleAttribute("data-here", id === now);
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

// ------------------------------------------------------------------------------------------------ search

const form = document.querySelector("[data-find]");
const field = form.querySelector("input");
const list = form.querySelector(".found");
const told = form.querySelector("[data-found]");
form.hidden = false;

let index;
function load() {
  // A script and not a request: files on a disk cannot be fetched, but they can be included.
  index ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = document.body.dataset.index;
    if (document.body.dataset.indexDigest) script.integrity = document.body.dataset.indexDigest;
    script.addEventListener("load", () => done(new GuideIndex(window.guideSections)));
    script.addEventListener("error", failed);
    document.head.append(script);
  });
  return index;
}

function close() {
  list.hidden = true;
  list.replaceChildren();
  field.setAttribute("aria-expanded", "false");
  field.removeAttribute("aria-activedescendant");
}

function choose(place) {
  const options = [...list.children].filter((each) => each.role === "option");
  options.forEach((each, i) => each.setAttribute("aria-selected", String(i === place)));
  options[place]?.scrollIntoView({ block: "nearest" });
  if (options[place]) field.setAttribute("aria-activedescendant", options[place].id);
}

function marked(text, terms) {
  const parts = document.createDocumentFragment();
  for (const [i, piece] of splitAtTerms(text, terms).entries()) {
    const part = i % 2 ? document.createElement("mark") : document.createTextNode(piece);
    if (i % 2) part.textContent = piece;
    parts.append(part);
  }
  return parts;
}

async function show() {
  const words = field.value.trim();
  if (!words) return close();
  const { terms, found } = (await load()).search(words, 12);
  if (field.value.trim() !== words) return;
  list.replaceChildren(...found.map((hit, i) => {
    const link = document.createElement("a");
    link.href = `${document.body.dataset.base}/${hit.url}`;
    link.role = "option";
    link.id = `found-${i}`;
    link.tabIndex = -1;
    const head = document.createElement("strong");
    head.append(marked(hit.heading, terms));
    const where = document.createElement("small");
    where.textContent = [hit.heading, hit.part].includes(hit.title) ? hit.part : `${hit.part} › ${hit.title}`;
    const excerpt = document.createElement("span");
    excerpt.append(marked(hit.excerpt, terms));
    link.append(where, head, excerpt);
    return link;
  }));
  if (!found.length) {
    const nothing = document.createElement("p");
    nothing.textContent = "Nothing found. Try fewer or other words.";
    list.append(nothing);
  }
  told.textContent = found.length ? `${found.length} places found` : "Nothing found";
  list.hidden = false;
  field.setAttribute("aria-expanded", "true");
  choose(0);
}

field.addEventListener("focus", load, { once: true });
field.addEventListener("input", show);
field.addEventListener("keydown", (event) => {
  const options = [...list.children].filter((each) => each.role === "option");
  const now = options.findIndex((each) => each.getAttribute("aria-selected") === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && options.length) {
    event.preventDefault();
    choose((now + step + options.length) % options.length);
  } else if (event.key === "Escape") {
    field.value = "";
    close();
  }
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (list.hidden) await show(); // typed faster than the index was loaded
  const chosen = list.querySelector('[aria-selected="true"]');
  if (chosen) { location.assign(chosen.href); close(); }
});
document.addEventListener("click", (event) => { if (!form.contains(event.target)) close(); });
list.addEventListener("click", () => setTimeout(close));
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, [contenteditable]");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) { event.preventDefault(); field.focus(); }
});
