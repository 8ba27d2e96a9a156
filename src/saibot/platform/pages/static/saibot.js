// What every page may use: copy buttons, tables that sort and narrow, forms that send themselves. Pages work without it.

for (const box of document.querySelectorAll(".copy")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button quiet little no-print";
  button.textContent = "Copy";
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    const text = box.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Plain http has no clipboard: select the text, so that one key press copies it.
      getSelection().selectAllChildren(box.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  box.append(button);
}

// On a narrow screen the menu scrolls sideways: where one is shall be in sight.
document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

for (const hidden of document.querySelectorAll("[data-needs-script]")) hidden.hidden = false;

for (const select of document.querySelectorAll("select[data-sends]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  const heads = [...table.tHead.rows[0].cells];
  for (const [place, head] of heads.entries()) {
    if (!head.dataset.sort) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => sortBy(table, heads, place));
  }
}

function sortBy(table, heads, place) {
  const numeric = heads[place].dataset.sort === "number";
  const down = heads[place].getAttribute("aria-sort") !== "descending" && numeric
    ? true : heads[place].getAttribute("aria-sort") === "ascending";
  const value = (row) => {
    const cell = row.cells[place];
    if (!numeric) return cell.textContent.trim();
    const text = cell.dataset.value ?? cell.textContent.replaceAll(",", "");
    return text === "" ? null : Number(text);
  };
  const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);  // rows without a number stay last
    return (numeric ? a - b : a.localeCompare(b)) * (down ? -1 : 1);
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
  for (const head of heads) head.removeAttribute("aria-sort");
  heads[place].setAttribute("aria-sort", down ? "descending" : "ascending");
}

for (const input of document.querySelectorAll("input[data-filters]")) {
  const rows = [...document.getElementById(input.dataset.filters).tBodies[0].rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    rows.forEach((row, i) => { row.hidden = !texts[i].includes(wanted); });
  });
}

// A dialog asks once more before something is gone. Without script the form's own page asks.
for (const link of document.querySelectorAll("a[data-dialog]")) {
  const dialog = document.getElementById(link.dataset.dialog);
  link.setAttribute("role", "button");
  link.addEventListener("click", (event) => { event.preventDefault(); dialog.showModal(); });
  link.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); dialog.showModal(); } });
}
for (const button of document.querySelectorAll("dialog [data-close]")) {
  button.addEventListener("click", (event) => { event.preventDefault(); button.closest("dialog").close(); });
}
