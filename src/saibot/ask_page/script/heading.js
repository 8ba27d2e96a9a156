// Whether a first line holds names of columns. Names become public with the request; a file without a heading has
// somebody's cells in that place. The rules are those of saibot/privatize/heading.py.

import { withoutWhiteSpace } from "./spelling.js";

const TRUTHS = ["true", "false", "yes", "no"];
const MISSING_MARKS = ["na", "n/a", "nan", "null", "none", "inf", "infinity"];
const MONTH =
  "(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?)";
const NUMBER_LIKE = /^([+-]?(\d[\d.,' ]*|\.\d+)(e[+-]?\d+)?\s?%?|0x[0-9a-f]+)$/i;
const TIME_LIKE = [
  String.raw`\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([t\s].*)?`,  // 2013-01-30, 30.1.2013, 2013-01-30T10:15Z
  String.raw`\d{8}t\d{4,6}z?`,
  String.raw`\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s?([ap]\.?m\.?|z|[+-]\d{1,2}(:?\d{2})?)?`,
  String.raw`\d{1,2}(st|nd|rd|th)?[-\s.]+${MONTH}([-\s.,]+\d{2,4}.*)?`,  // 30 January 2013
  String.raw`${MONTH}[-\s.]+\d{1,2}(st|nd|rd|th)?([-\s.,]+\d{2,4}.*)?`,  // Jan 30, 2013
  String.raw`${MONTH}[-\s.,]+\d{4}`,
].map((form) => new RegExp(`^(${form})$`, "i"));
const ADDRESS_LIKE = /^([^\s@]+@[^\s@]+\.[^\s@]+|https?:\/\/.*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$/is;

// What shows that a line holds no names, in words that quote nothing of it; null where nothing shows it.
export function whyNoNames(cells) {
  const seen = new Map();
  for (const [i, cell] of cells.entries()) {
    const kind = kindOfCell(withoutWhiteSpace(cell));
    if (kind !== null) return `its ${ordinal(i + 1)} cell is ${kind}`;
    const plain = withoutWhiteSpace(cell).toLowerCase();
    if (seen.has(plain)) return `its ${ordinal(seen.get(plain))} and ${ordinal(i + 1)} cell are the same`;
    seen.set(plain, i + 1);
  }
  return null;
}

function kindOfCell(text) {
  const lower = text.toLowerCase();
  if (text === "") return "empty";
  if (TRUTHS.includes(lower)) return "a truth value";
  if (MISSING_MARKS.includes(lower)) return "a mark for a missing value";
  if (TIME_LIKE.some((form) => form.test(text))) return "a date or a time";
  if (NUMBER_LIKE.test(text)) return "a number";
  if (ADDRESS_LIKE.test(text)) return "an address or an identifier";
  return /\p{L}/u.test(text) ? null : "without a letter";
}

export function ordinal(number) {
  const ending = [11, 12, 13].includes(number % 100) ? "th" : { 1: "st", 2: "nd", 3: "rd" }[number % 10] ?? "th";
  return `${number}${ending}`;
}
