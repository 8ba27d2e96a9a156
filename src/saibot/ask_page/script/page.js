// The page: one step after the other, each shown when the one before it is done. What is learned from rows is shown nowhere.

import { cardOf, cardToml } from "./card.js";
import { readNames } from "./csv.js";
import { at, element, hideProgress, saveFile, showProgress, showStep, tell } from "./dom.js";
import { fillForm, listColumns, rememberedForm, showFields, typedForm, withDomain } from "./form.js";
import { whyNoNames } from "./heading.js";
import { accountNamed, boughtBefore, ledgerText, newLedger, readLedgerFile } from "./ledger.js";
import { Refused } from "./refused.js";
import { drawn, prepared } from "./request.js";
import { shownBought, shownFiles, shownLedger, shownPlan } from "./shown.js";
import { withoutWhiteSpace } from "./spelling.js";

const state = { ledger: null, file: null, names: null, ready: null, unsaved: new Set(), busy: false };

// Runs a step, says what went wrong, and lets nothing else begin meanwhile.
async function step(problemAt, work) {
  if (state.busy) return;
  const focused = document.activeElement;
  state.busy = true;
  tell(at(problemAt), null);
  try {
    await work();
  } catch (problem) {
    tell(at(problemAt), problem);
    focused?.focus();
  } finally {
    hideProgress();
    state.busy = false;
  }
}

// ------------------------------------------------------------------------------------------------ 1 and 2: ledger and table

async function openLedger(ledger) {
  state.ledger = ledger;
  await forget();
  at("ledger-shown").replaceChildren(...shownLedger(ledger));
  showStep("table-step", "table-head");
  if (state.names !== null) useNames();
}

async function openTable() {
  const file = at("table-file").files[0];
  await forget();
  Object.assign(state, { file: file ?? null, names: null });
  at("facts-step").hidden = true;
  at("names-doubt").hidden = true;
  at("names-sure").checked = false;
  if (!file) return;
  const cells = await readNames(file),
    names = cells.map((cell, i) => withoutWhiteSpace(cell) || `column${i}`);
  if (new Set(names).size < names.length)
    throw new Refused("two columns of the table have the same name.", "Give each a name of its own in the first line.");
  state.names = names;
  const why = whyNoNames(cells);
  if (why === null) return useNames();
  at("names-why").textContent =
    `The first line does not look like the names of columns: ${why}. Names become public; if these are somebody's cells, ` +
    "write a line with names first.";
  at("names-doubt").hidden = false;
}

function useNames() {
  if (!at("names-doubt").hidden && !at("names-sure").checked) return;
  listColumns(state.names);
  const last = state.ledger.requests.findLast(
    ({ form }) => form && form.features.every(({ column }) => state.names.includes(column)),
  );
  if (last) fillForm(last.form);
  showFields();
  showCap();
  showStep("facts-step", "facts-head");
}

// The cap of an account is fixed by its first request.
function showCap() {
  const known = accountNamed(state.ledger, at("name").value.trim());
  for (const [id, part] of [["cap-epsilon", "epsilon"], ["cap-delta", "delta"]]) {
    at(id).readOnly = known !== null;
    if (known) at(id).value = known.cap[part];
  }
}

// ------------------------------------------------------------------------------------------------ 3 to 5: plan and charge

// Whatever was planned is no longer what would be sent.
async function forget() {
  state.ready = null;
  for (const id of ["plan-step", "files-step", "confirm-field"]) at(id).hidden = true;
}

