// Looks at a chosen file before it is sent: rows are refused here, in the browser, and a sketch's features fill the form.

const MAGIC = "ARROW1";
const MARK = '"format":"saibot-sketch"';
const MOST = 64 * 1024 * 1024;  // larger sketches are sent without a look

const form = document.querySelector("form[data-ask]");

for (const input of form.querySelectorAll("input[type=file]")) {
  const told = document.getElementById(input.getAttribute("aria-describedby").split(" ")[0]);
  const first = told.textContent;
  const instead = document.getElementById(`${input.id}-instead`);
  input.addEventListener("change", async () => {
    told.classList.remove("bad");
    instead.hidden = true;
    input.setCustomValidity("");
    input.removeAttribute("aria-invalid");
    const file = input.files[0];
    if (!file) { told.textContent = first; return; }
    if (await startOf(file, MAGIC.length) !== MAGIC) {
      const words = `${file.name} is not a sketch, and it was not sent. Make one of it on your own machine.`;
      instead.querySelector("code").replaceChildren(...wholeWords(`saibot privatize ${quoted(file.name)} --card CARD.toml --key KEY --epsilon 1`));
      instead.hidden = false;
      told.textContent = words;
      told.classList.add("bad");
      input.setAttribute("aria-invalid", "true");
      input.setCustomValidity(words);
      input.value = "";
      return;
    }
    const header = file.size <= MOST ? readHeader(new Uint8Array(await file.arrayBuffer())) : null;
    if (!header) { told.textContent = file.name; return; }
    const key = header.key ? `, by ${header.key.name}` : "";
    told.textContent = `${header.dataset.name}: ${header.features.map((feature) => feature.name).join(", ")}${key}; ε = ${header.budget.epsilon}`;
    if (input.name === "train") offerTargets(header.features.map((feature) => feature.name));
  });
}

// As a shell reads it.
function quoted(name) {
  return /^[\w@%+=:,./-]+$/.test(name) ? name : `'${name.replaceAll("'", `'"'"'`)}'`;
}

// Lines of a command end at blanks, not behind the hyphens of an option.
function wholeWords(command) {
  return command.split(/( )/).map((part) => {
    if (!part.startsWith("-")) return part;
    const whole = document.createElement("span");
    whole.textContent = part;
    return whole;
  });
}

async function startOf(file, length) {
  return new TextDecoder("latin1").decode(await file.slice(0, length).arrayBuffer());
}

// The header is one JSON text in the file, its length in the four bytes before it.
function readHeader(bytes) {
  const mark = find(bytes, new TextEncoder().encode(MARK));
  if (mark < 0) return null;
  const view = new DataView(bytes.buffer);
  for (let start = mark; start >= 4; start--) {
    if (bytes[start] !== 0x7b) continue;
    const end = start + view.getUint32(start - 4, true);
    if (end <= mark || end > bytes.length || bytes[end - 1] !== 0x7d) continue;
    try {
      return JSON.parse(new TextDecoder().decode(bytes.subarray(start, end)));
    } catch { /* a brace inside the text: look further back */ }
  }
  return null;
}

function find(bytes, wanted) {
  for (let at = bytes.indexOf(wanted[0]); at >= 0; at = bytes.indexOf(wanted[0], at + 1)) {
    if (wanted.every((byte, i) => bytes[at + i] === byte)) return at;
  }
  return -1;
}

function offerTargets(names) {
  const current = document.getElementById("target");
  const before = current.value;
  const select = document.createElement("select");
  select.id = "target";
  select.name = "target";
  select.required = true;
  select.setAttribute("aria-describedby", current.getAttribute("aria-describedby"));
  select.append(new Option("Choose a feature", ""), ...names.map((name) => new Option(name, name)));
  if (names.includes(before)) select.value = before;
  current.replaceWith(select);
}

form.addEventListener("submit", () => {
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  button.textContent = "Sending…";
});
addEventListener("pageshow", () => {
  const button = form.querySelector("button[type=submit]");
  button.disabled = false;
  button.textContent = button.dataset.label;
});
