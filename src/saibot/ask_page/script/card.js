// What is public about a table, as somebody types it into the page: checked here by the rules of a dataset card.
//
// A card is { name, title, individual, neighbours, id, rowsPerIndividual, maxRows, features, key, epsilon, delta, cap, test
// }. Features have { name, column, unit } and either { lower, upper, missing } or { levels }; the key { name, column,
// domain, byDay, source }. Nothing in it is read from rows but the names of columns.

import { countsDays } from "./calendar.js";
import { compareDecimals, decimalOf, plainDecimal, pythonFloat } from "./numbers.js";
import { grouped, Refused } from "./refused.js";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,93}$/;  // with -train behind it still one of 100 letters
const LARGEST = 1e20;
const MOST_LEVELS = 1000;
const MOST_ROWS = 1_099_511_627_776;  // 2^40
const ZERO = { digits: 0n, exponent: 0 }, UNITY = { digits: 1n, exponent: 0 };

export function cardOf(typed) {
  if (!NAME.test(typed.name)) {
    throw new Refused(
      "the table needs a short name of letters, digits, dots and dashes, such as my-clinic-2024.",
      "It becomes public, and the ledger knows the table by it.",
    );
  }
  const id = typed.id || null;
  const card = {
    name: typed.name,
    title: publicText(typed.title, "the title", 2000),
    individual: publicText(typed.individual || "one row", "what one individual is", 2000),
    neighbours: typed.neighbours,
    id,
    rowsPerIndividual: id === null ? 1 : wholeNumber(typed.rowsPerIndividual, "rows of one individual", 1, 100),
    maxRows:
      typed.neighbours === "add-remove" || id !== null
        ? wholeNumber(typed.maxRows, "the most rows that the table may have", 1, MOST_ROWS)
        : null,
    features: typed.features.map(featureOf),
    key: typed.key ? keyOfCard(typed.key) : null,
    ...budgetOf(typed),
  };
  if (!["replace-one", "add-remove"].includes(card.neighbours))
    throw new Refused("choose whether the number of individuals is public.");
  if (card.features.length === 0) throw new Refused("choose at least one column: the target, and what explains it.");
  const names = card.features.map(({ name }) => name);
  if (new Set(names).size < names.length)
    throw new Refused("two features have the same public name.", "Give each one of its own.");
  return card;
}

// A feature's or key's public name.
function labelOf(text, what) {
  const label = publicText(text, what, 200);
  if (label === "" || /[*:=]/.test(label) || label === "1") {
    throw new Refused(`${what} needs a public name without *, : and =.`, "Type one beside the column.");
  }
  return label;
}

function featureOf({ column, name, unit, kind, lower, upper, missing, levels }) {
  const label = labelOf(name || column, `the column ${column}`),
    facts = { name: label, column, unit: publicText(unit, "a unit", 100) };
  if (kind === "levels") return { ...facts, levels: levelsOf(levels, label) };
  const [low, high] = [numberTyped(lower, `the lower bound of ${label}`), numberTyped(upper, `the upper bound of ${label}`)];
  if (!(low < high)) throw new Refused(`the bounds of ${label} are upside down: the lower one comes first.`);
  const half = (high - low) / 2;
  if (half < 1 / LARGEST || half > LARGEST || Math.max(Math.abs(low), Math.abs(high)) > LARGEST) {
    throw new Refused(`the bounds of ${label} are too large, or too close together.`);
  }
  const filled =
    missing === "" || missing === undefined ? null : numberTyped(missing, `what missing cells of ${label} count as`);
  if (filled !== null && !(low <= filled && filled <= high))
    throw new Refused(`what missing cells of ${label} count as lies outside its bounds.`);
  return { ...facts, lower: low, upper: high, missing: filled };
}

function levelsOf(levels, label) {
  const forms = levels.map((level) => level.normalize("NFC"));
  if (levels.length === 0 || levels.length > MOST_LEVELS || new Set(forms).size < levels.length) {
    throw new Refused(`${label} needs a list of 1 to ${grouped(MOST_LEVELS)} different levels, one a line.`);
  }
  for (const level of levels) {
    if (
      publicText(level, `a level of ${label}`, 2000) === "" ||
      /[*:=]/.test(level) ||
      Array.from(`${label}=${level}`).length > 200
    ) {
      throw new Refused(`a level of ${label} is empty, too long, or holds *, : or =.`);
    }
  }
  return levels;
}

function keyOfCard({ column, name, domain, source }) {
  const label = labelOf(name || column, `the key column ${column}`);
  return { name: label, column, domain, source, byDay: source.kind === "spelled" && countsDays(domain.id) };
}

