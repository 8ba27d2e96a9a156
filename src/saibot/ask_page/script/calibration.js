// From a budget to a noise level, and back: theorem I7 of integer_release.proof.md, evaluated between bounds.
//
// `fits` is true only where an upper bound of delta is within the budget, so a mu that it accepts keeps the promise however
// the search for that mu went. Proof: ask_page.proof.md, lemma B4.

import { DIGITS, ONE, difference, enclosureOf, exponential, product, quotient, squareRoot, sum } from "./enclosure.js";
import { chiSquaredTail, normalBelow } from "./normal_law.js";
import { compareDecimals, decimalOf, floatOfDecimal, fractionOf, fractionOfDecimal } from "./numbers.js";

export const STEPS_PER_SIGMA = 4096;
export const MOST_TOUCHED = 4000;  // numbers that one individual moves; the tail of more takes long to enclose
const GUARD = 2e-9;  // twice Python's own: this noise is never the smaller one
const TAIL_PART = 1_000_000n;  // of delta, what the tail of the noise may take

// What is asked of a Gaussian release: epsilon and delta as decimals, and how many numbers one individual can move.
export function fits(mu, epsilon, delta, touched) {
  return excess(mu, fractionOfDecimal(epsilon), fractionOfDecimal(delta), touched) <= 0;
}

// Above 0 unless an upper bound of delta is within the budget; its size is about the logarithm of their ratio.
function excess(mu, epsilon, delta, touched) {
  const tail = enclosureOf(delta[0], delta[1] * TAIL_PART);
  const steps = BigInt(STEPS_PER_SIGMA), lost = enclosureOf(BigInt(touched), 8n * steps * steps);
  const moved = enclosureOf(...fractionOf(mu));
  const rounding = quotient(squareRoot(enclosureOf(BigInt(touched), 1n)), enclosureOf(2n * steps, 1n));
  const reach = sum(sum(moved, rounding), farthest(touched, delta));
  const bend = quotient(product(reach, reach), enclosureOf(8n * steps * steps, 1n));
  const left = difference(difference(enclosureOf(...epsilon), bend), lost);
  const half = [moved[0] >> 1n, (moved[1] >> 1n) + 1n], share = quotient(left, moved);
  const gained = normalBelow(difference(half, share))[1];
  const [power, below] = [exponential(left)[0], normalBelow(difference([-half[1], -half[0]], share))[0]];
  const curve = gained - ((power * below) >> DIGITS);  // the upper bound of what the continuous release has
  const bound = product(exponential(lost), sum([curve, curve], tail))[1];
  const [used, allowed] = [bound * delta[1], delta[0] * ONE];
  const distance = Math.abs(Math.log(Number((used << 64n) / allowed) / 2 ** 64));
  return used <= allowed ? -distance : Math.max(distance, Number.MIN_VALUE);
}

// A number next to the edge of what fits, on the good side of it. It only has to be found quickly: what is good is decided
// by `excess`. False position, with the value of an end that does not move halved (the Illinois rule).
function edgeOfGood(value, good, bad, closeness) {
  let [atGood, atBad] = [value(good), value(bad)];
  for (let i = 0; i < 200 && Math.abs(bad - good) > closeness * Math.abs(good); i++) {
    const share = i % 4 === 3 ? 0.5 : Math.min(Math.max(atGood / (atGood - atBad), 1e-6), 1 - 1e-6);
    const next = good + (bad - good) * share;
    if (next === good || next === bad) break;
    const atNext = value(next);
    if (atNext <= 0) {
      [good, atGood, atBad] = [next, atNext, atBad / 2];
    } else {
      [bad, atBad, atGood] = [next, atNext, atGood / 2];
    }
  }
  return good;
}

// c with P(chi > c) at most a millionth of delta, hardly larger than the least such c.
const tails = new Map();
function farthest(touched, delta) {
  const name = `${touched} ${delta}`;
  if (tails.has(name)) return tails.get(name);
  if (touched > MOST_TOUCHED) throw new Error("internal: more numbers than can be enclosed");
  const unit = DIGITS - 32n;
  const small = (y) => chiSquaredTail(touched, [y << unit, y << unit])[1] * delta[1] * TAIL_PART <= delta[0] * ONE;
  let low = 0n, high = 1n << 32n;
  while (!small(high)) [low, high] = [high, 2n * high];
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    [low, high] = small(middle) ? [low, middle] : [middle, high];
  }
  const found = squareRoot([high << (unit + 1n), high << (unit + 1n)]);
  tails.set(name, found);
  return found;
}

// The largest mu, but for a few billionths, whose integer release is (epsilon, delta)-DP; null where there is none.
const planned = new Map();
export function analyticMu(epsilon, delta, touched) {
  const name = `${fractionOfDecimal(epsilon)} ${fractionOfDecimal(delta)} ${touched}`;
  if (!planned.has(name)) planned.set(name, largestMu(epsilon, delta, touched));
  return planned.get(name);
}

function largestMu(epsilon, delta, touched) {
  const budget = [fractionOfDecimal(epsilon), fractionOfDecimal(delta)];
  const value = (mu) => excess(mu, ...budget, touched);
  let bad = 1;
  while (value(bad) <= 0) bad *= 2;
  while (bad > 1e-12 && value(bad / 2) > 0) bad /= 2;
  if (bad <= 1e-12) return null;
  let mu = edgeOfGood(value, bad / 2, bad, 1e-11) * (1 - GUARD);
  while (value(mu) > 0) mu *= 1 - GUARD;
  return mu;
}

// Epsilon of a mu at this delta, six digits, rounded up, as a decimal; at most the cap.
export function epsilonOf(mu, delta, touched, cap) {
  const value = (epsilon) => excess(mu, fractionOf(epsilon), fractionOfDecimal(delta), touched);
  let good = floatOfDecimal(cap);
  while (value(good) > 0) good *= 2;
  while (good > 1e-12 && value(good / 2) <= 0) good /= 2;
  const shown = sixDigitsUp(edgeOfGood(value, good, good / 2, 1e-12) * (1 - 1e-11));
  return compareDecimals(shown, cap) < 0 ? shown : cap;
}

function sixDigitsUp(x) {
  const [above, below] = fractionOf(x);
  let exponent = Number(x.toExponential().split("e")[1]) - 6, digits;
  do {  // the smallest power of ten that leaves six digits
    exponent += 1;
    const top = exponent < 0 ? above * 10n ** BigInt(-exponent) : above;
    const bottom = exponent > 0 ? below * 10n ** BigInt(exponent) : below;
    digits = -(-top / bottom) + (top % bottom ? 1n : 0n);
  } while (digits > 999_999n);
  return decimalOf(`${digits}e${exponent}`);
}
