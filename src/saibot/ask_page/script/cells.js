// What one cell means: as a number, as a key, as a level, as somebody's id. It depends on that cell and the request alone.
//
// The rules are those of saibot/privatize/cells.py for the columns of a text file; an empty cell is missing.

import { pythonFloat } from "./numbers.js";
import { normalKey, spellings, withoutBlanks } from "./spelling.js";

const NUMBER = /^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|([iI][nN][fF](?:[iI][nN][iI][tT][yY])?))$/;
const TINY = /^-?0\.0000[0-9]*[1-9]$/;  // which a float writes with an exponent

// The number that a text is, its nearest float; null where it is none, which counts as missing.
export function numberOf(cell) {
  const text = withoutBlanks(cell), found = NUMBER.exec(text);
  if (found !== null) return found[1] === undefined ? Number(text) : text[0] === "-" ? -Infinity : Infinity;
  const word = text.toLowerCase();
  return word === "true" ? 1 : word === "false" ? 0 : null;
}

// The normal text of a key. Where keys count days, all times of a day have the same.
export function keyOf(cell, byDay) {
  if (!byDay) return normalKey(cell);
  const text = withoutBlanks(cell), letters = Array.from(text.slice(0, 40));
  return normalKey([" ", "T"].includes(letters[10]) ? letters.slice(0, 10).join("") : text);
}

// For every level of a category the texts that mean it: itself, and what else programs write for it, unless another level
// is written so; each also as texts in which letters and their accents are apart.
export function formsOfLevels(levels) {
  const forms = new Map();
  for (const [i, level] of levels.entries()) {
    const others = new Set(levels.filter((other) => other !== level).flatMap((other) => [other, ...spellings(other)]));
    for (const form of [level, ...spellings(level).filter((form) => !others.has(form))]) {
      for (const written of [form, form.normalize("NFD")]) forms.set(written, [...(forms.get(written) ?? []), i]);
    }
  }
  return forms;
}

// Whose row it is; null where that is not said.
export function individualOf(cell) {
  if (cell === "" || withoutBlanks(cell).toLowerCase() === "nan") return null;
  if (TINY.test(cell)) return pythonFloat(Number(cell));
  const whole = cell.replace(/^([+-]?[0-9]+)\.0+$/, "$1");
  return whole === "-0" ? "0" : whole;
}

// A text that is the same for cells of the same value. It decides which rows of an individual count, behind a keyed hash.
export function comparableText(cell) {
  const number = numberOf(cell);
  if (number !== null) return pythonFloat(number === 0 ? 0 : number);
  const words = withoutBlanks(cell);
  if (words.toLowerCase() === "nan") return "";
  return words
    .replace(/^([0-9]{4}-[0-9]{2}-[0-9]{2})T/, "$1 ")
    .replace(/(:[0-9]{2}\.[0-9]*[1-9])0+$/, "$1")
    .replace(/(:[0-9]{2})\.0+$/, "$1")
    .replace(/ 00:00:00$/, "");
}
