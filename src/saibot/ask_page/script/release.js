// The one step with randomness: exact sums in, noisy ones out. As saibot/privatize/release.py; integer_release.proof.md.
//
// All blocks form one vector of whole numbers with one noise scale s. A block whose noise should be tau, in steps of the
// grid, enters multiplied by the whole number floor(s/tau), so that its noise is at least tau: rounding only ever adds
// noise.

import { STEPS_PER_SIGMA } from "./calibration.js";
import { discreteGaussian } from "./discrete_gaussian.js";
import { stepsOfOne } from "./grid.js";
import { noiseOf } from "./plan.js";
import { Refused } from "./refused.js";

const MOST_BITS = 15;
const MULTIPLIER_BITS = 12;
const LEAST_MULTIPLIER_BITS = 8;
const RANGE = 4_611_686_018_427_387_904;  // 2^62
const ROUNDING = 1 + 1e-12;  // more than floats lose between a plan and its multipliers, so that noise errs upwards only
const TAIL = 60;

// The finest grid on which all sums stay exact. Depends on public facts only: `mostRows` is the public row count, or the
// limit that was declared.
export function chooseBits(plan, mostRows) {
  let bits = Math.min(MOST_BITS, Math.floor((52 - Math.max(mostRows - 1, 1).toString(2).length) / 2));
  for (; bits >= 1; bits--) {
    if (multiplierBits(plan, bits, mostRows) >= LEAST_MULTIPLIER_BITS) return bits;
  }
  throw new Refused("no grid is fine enough for so many rows.", "Divide the table.");
}

// Noise in steps of the grid that a monomial of this block should have.
export function tau(block, multiplicity, bits) {
  return noiseOf(block, multiplicity) * stepsOfOne(bits, block.order) * ROUNDING;
}

function allTaus(plan, bits) {
  const weights = (order) => (order === 2 && plan.request.features > 1 ? [1, 2] : [1]);
  return plan.blocks.flatMap((block) => weights(block.order).map((weight) => [block, tau(block, weight, bits)]));
}

function multiplierBits(plan, bits, mostRows) {
  const taus = allTaus(plan, bits), largest = Math.max(...taus.map(([, one]) => one));
  const most = Math.max(...taus.map(([block, one]) => (mostRows * stepsOfOne(bits, block.order)) / one));
  if (STEPS_PER_SIGMA * Math.SQRT2 * (most + TAIL) > RANGE) return -1;
  const room = RANGE / (largest * (most + TAIL));
  return room >= 1 ? Math.floor(Math.log2(room)) : -1;
}

// The scale of the noise of the whole vector: a whole number, and at least 4096 steps times the root of two.
export function noiseScale(plan, bits, mostRows) {
  const used = Math.min(multiplierBits(plan, bits, mostRows), MULTIPLIER_BITS);
  const largest = Math.max(...allTaus(plan, bits).map(([, one]) => one));
  return Math.ceil(Math.max(largest * (1 << used), STEPS_PER_SIGMA * Math.SQRT2));
}

// The vector that gets noise: for every number of the release its sum times its multiplier, and what divides it back.
// Blocks come in the plan's order, keys of a block one after the other.
export function scaledVector(plan, bits, mostRows, sums) {
  const scale = noiseScale(plan, bits, mostRows), m = plan.request.features;
  return plan.blocks.flatMap((block) => {
    const one = stepsOfOne(bits, block.order), limit = BigInt(mostRows) * BigInt(one);
    const entry = (sum, multiplicity) => {
      const multiplier = Math.floor(scale / tau(block, multiplicity, bits));
      // A clamp is a projection, so it moves neighbours no further apart.
      const clamped = sum > limit ? limit : sum < -limit ? -limit : sum;
      return { scaled: clamped * BigInt(multiplier), divisor: multiplier * one };
    };
    if (block.scope === "key") {
      const keys = sums.perKey.length / (1 + m),
        columns = block.order === 0 ? [0] : [...Array(m).keys()].map((i) => 1 + i);
      return [...Array(keys).keys()].flatMap((k) =>
        columns.map((column) => entry(BigInt(sums.perKey[k * (1 + m) + column]), 1)),
      );
    }
    if (block.order === 0) return [entry(sums.whole[0], 1)];
    if (block.order === 1) return sums.whole.slice(1, 1 + m).map((sum) => entry(sum, 1));
    return pairs(m).map(([i, j], at) => entry(sums.whole[1 + m + at], i === j ? 1 : 2));
  });
}

export function pairs(m) {
  return [...Array(m).keys()].flatMap((i) => [...Array(m - i).keys()].map((j) => [i, i + j]));
}

// Adds noise to every number of the vector, and brings all back to scaled units: per key [c, s...] and per order of the
// whole table. `drawn` hears how much of it is done.
export async function release(plan, bits, mostRows, sums, drawn) {
  const vector = scaledVector(plan, bits, mostRows, sums), draw = discreteGaussian(BigInt(noiseScale(plan, bits, mostRows)));
  const noisy = new Float64Array(vector.length);
  for (let i = 0; i < vector.length; i++) {
    noisy[i] = Number(vector[i].scaled + draw()) / vector[i].divisor;
    vector[i] = null;
    if (i % 5000 === 0) await drawn(i / vector.length);
  }
  return collected(plan, noisy, sums.perKey ? sums.perKey.length / (1 + plan.request.features) : 0);
}

function collected(plan, noisy, keys) {
  const m = plan.request.features, perKey = keys ? new Float64Array(keys * (1 + m)) : null, whole = {};
  let from = 0;
  for (const block of plan.blocks) {
    if (block.scope === "key") {
      const width = block.order === 0 ? 1 : m;
      for (let k = 0; k < keys; k++) {
        for (let i = 0; i < width; i++) perKey[k * (1 + m) + (block.order === 0 ? 0 : 1 + i)] = noisy[from++];
      }
    } else {
      const size = [1, m, (m * (m + 1)) / 2][block.order];
      whole[block.order] = Array.from(noisy.subarray(from, from + size));
      from += size;
    }
  }
  return { perKey, whole };
}