function budgetOf({ epsilon, delta, capEpsilon, capDelta, test }) {
  const asked = { epsilon: amount(epsilon, "epsilon", ZERO), delta: amount(delta, "delta", ZERO, UNITY) };
  const cap = {
    epsilon: capEpsilon ? amount(capEpsilon, "the cap on epsilon", ZERO) : asked.epsilon,
    delta: capDelta ? amount(capDelta, "the cap on delta", ZERO, UNITY) : asked.delta,
  };
  if (compareDecimals(asked.epsilon, { digits: 100n, exponent: 0 }) > 0)
    throw new Refused("an epsilon above 100 protects nobody.");
  const share = decimalOf(test || "0");
  if (share === null || compareDecimals(share, ZERO) < 0 || compareDecimals(share, UNITY) >= 0) {
    throw new Refused("the share of the test part is a number from 0 to below 1, such as 0.25.");
  }
  return { ...asked, cap, test: share };
}

function amount(text, what, above, below = null) {
  const found = decimalOf(text);
  if (found === null || compareDecimals(found, above) <= 0 || (below && compareDecimals(found, below) >= 0)) {
    throw new Refused(`${what} is a decimal number above 0${below ? " and below 1" : ""}, such as ${below ? "1e-6" : "1"}.`);
  }
  return found;
}

function numberTyped(text, what) {
  const trimmed = String(text ?? "").trim();
  if (!/^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$/.test(trimmed) || !Number.isFinite(Number(trimmed))) {
    throw new Refused(
      `${what} is a number that you know without looking at the rows.`,
      "A percentage has 0 and 100, an age 0 and 110.",
    );
  }
  return Number(trimmed) + 0;
}

function wholeNumber(text, what, least, most) {
  if (!/^[0-9]{1,15}$/.test(String(text).trim()) || Number(text) < least || Number(text) > most) {
    throw new Refused(`${what}: a whole number from ${grouped(least)} to ${grouped(most)}.`);
  }
  return Number(text);
}

// A text that a platform would take: no characters that command a terminal, or make a text read as another than it is.
function publicText(text, what, most) {
  const trimmed = (text ?? "").trim();
  if (Array.from(trimmed).length > most) throw new Refused(`${what} has more than ${grouped(most)} letters.`);
  if (/[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u.test(trimmed)) throw new Refused(`${what} holds a control character.`);
  return trimmed;
}

// ------------------------------------------------------------------------------------------------ as a file

// The same card for the command line: `saibot privatize --card`, `saibot augment --card`.
export function cardToml(card) {
  const quoted = JSON.stringify,
    number = (value) => pythonFloat(value),
    lines = ["[dataset]", `name = ${quoted(card.name)}`];
  if (card.title) lines.push(`title = ${quoted(card.title)}`);
  lines.push(`individual = ${quoted(card.individual)}`, `neighbours = ${quoted(card.neighbours)}`);
  if (card.id !== null) lines.push(`id = ${quoted(card.id)}`, `rows_per_individual = ${card.rowsPerIndividual}`);
  if (card.maxRows !== null) lines.push(`max_rows = ${card.maxRows}`);
  lines.push(
    "[budget]",
    `cap = { epsilon = ${quoted(plainDecimal(card.cap.epsilon))}, delta = ${quoted(plainDecimal(card.cap.delta))} }`,
  );
  for (const feature of card.features) {
    lines.push(`[features.${quoted(feature.name)}]`, `column = ${quoted(feature.column)}`);
    if (feature.levels) lines.push(`levels = [${feature.levels.map(quoted).join(", ")}]`);
    else lines.push(`bounds = [${number(feature.lower)}, ${number(feature.upper)}]`);
    if (feature.unit) lines.push(`unit = ${quoted(feature.unit)}`);
    if (!feature.levels && feature.missing !== null) lines.push(`missing = ${number(feature.missing)}`);
  }
  if (card.key !== null) {
    lines.push(`[keys.${quoted(card.key.name)}]`, `column = ${quoted(card.key.column)}`, `domain = ${domainToml(card.key)}`);
  }
  return `${lines.join("\n")}\n`;
}

function domainToml({ domain, source }) {
  const quoted = JSON.stringify, named = `id = ${quoted(domain.id)}, version = ${domain.version}`;
  if (source.kind === "spelled") return quoted(domain.id);
  if (source.kind === "file") return `{ file = ${quoted(source.file)}, ${named} }`;
  return `{ values = [${domain.values.map(quoted).join(", ")}], ${named} }`;
}

// What makes two requests the same, as a plain document: neither rows, nor their number, nor the cap.
export function cardDocument(card) {
  return {
    name: card.name,
    title: card.title,
    individual: card.individual,
    neighbours: card.neighbours,
    id: card.id,
    rows_per_individual: card.rowsPerIndividual,
    max_rows: card.maxRows,
    features: card.features.map(({ name, column, unit, lower, upper, missing, levels }) => ({
      name,
      column,
      unit,
      ...(levels
        ? { levels }
        : { bounds: [pythonFloat(lower), pythonFloat(upper)], missing: missing === null ? null : pythonFloat(missing) }),
    })),
    key: card.key && {
      name: card.key.name,
      column: card.key.column,
      domain: card.key.domain.id,
      version: card.key.domain.version,
      digest: card.key.domain.digest,
    },
    budget: { epsilon: plainDecimal(card.epsilon), delta: plainDecimal(card.delta) },
    test: plainDecimal(card.test),
  };
}
