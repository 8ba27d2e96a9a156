// JSON with one spelling: sorted keys, no spaces, floats as Python writes them. What a sketch's digest covers.

import { pythonFloat } from "./numbers.js";

// A number that is a float also where it is whole: 1.0, where a plain number is written 1.
export class Real {
  constructor(value) {
    if (!Number.isFinite(value)) throw new Error("a number is not finite");
    this.value = value;
  }
}

export function canonicalJson(value) {
  if (value instanceof Real) return pythonFloat(value.value);
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value)) throw new Error("a number without a kind is whole");
    return String(value);
  }
  if (value === null || typeof value === "boolean" || typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const names = Object.keys(value).sort(byCodePoint);
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`).join(",")}}`;
}

// As Python and UTF-8 order texts; JavaScript compares halves of letters beyond the first 65,536.
export function byCodePoint(one, other) {
  const a = Array.from(one, (letter) => letter.codePointAt(0)), b = Array.from(other, (letter) => letter.codePointAt(0));
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if (a[i] !== b[i]) return a[i] - b[i];
  }
  return a.length - b.length;
}
