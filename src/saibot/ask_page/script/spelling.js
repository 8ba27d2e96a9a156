// How keys are written: their normal form, and the other ways in which programs and people write the same key.
//
// The rules are those of saibot/domains/spelling.py; what one text means depends on that text alone.

import { caseFolded } from "./case_folding.js";
import { pythonFloat } from "./numbers.js";

// White space as Python strips it, and the few blanks that an engine strips.
const WHITE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const AROUND = new RegExp(`^[${WHITE}]+|[${WHITE}]+$`, "gu");
const BLANKS = /^[ \t\n\r\v\f]+|[ \t\n\r\v\f]+$/g;

const WHOLE = /^-?(0|[1-9][0-9]*)$/;
const DIGITS_ALONE = /^-?[0-9]+$/;
const TIME = /^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?)?$/;
const FLOAT = /^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?$/;
const MIDNIGHT = "00:00:00";
const ZEROS = ["0", "-0", "-0.0"];
const EXACT_FLOATS = 2n ** 53n;

export function withoutBlanks(text) {
  return text.replace(BLANKS, "");
}

export function withoutWhiteSpace(text) {
  return text.replace(AROUND, "");
}

export function normalKey(text) {
  return withoutWhiteSpace(isAscii(text) ? text : text.normalize("NFC"));
}

// How else programs write the same key: 7.0 for 7, 1e-05 for 0.00001, a day with midnight behind it.
export function spellings(key) {
  if (!"-0123456789".includes(key[0] ?? "x")) return [];
  const whole = key.endsWith(".0") ? key.slice(0, -2) : key;
  let forms = [];
  if (WHOLE.test(whole)) {
    forms = ZEROS.includes(whole) ? ["0", "0.0", "-0", "-0.0"] : [whole, `${whole}.0`, ...nearestFloat(whole)];
  } else if (small(key)) {
    forms = [small(key), withoutExponent(small(key))];
  } else {
    const time = TIME.exec(key);
    if (time) forms = timesOf(time[1], time[2] ?? MIDNIGHT, (time[3] ?? "").replace(/0+$/, ""));
  }
  return [...new Set(forms)].filter((form) => form !== key);
}

// The key without what people write in two ways: case, zeros in front, and what programs add.
export function folded(key) {
  let text = shortest(key);
  if (text[0] === "0" || text[0] === "-") text = text.replace(/^(-?)0+(?=[0-9])/, "$1");
  text = caseFolded(text);
  return isAscii(text) ? text : normalKey(text);
}

function shortest(key) {
  if (key.endsWith(".0") && DIGITS_ALONE.test(key.slice(0, -2))) return key === "-0.0" ? "0" : key.slice(0, -2);
  if (key[0] === "0" || key[0] === "-") {
    const found = key === "-0" ? "0" : small(key);
    if (found) return found;
  }
  return key.endsWith(MIDNIGHT) && TIME.test(key) ? key.slice(0, 10) : key;
}

// What Python writes for a number so small that it is written with an exponent; empty for any other key.
function small(key) {
  if (!FLOAT.test(key)) return "";
  const written = pythonFloat(Number(key));
  return written.includes("e-") ? written : "";
}

function withoutExponent(written) {
  const [mantissa, power] = written.split("e"), sign = mantissa.startsWith("-") ? "-" : "";
  return `${sign}0.${"0".repeat(-Number(power) - 1)}${mantissa.replace(/[-.]/g, "")}`;
}

function nearestFloat(whole) {
  const digits = BigInt(whole.slice(0, 400));
  if (digits <= EXACT_FLOATS && digits >= -EXACT_FLOATS) return [whole];
  const nearest = Number(whole);
  return Number.isFinite(nearest) ? [String(BigInt(nearest)), pythonFloat(nearest)] : [whole];
}

function timesOf(day, clock, fraction) {
  const widths = [...new Set([fraction.length, 3, 6, 9])].filter((width) => width >= fraction.length);
  const endings = widths.map((width) => (width ? `${clock}.${fraction.padEnd(width, "0")}` : clock));
  const wholeDay = clock === MIDNIGHT && !fraction ? [day] : [];
  return [...wholeDay, ...[" ", "T"].flatMap((between) => endings.map((ending) => day + between + ending))];
}

function isAscii(text) {
  return /^[\x00-\x7f]*$/.test(text);
}
