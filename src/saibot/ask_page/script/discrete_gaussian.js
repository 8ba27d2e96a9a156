// Discrete Gaussian noise in whole numbers alone: P(x) proportional to exp(-x^2 / 2s^2) on all integers, for a whole s.
//
// Proof: privacy/mechanisms/ask_page.proof.md, lemma B5. A value is x = ±(k s + j) as in Karney 2016, algorithm D: k with
// odds exp(-k^2/2), j uniform below s, both kept with probability exp(-y(2k + y)/2), y = j/s. What has probability exp(-g)
// is decided by comparing random whole numbers (Forsythe 1972): of n = 1, 2, ... the first that fails a trial of
// probability g/n is odd with probability 1 - g + g^2/2! - ... = exp(-g). So nothing is rounded, and no probability is
// computed.

import { randomBelow, randomWord } from "./randomness.js";

// Draws values of the law with this scale, a whole number of at least 1, one at each call.
export function discreteGaussian(scale) {
  return () => {
    for (;;) {
      const k = drawMultiple(), j = randomBelow(scale);
      if (!kept(k, j, scale)) continue;
      const negative = randomWord() & 1n;
      if (negative && k === 0 && j === 0n) continue;  // or 0 would be drawn in two ways
      const size = BigInt(k) * scale + j;
      return negative ? -size : size;
    }
  };
}

// k with odds exp(-k^2/2): k with odds exp(-k/2), kept with probability exp(-k(k - 1)/2).
export function drawMultiple() {
  for (;;) {
    let k = 0;
    while (halfExponential()) k += 1;
    let trials = k * (k - 1);
    while (trials > 0 && halfExponential()) trials -= 1;
    if (trials === 0) return k;
  }
}

// True with probability exp(-1/2).
export function halfExponential() {
  let n = 1n;
  while (randomBelow(2n * n) === 0n) n += 1n;
  return (n & 1n) === 1n;
}

// True with probability exp(-y(2k + y)/2), y = j/s: k times one of probability exp(-y), and one of probability exp(-y^2/2).
export function kept(k, j, scale) {
  for (let i = 0; i < k; i++) {
    if (!exponentialOfShare(j, scale)) return false;
  }
  return exponentialOfHalfSquare(j, scale);
}

// True with probability exp(-j/s).
export function exponentialOfShare(j, scale) {
  let n = 1n;
  while (randomBelow(n * scale) < j) n += 1n;
  return (n & 1n) === 1n;
}

// True with probability exp(-(j/s)^2/2): a trial of probability y^2/2n is one of y and one of y/2n.
export function exponentialOfHalfSquare(j, scale) {
  let n = 1n;
  while (randomBelow(scale) < j && randomBelow(2n * n * scale) < j) n += 1n;
  return (n & 1n) === 1n;
}