async function check() {
  await forget();
  const typed = typedForm(), card = cardOf(await withDomain(typed, at("key-file").files[0]));
  const again = at("again").checked, bought = again ? null : boughtBefore(state.ledger, card);
  at("charge-step").hidden = bought !== null;
  at("doubts").hidden = true;
  if (bought !== null) {
    at("plan-shown").replaceChildren(...shownBought(bought, () => {}));
    return showStep("plan-step", "plan-head");
  }
  const options = { again, now: new Date().toISOString(), progress: showProgress };
  const ready = await untouched(() => prepared(state.file, state.names, card, state.ledger, options));
  ready.ledger.requests.at(-1).form = rememberedForm(typed);
  state.ready = ready;
  at("plan-shown").replaceChildren(...shownPlan(ready));
  at("doubts").hidden = ready.doubts.length === 0;
  at("doubts-accepted").checked = false;
  at("doubts-list").replaceChildren(
    ...ready.doubts.map((doubt) => element("li", {}, `Nearly all that is paid for would be noise: ${doubt}`)),
  );
  showStep("plan-step", "plan-head");
}

// What is typed while the table is read would not be what is planned.
async function untouched(work) {
  at("facts-step").inert = true;
  try {
    return await work();
  } finally {
    at("facts-step").inert = false;
  }
}

async function saveCharge() {
  const { ready } = state;
  if (ready.doubts.length > 0 && !at("doubts-accepted").checked) {
    throw new Refused(
      "nothing was charged: nearly all that is paid for would be noise.",
      "Mend what you typed above, or tick that you want it all the same.",
    );
  }
  const name = fileOf(ready.ledger);
  state.ledger = ready.ledger;  // from now on it counts, also where nobody goes further: the next charge comes on top of it
  at("ledger-shown").replaceChildren(...shownLedger(state.ledger));
  showCap();
  saveFile(name, ledgerText(ready.ledger), "application/json");
  at("confirm-hint").textContent = `The file ${name}. Until it was read here, no noise is drawn and nothing can be sent.`;
  at("confirm-field").hidden = false;
  at("confirm-file").value = "";
  at("confirm-file").focus();
}

async function confirmCharge() {
  const file = at("confirm-file").files[0], { ready } = state;
  if (!file || !ready) return;
  const done = await drawn(ready, await readLedgerFile(file), showProgress);
  Object.assign(state, { ledger: done.ledger, ready: null });
  at("charge-step").hidden = true;
  at("plan-step").hidden = true;
  at("ledger-shown").replaceChildren(...shownLedger(done.ledger));
  showCap();
  state.unsaved = new Set(done.files.map(({ part }) => `${ready.card.name}-${part}.saibot`));
  const files = {
    ...done, card: ready.card,
    ledgerFile: { name: fileOf(done.ledger), content: ledgerText(done.ledger) },
    cardFile: { name: `${ready.card.name}.toml`, content: cardToml(ready.card) },
  };
  at("files-shown").replaceChildren(...shownFiles(files, (name) => state.unsaved.delete(name)));
  showStep("files-step", "files-head");
}

function fileOf({ saved }) {
  return `saibot-ledger-${String(saved).padStart(4, "0")}.json`;
}

// ------------------------------------------------------------------------------------------------ what people do

// Only a file on one's own disk is the same file each time.
at(location.protocol === "file:" ? "ledger-step" : "served").hidden = false;

at("ledger-new").addEventListener("click", () => step("ledger-problem", () => openLedger(newLedger())));
at("ledger-file").addEventListener("change", () => step("ledger-problem", async () => {
  const file = at("ledger-file").files[0];
  if (file) await openLedger(await readLedgerFile(file));
}));
at("table-file").addEventListener("change", () => step("table-problem", openTable));
at("names-sure").addEventListener("change", () => step("table-problem", async () => useNames()));
at("facts-step").addEventListener("submit", (event) => {
  event.preventDefault();
  step("check-problem", check);
});
at("facts-step").addEventListener("input", () => {
  forget();
  showFields();
});
at("name").addEventListener("change", showCap);
at("charge").addEventListener("click", () => step("charge-problem", saveCharge));
at("confirm-file").addEventListener("change", () => step("charge-problem", confirmCharge));
addEventListener("beforeunload", (event) => {
  if (state.unsaved.size > 0) event.preventDefault();  // paid for, and not saved yet
});
