// Tails of the normal and of the chi-squared law, enclosed: what a calibration is made of.

import {
  DIGITS, ONE, ceilDivide, difference, enclosureOf, exponential, pi, product, quotient, ratio, squareRoot, sum,
} from "./enclosure.js";

const HALF = [ONE >> 1n, ONE >> 1n];
const FARTHEST = 24n * ONE;  // the tail beyond is below 10^-126, and counts as anything from 0 to that

// P(Z > x) of a standard normal Z, x anywhere in an enclosure. The tail falls, so each end comes from the other end of x.
export function normalTail([a, b]) {
  return [tailAt(b)[0], tailAt(a)[1]];
}

export function normalBelow([a, b]) {
  return normalTail([-b, -a]);
}

// 1/2 - density(x) (x + x^3/3 + x^5/(3 5) + x^7/(3 5 7) + ...), all terms positive.
function tailAt(x) {
  if (x < 0n) {
    const [low, high] = tailAt(-x);
    return [ONE - high, ONE - low];
  }
  if (x > FARTHEST) return [0n, tailAt(FARTHEST)[1]];
  const square = product([x, x], [x, x]);
  const density = quotient(exponential([-square[1] >> 1n, -square[0] >> 1n]), rootOfTwoPi());
  const [low, high] = difference(HALF, product(density, oddSeries(x, square)));
  return [low < 0n ? 0n : low, high];
}

function oddSeries(x, [low, high]) {
  let lower = x, upper = x, lowest = x, highest = x;
  for (let n = 3n; ; n += 2n) {
    lower = ((lower * low) >> DIGITS) / n;
    upper = ceilDivide(-(-(upper * high) >> DIGITS), n);
    lowest += lower;
    highest += upper;
    // From here on each term is less than half of the one before it, so that all that follow are less than this one.
    if (upper <= 1n && 2n * high < n * ONE) return [lowest, highest + upper];
  }
}

let knownRoot = null;
function rootOfTwoPi() {
  knownRoot ??= squareRoot(sum(pi(), pi()));
  return knownRoot;
}

// P(chi^2 > 2y) with so many degrees of freedom; y a fraction. A finite sum, of positive terms, over e^y.
export function chiSquaredTail(freedom, y) {
  const whole = freedom % 2 === 0;
  // Even: sum of y^k / k! for k < freedom / 2. Odd: the same with half numbers in place of whole ones, and a normal tail.
  let term = whole ? [ONE, ONE] : ratio(squareRoot(sum(y, y)), squareRoot(halfPi())), total = [0n, 0n];
  for (let k = 1; k <= Math.floor(freedom / 2); k++) {
    total = sum(total, term);
    term = ratio(product(term, y), enclosureOf(whole ? BigInt(k) : BigInt(2 * k + 1), whole ? 1n : 2n));
  }
  const mass = ratio(total, exponential(y));
  return whole ? mass : sum(mass, doubled(normalTail(squareRoot(sum(y, y)))));
}

function halfPi() {
  const [low, high] = pi();
  return [low >> 1n, (high >> 1n) + 1n];
}

function doubled(enclosure) {
  return sum(enclosure, enclosure);
}
