// Exact sums of a table: whole numbers, per key and over all rows. As sensitive as the rows: they stay in this module's
// hands until `release.js` has added noise.

import { comparableText, individualOf, keyOf, numberOf } from "./cells.js";
import { byCodePoint } from "./canonical_json.js";
import { releasedColumns, stepsOfFeature, stepsOfOne } from "./grid.js";
import { readRows } from "./csv.js";
import { randomWord } from "./randomness.js";
import { Refused } from "./refused.js";
import { Sha256, hex, utf8 } from "./sha256.js";
import { withoutBlanks } from "./spelling.js";

export const TRAIN = 0;
export const TEST = 1;
const NOBODYS = 2;

// Which part each row goes to, by 64 random digits for each individual: never by its content or its place. `threshold` of
// 2^64 is the test part. An individual is one row, or all rows with one id; rows without an id are left out.
export async function divide(file, idAt, threshold, took) {
  let parts = new Uint8Array(1024), rows = -1;  // the first row is the line of names
  const known = new Map(), draw = () => (randomWord() < threshold ? TEST : TRAIN);
  await readRows(file, (cells) => {
    if (rows >= 0) {
      if (rows === parts.length) {
        const longer = new Uint8Array(2 * rows);
        longer.set(parts);
        parts = longer;
      }
      parts[rows] = idAt === null ? draw() : partOfIndividual(cells[idAt], known, draw);
    }
    rows += 1;
  }, took);
  return parts.subarray(0, rows);
}

function partOfIndividual(cell, known, draw) {
  const individual = individualOf(cell);
  if (individual === null) return NOBODYS;
  if (!known.has(individual)) known.set(individual, draw());
  return known.get(individual);
}

export function rowsIn(parts, part) {
  return parts.reduce((count, one) => count + (one === part), 0);
}

// The sums of every part in `wanted`, which says the digits of its grid: [{ part, bits }]. `table` names columns by place:
// { features, at: place of each feature, key: { at, domain, byDay } or null, id: { at, most, secret } or null }.
export async function aggregate(file, parts, wanted, table, took) {
  const sums = wanted.map(({ part, bits }) => [part, new PartSums(table, bits)]);
  const ofPart = new Map(sums);
  let row = -1;
  await readRows(file, (cells) => {
    if (row >= 0) {
      if (row >= parts.length) throw changed();
      ofPart.get(parts[row])?.add(cells);
    }
    row += 1;
  }, took);
  if (row !== parts.length) throw changed();
  return sums.map(([, one]) => one.finish());
}

function changed() {
  return new Refused("the table was changed while it was read.", "Choose it again.");
}

// The sums of one part, row by row: c and s per key, c, s and q over all rows, packed x, y, ..., x*x, x*y, ..., y*y.
class PartSums {
  constructor(table, bits) {
    const { features, key } = table, m = releasedColumns(features).length;
    Object.assign(this, { table, bits, m, rows: 0 });
    this.steps = features.map((feature) => stepsOfFeature(feature, bits));
    this.row = new Float64Array(m);
    // Of one key a sum is below 2^15 times its rows, far below 2^53. Products are up to 2^30: they are moved to numbers
    // of any size before as many rows as 2^52 has room for have gone into a float.
    this.perKey = key ? new Float64Array((key.domain.values.length + 1) * (1 + m)) : null;
    this.whole = Array(1 + m + (m * (m + 1)) / 2).fill(0n);
    this.recent = new Float64Array(this.whole.length);
    this.room = 4_503_599_627_370_496 / stepsOfOne(bits, 2);  // 2^52 of them
    this.places = new Map();
    this.individuals = table.id ? new Map() : null;
    this.filled = features.map(() => 0);
    this.read = features.map(() => 0);
    this.inDomain = 0;
  }

  add(cells) {
    const { table } = this;
    if (this.individuals === null) return this.addRow(cells);
    const kept = this.individuals, whose = individualOf(cells[table.id.at]), mine = kept.get(whose) ?? [];
    const used = [...new Set([...table.at, ...(table.key ? [table.key.at] : [])])].map((at) => cells[at]);
    const order = new Sha256()
      .update(utf8(table.id.secret + used.map((cell) => `${comparableText(cell)}\x1f`).join("")))
      .digest();
    mine.push({ order: hex(order), used, cells });
    mine.sort(byOrder);
    if (mine.length > table.id.most) mine.pop();
    kept.set(whose, mine);
  }

  addRow(cells) {
    const { table, row, m, recent } = this;
    let at = 0;
    table.features.forEach((feature, i) => {
      const cell = cells[table.at[i]];
      this.steps[i](cell, row, at);
      at += feature.levels ? feature.levels.length : 1;
      if (feature.levels || withoutBlanks(cell) === "") return;
      this.filled[i] += 1;
      if (numberOf(cell) !== null) this.read[i] += 1;
    });
    checkLength(row, table.features.length, this.bits);
    if (table.key) this.addToKey(cells[table.key.at]);
    recent[0] += 1;
    let place = 1 + m;
    for (let i = 0; i < m; i++) {
      recent[1 + i] += row[i];
      for (let j = i; j < m; j++) recent[place++] += row[i] * row[j];
    }
    this.rows += 1;
    if (recent[0] >= this.room) this.flush();
  }

  addToKey(cell) {
    const { key } = this.table;
    let place = this.places.get(cell);
    if (place === undefined) {
      place = key.domain.place(keyOf(cell, key.byDay));
      if (this.places.size < 1_000_000) this.places.set(cell, place);
    }
    if (place >= 0) this.inDomain += 1;
    const start = (place < 0 ? key.domain.values.length : place) * (1 + this.m);
    this.perKey[start] += 1;
    for (let i = 0; i < this.m; i++) this.perKey[start + 1 + i] += this.row[i];
  }

  flush() {
    this.recent.forEach((value, i) => { this.whole[i] += BigInt(value); });
    this.recent.fill(0);
  }

  finish() {
    for (const rows of this.individuals?.values() ?? []) rows.forEach(({ cells }) => this.addRow(cells));
    this.individuals?.clear();
    this.flush();
    return this;
  }
}

// By a keyed hash of what the cells mean, then by how they are written, missing ones last: nobody else's rows matter.
function byOrder(one, other) {
  if (one.order !== other.order) return one.order < other.order ? -1 : 1;
  for (let i = 0; i < one.used.length; i++) {
    const a = one.used[i], b = other.used[i];
    if (a !== b) return a === "" ? 1 : b === "" ? -1 : byCodePoint(a, b);
  }
  return 0;
}

// The bound that all sensitivities rest on, in whole numbers: it holds for every row, or nothing is released.
function checkLength(row, features, bits) {
  let length = 0;
  for (const step of row) length += step * step;
  if (!(length <= features * stepsOfOne(bits, 2)))
    throw new Error("internal: a row is longer than the bound; nothing was released.");
}

// What a whole column or key would be but noise: sentences for the owner of the table alone.
export function wasteful({ table, rows, filled, read, inDomain }) {
  const found = table.features.flatMap((feature, i) =>
    !feature.levels && filled[i] > 0 && read[i] === 0 ? [`no cell of the column ${feature.column} reads as a number.`] : []);
  if (table.key && rows > 0 && inDomain === 0) found.push("no row has a key of the list: all of them would count as other.");
  return found;
}
