// Cells to whole numbers: clipped to public bounds, scaled, rounded to the grid. As saibot/privatize/grid.py, lemma I1.
//
// Only comparisons, + - * / and floor are used, on floats as IEEE 754 has them, so every engine gives the same whole
// numbers.

import { formsOfLevels, numberOf } from "./cells.js";
import { fifteenDigits } from "./numbers.js";
import { Refused } from "./refused.js";
import { withoutBlanks } from "./spelling.js";

const OFF_THE_BOX = 1e-4;

// Scaled value 1 in steps of the grid, and the product of so many of it. (A language's own powers may be approximate.)
export function stepsOfOne(bits, order = 1) {
  const one = 1 << bits;
  return order === 0 ? 1 : order === 1 ? one : one * one;
}

// The columns of a release: one for a number, one for every level of a category. features: as in `card.js`.
export function releasedColumns(features) {
  return features.flatMap((feature) =>
    feature.levels
      ? feature.levels.map((level) => ({
          name: `${feature.name}=${level}`,
          kind: "indicator",
          lower: 0,
          upper: 1,
          feature,
          level,
        }))
      : [
          {
            name: feature.name,
            kind: "numeric",
            lower: feature.lower,
            upper: feature.upper,
            missing: missingOf(feature),
            feature,
          },
        ],
  );
}

function missingOf({ lower, upper, missing }) {
  return missing ?? (lower + upper) / 2;
}

function constantsFor({ lower, upper }, one) {
  const offset = (lower + upper) / 2, scale = (upper - lower) / 2;
  return [lower, upper, offset, one / scale].map(fifteenDigits);
}

// Both bounds land on the sides of the box, never beyond; so does everything between them. Needs no row.
export function checkBounds(column, bits) {
  if (column.kind !== "numeric") return;
  const one = stepsOfOne(bits), [lower, upper, offset, factor] = constantsFor(column, one);
  for (const [limit, side] of [[lower, -one], [upper, one]]) {
    const image = (limit - offset) * factor;
    if (!(Math.abs(image - side) <= OFF_THE_BOX * one) || Math.abs(Math.floor(image + 0.5)) > one) {
      throw new Refused(
        `the bounds of ${column.name} are too close together for their size.`,
        "Shift the column so that its bounds lie nearer to 0.",
      );
    }
  }
}

// Writes the steps of one feature's cell to `steps` from place `at` on.
export function stepsOfFeature(feature, bits) {
  const one = stepsOfOne(bits);
  if (feature.levels) {
    const forms = formsOfLevels(feature.levels);
    return (cell, steps, at) => {
      steps.fill(0, at, at + feature.levels.length);
      for (const level of forms.get(withoutBlanks(cell)) ?? []) steps[at + level] = one;
    };
  }
  const [lower, upper, offset, factor] = constantsFor(feature, one);
  const unread = Math.min(Math.max(Math.floor((missingOf(feature) - offset) * factor + 0.5), -one), one);
  return (cell, steps, at) => {
    const number = numberOf(cell);
    if (number === null) steps[at] = unread;
    else if (number >= lower && number <= upper) steps[at] = Math.floor((number - offset) * factor + 0.5);
    else steps[at] = number < lower ? -one : one;
  };
}
