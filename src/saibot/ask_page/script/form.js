// The form: what somebody typed about a table, as the plain words that `card.js` checks, and back again.

import { at, element } from "./dom.js";
import { readRows } from "./csv.js";
import { generatedDomain, listedDomain } from "./key_domain.js";
import { Refused } from "./refused.js";

const TEXTS = {
  name: "name", individual: "individual", neighbours: "neighbours", id: "id", rowsPerIndividual: "rows-per-individual",
  maxRows: "max-rows", epsilon: "epsilon", delta: "delta", capEpsilon: "cap-epsilon", capDelta: "cap-delta", test: "test",
};
const KEY_TEXTS = {
  column: "key",
  name: "key-name",
  kind: "key-kind",
  counts: "key-counts",
  first: "key-first",
  last: "key-last",
  id: "key-id",
  version: "key-version",
  values: "key-values",
};
const FACTS = ["name", "kind", "lower", "upper", "missing", "levels", "unit"];
const MOST_REMEMBERED = 100_000;  // letters of a pasted list that a ledger keeps for the next visit
const EXAMPLES = {
  dates: ["2024-01-01", "2024-12-31"],
  weeks: ["2024-W01", "2024-W52"],
  months: ["2024-01", "2024-12"],
  years: ["2010", "2024"],
  range: ["1", "15"],
};

// Lists the columns of a table. Names are all that is known of it.
export function listColumns(names) {
  const template = at("column-template").content.firstElementChild;
  at("columns").replaceChildren(...names.map((name, i) => {
    const entry = template.cloneNode(true), part = (what) => entry.querySelector(`[data-${what}]`);
    part("column").textContent = name;
    entry.dataset.at = name;
    for (const field of entry.querySelectorAll(".field")) {
      const input = field.querySelector("input, select, textarea"), label = field.querySelector("label");
      input.id = `column-${i}-${Object.keys(input.dataset)[0]}`;
      label.htmlFor = input.id;
      label.append(element("span", { class: "hidden-visually" }, ` of ${name}`));
    }
    part("name").value = name;
    part("use").addEventListener("change", () => { part("facts").hidden = !part("use").checked; });
    part("kind").addEventListener("change", () => {
      for (const field of entry.querySelectorAll("[data-for]")) field.hidden = field.dataset.for !== part("kind").value;
    });
    return entry;
  }));
  fillSelect(at("key"), [["", "no key: only more rows can be found"], ...names.map((name) => [name, name])]);
  fillSelect(at("id"), [
    ["", "no: each row is another individual"],
    ...names.map((name) => [name, `told apart by ${name}`]),
  ]);
}

function fillSelect(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, words]) => element("option", { value }, words)));
  if (options.some(([value]) => value === before)) select.value = before;
}

// Shows the fields that what was chosen needs, and hides the others.
export function showFields() {
  const byId = at("id").value !== "", keyed = at("key").value !== "", kind = at("key-kind").value;
  at("rows-per-individual-field").hidden = !byId;
  at("max-rows-field").hidden = !byId && at("neighbours").value !== "add-remove";
  for (const field of document.querySelectorAll("[data-key]")) field.hidden = !keyed;
  for (const field of document.querySelectorAll("[data-keys-of]")) {
    field.hidden = !keyed || !field.dataset.keysOf.split(" ").includes(kind);
  }
  const [first, last] = EXAMPLES[kind] ?? ["", ""];
  at("key-first").placeholder = first;
  at("key-last").placeholder = last;
}

// Everything as it was typed.
export function typedForm() {
  const words = Object.fromEntries(Object.entries(TEXTS).map(([name, id]) => [name, at(id).value.trim()]));
  const features = [...at("columns").children].filter((entry) => entry.querySelector("[data-use]").checked).map((entry) => ({
    column: entry.dataset.at,
    ...Object.fromEntries(FACTS.map((fact) => [fact, entry.querySelector(`[data-${fact}]`).value])),
  }));
  const key = Object.fromEntries(Object.entries(KEY_TEXTS).map(([name, id]) => [name, at(id).value.trim()]));
  return { ...words, features, key: key.column === "" ? null : key };
}

// What a ledger keeps of it, to fill the form at the next visit. All of it is public.
export function rememberedForm(typed) {
  const long = typed.key && typed.key.values.length > MOST_REMEMBERED;
  return long ? { ...typed, key: { ...typed.key, values: "" } } : typed;
}

export function fillForm(typed) {
  for (const [name, id] of Object.entries(TEXTS)) {
    if (typeof typed[name] === "string") setValue(at(id), typed[name]);
  }
  for (const entry of at("columns").children) {
    const facts = typed.features.find(({ column }) => column === entry.dataset.at);
    const use = entry.querySelector("[data-use]");
    use.checked = facts !== undefined;
    for (const fact of facts ? FACTS : []) entry.querySelector(`[data-${fact}]`).value = facts[fact] ?? "";
    use.dispatchEvent(new Event("change"));
    entry.querySelector("[data-kind]").dispatchEvent(new Event("change"));
  }
  for (const [name, id] of Object.entries(KEY_TEXTS)) setValue(at(id), typed.key?.[name] ?? "");
  if (!at("key-kind").value) at("key-kind").value = "dates";
  showFields();
}

function setValue(input, value) {
  if (input.tagName !== "SELECT" || [...input.options].some((option) => option.value === value)) input.value = value;
}

// The typed words with lists of lines and the key's domain made of them, for `cardOf`.
export async function withDomain(typed, listFile) {
  const features = typed.features.map((facts) => ({ ...facts, levels: linesOf(facts.levels) }));
  if (typed.key === null) return { ...typed, features };
  const { column, name } = typed.key, [domain, source] = await domainTyped(typed.key, listFile);
  return { ...typed, features, key: { column, name, domain, source } };
}

function linesOf(text) {
  return text.split(/\r?\n/).map((line) => line.trim()).filter((line) => line !== "");
}

async function domainTyped({ kind, counts, first, last, id, version, values }, listFile) {
  if (kind !== "list" && kind !== "file") {
    const spelled = `${kind}:${kind === "range" && counts ? `${counts}:` : ""}${first}:${last}`,
      domain = generatedDomain(spelled);
    if (domain === null)
      throw new Refused(
        "the first and the last key do not make a range of keys.",
        `They are written as ${EXAMPLES[kind].join(" and ")}; what whole numbers count, in small letters.`,
      );
    return [domain, { kind: "spelled" }];
  }
  if (!/^[1-9][0-9]{0,8}$/.test(version)) throw new Refused("the version of a list of keys is a whole number.");
  if (kind === "list") return [listedDomain(id, Number(version), linesOf(values)), { kind: "list" }];
  if (!listFile) throw new Refused("choose the file with the list of keys.");
  return [await domainOfFile(listFile, id, Number(version)), { kind: "file", file: listFile.name }];
}

// First column the keys, further columns what each belongs to: public, as platforms give it.
async function domainOfFile(file, id, version) {
  const rows = [];
  await readRows(file, (cells) => { rows.push(cells); });
  const [names, ...lines] = rows, column = (i) => lines.map((cells) => cells[i]);
  return listedDomain(id, version, column(0), names.slice(1).map((name, i) => [name, column(i + 1)]));
}
