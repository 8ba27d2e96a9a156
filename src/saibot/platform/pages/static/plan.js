// Sliders beside the number fields, and the expected errors while they move. The server computes; nothing is guessed here.

const form = document.querySelector("form[data-plan]");
const answer = document.getElementById("expected");
const problem = document.getElementById("problem");
let waiting = null;
let asked = 0;

for (const input of form.querySelectorAll("input[type=number]")) {
  const slider = document.createElement("input");
  const [low, high, log] = [Number(input.dataset.low), Number(input.dataset.high), "log" in input.dataset];
  const forth = log ? Math.log10 : Number;
  slider.type = "range";
  slider.min = forth(low);
  slider.max = forth(high);
  slider.step = log ? "any" : input.step;
  slider.value = forth(Math.max(Number(input.value || input.placeholder), low));
  slider.setAttribute("aria-label", `${form.querySelector(`label[for=${input.id}]`).firstChild.textContent.trim()} slider`);
  const told = () => slider.setAttribute("aria-valuetext", input.value || input.placeholder);
  slider.addEventListener("input", () => {
    input.value = log ? rounded(10 ** Number(slider.value), input) : slider.value;
    told();
    ask();
  });
  slider.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!log || !steps) return;  // "any" has no step of its own
    event.preventDefault();
    slider.value = Number(slider.value) + steps * 0.05;
    slider.dispatchEvent(new Event("input"));
  });
  input.addEventListener("input", () => { slider.value = forth(Math.max(Number(input.value), low)); told(); ask(); });
  told();
  input.closest(".field").append(slider);
}
form.addEventListener("change", ask);
form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });

function rounded(value, input) {
  const digits = Math.pow(10, Math.floor(Math.log10(value)) - 1);
  const two = Math.round(value / digits) * digits;
  return input.step === "1" || input.step === "" ? String(Math.max(Math.round(two), 1)) : String(Number(two.toPrecision(2)));
}

function ask() {
  clearTimeout(waiting);
  waiting = setTimeout(load, 120);
}

// The field that is refused, and why, where it is typed.
function mark(name) {
  document.getElementById("wrong")?.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  const field = name && form.elements[name];
  if (!field) return;
  const why = document.createElement("span");
  why.id = "wrong";
  why.className = "hint bad";
  why.textContent = problem.querySelector("strong").textContent;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", why.id);
  (field.closest(".range-head") ?? field).after(why);
}

async function load() {
  if (!form.checkValidity()) return;
  const number = ++asked;
  const query = new URLSearchParams(new FormData(form));
  const response = await fetch(`/plan/preview.json?${query}`, { headers: { Accept: "application/json" } });
  if (number !== asked) return;  // a newer question is under way
  if (response.status === 429) {  // others are planning, too: ask again when there is room
    waiting = setTimeout(load, 1000 * Number(response.headers.get("Retry-After") ?? 1));
    return;
  }
  const found = await response.json();
  history.replaceState(null, "", `/plan?${query}`);
  answer.innerHTML = found.html;
  problem.innerHTML = found.problem;
  mark(found.field);
  dispatchEvent(new Event("saibot:redraw"));
}
