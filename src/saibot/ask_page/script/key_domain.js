// Public lists of keys: those that an id spells out, and those that somebody gives; digests; where a text is in a list.
//
// As saibot/domains/domain.py and generated.py: what a text means depends on that text and the public list alone.

import { dayNumber, dayText, digits, firstDayOfWeek, readingOf, weekOf } from "./calendar.js";
import { grouped, Refused } from "./refused.js";
import { sha256Hex } from "./sha256.js";
import { folded, normalKey, spellings } from "./spelling.js";

export const OTHER = "__other__";
export const MOST_KEYS = 200_000;
const RANGE_NAME = "[a-z][a-z0-9_-]{0,39}";

export class KeyDomain {
  // parents: [[level name, the parent of every key], ...]; none of them is released with a request.
  constructor(id, version, values, parents = []) {
    Object.assign(this, { id, version, values, parents });
    if (!id || id.length > 200) throw new Refused("the list of keys needs an id of at most 200 letters, such as wards.");
    if (values.length === 0) throw new Refused("the list of keys is empty.");
    if (values.length > MOST_KEYS)
      throw new Refused(`the list has more than ${grouped(MOST_KEYS)} keys.`, "Use `saibot privatize` for it.");
    for (const column of [values, ...parents.map(([, column]) => column)]) {
      if (column.includes(OTHER) || column.includes(""))
        throw new Refused(`the list of keys has an empty cell, or the reserved key ${OTHER}.`);
      if (column.some((text) => /[\x00-\x1f\x7f-\x9f]/.test(text))) throw new Refused("a key holds a control character.");
    }
    this.index = new Map(values.map((value, i) => [value, i]));
    if (this.index.size < values.length) throw new Refused("the list holds a key twice.", "Each key stands in it once.");
  }

  get digest() {
    // Days had digests before they had weeks, which follow from them.
    const parents = this.parents.filter(([name]) => name !== "week" || !this.id.startsWith("dates:"));
    const columns = [["", this.values], ...parents];
    return sha256Hex(...columns.map(([name, column]) => `${name}\x1f${column.length}\x1e${column.join("\x1f")}`));
  }

  // Numbers of a named range are keys of that name: departments 1 to 15 are not communes 1 to 15.
  get keysDigest() {
    const name = rangeName(this.id);
    return sha256Hex((name === null ? this.values : [`range:${name}`, ...this.values]).join("\x1f"));
  }

  // Where a text is in the list, -1 outside it: the key itself, another spelling of exactly one key, one that differs from
  // exactly one key in case or zeros in front, and of a day or time, where keys are months or the like, the one it lies in.
  place(text) {
    const found = this.index.get(text);
    if (found !== undefined) return found;
    if (text === "") return -1;
    this.others ??= ownSpellings(this.values, (value) => spellings(value).filter((form) => !this.index.has(form)));
    this.folds ??= ownSpellings(this.values, (value) => [folded(value)]);
    this.reading ??= readingOf(this.id) ?? ((unread) => unread);
    return this.others.get(text) ?? this.folds.get(folded(text)) ?? this.index.get(this.reading(text)) ?? -1;
  }
}

// Forms that belong to one key only.
function ownSpellings(values, formsOf) {
  const found = new Map(), shared = new Set();
  values.forEach((value, i) => {
    for (const form of formsOf(value)) {
      if (!found.has(form)) found.set(form, i);
      else if (found.get(form) !== i) shared.add(form);
    }
  });
  for (const form of shared) found.delete(form);
  return found;
}

function rangeName(id) {
  const found = new RegExp(`^(?:range:(${RANGE_NAME}):-?[0-9]+:-?[0-9]+|found:(${RANGE_NAME}):[0-9a-f]{8})$`).exec(id);
  return found ? found[1] ?? found[2] : /^years:[0-9]{4}:[0-9]{4}$/.test(id) ? "year" : null;
}

export function listedDomain(id, version, values, parents = []) {
  return new KeyDomain(id, version, values.map(normalKey), parents.map(([name, column]) => [name, column.map(normalKey)]));
}

// The domain that an id spells out (dates:2013-01-01:2013-12-31, range:department:1:15), or null.
export function generatedDomain(id) {
  const parts = id.split(":"), kind = parts[0], [first, last] = parts.slice(-2);
  if (parts.length === 3 && kind === "dates") return days(id, dayNumber(first), dayNumber(last));
  if (parts.length === 3 && kind === "weeks") return weeks(id, firstDayOfWeek(first), firstDayOfWeek(last));
  if (parts.length === 3 && kind === "months") return months(id, monthNumber(first), monthNumber(last));
  if (parts.length === 3 && kind === "years") return years(id, first, last);
  const range = new RegExp(`^range:(?:${RANGE_NAME}:)?(-?[0-9]{1,15}):(-?[0-9]{1,15})$`).exec(id);
  return range ? numbers(id, Number(range[1]), Number(range[2])) : null;
}

function days(id, first, last) {
  const texts = between(first, last)?.map(dayText);
  if (!texts) return null;
  const week = texts.map((text) => weekOf(dayNumber(text)));
  const parents = [
    ["month", texts.map((text) => text.slice(0, 7))],
    ["year", texts.map((text) => text.slice(0, 4))],
    ["week", week],
  ];
  return new KeyDomain(id, 1, texts, parents);
}

function weeks(id, first, last) {
  if (first === null || last === null) return null;
  const texts = between(0, (last - first) / 7)?.map((n) => weekOf(first + 7 * n));
  return texts ? new KeyDomain(id, 1, texts, [["year", texts.map((text) => text.slice(0, 4))]]) : null;
}

function months(id, first, last) {
  const texts = between(first, last)?.map((n) => `${digits(Math.floor(n / 12), 4)}-${digits((n % 12) + 1, 2)}`);
  return texts ? new KeyDomain(id, 1, texts, [["year", texts.map((text) => text.slice(0, 4))]]) : null;
}

function years(id, first, last) {
  if (![first, last].every((year) => /^[0-9]{4}$/.test(year))) return null;
  const texts = between(Number(first), Number(last))?.map((year) => digits(year, 4));
  return texts ? new KeyDomain(id, 1, texts) : null;
}

function numbers(id, first, last) {
  const texts = between(first, last)?.map(String);
  return texts && id.endsWith(`:${first}:${last}`) ? new KeyDomain(id, 1, texts) : null;  // range:01:15 is no id
}

function monthNumber(text) {
  const found = /^([0-9]{4})-(0[1-9]|1[0-2])$/.exec(text);
  return found ? 12 * Number(found[1]) + Number(found[2]) - 1 : null;
}

function between(first, last) {
  if (first === null || last === null || last < first || last - first >= MOST_KEYS) return null;
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}
