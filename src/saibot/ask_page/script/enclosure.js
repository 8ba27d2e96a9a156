// Real numbers between two whole ones: every function gives a lower and an upper bound that hold whatever was rounded.
//
// An enclosure is a pair [low, high] of whole numbers that stand for low / 2^DIGITS and high / 2^DIGITS. Low ends are
// rounded down and high ends up, so what is proved of the formulas holds for what the browser computes. No float takes
// part.

export const DIGITS = 768n;
export const ONE = 1n << DIGITS;

export function floorDivide(above, below) {  // below > 0
  const quotient = above / below;
  return above % below < 0n ? quotient - 1n : quotient;
}

export function ceilDivide(above, below) {
  return -floorDivide(-above, below);
}

export function enclosureOf(above, below) {
  return [floorDivide(above << DIGITS, below), ceilDivide(above << DIGITS, below)];
}

export function sum([a, b], [c, d]) {
  return [a + c, b + d];
}

export function difference([a, b], [c, d]) {
  return [a - d, b - c];
}

export function product([a, b], [c, d]) {
  const ends = [a * c, a * d, b * c, b * d];
  const low = ends.reduce((x, y) => (x < y ? x : y)), high = ends.reduce((x, y) => (x > y ? x : y));
  return [low >> DIGITS, -(-high >> DIGITS)];  // shifting rounds down
}

export function quotient(over, [c, d]) {  // c > 0
  return product(over, [floorDivide(ONE << DIGITS, d), ceilDivide(ONE << DIGITS, c)]);
}

// The quotient of positive numbers of which the lower may be so large that its reciprocal would have no digits left.
export function ratio([a, b], [c, d]) {
  return [floorDivide(a << DIGITS, d), ceilDivide(b << DIGITS, c)];
}

export function squareRoot([a, b]) {  // a >= 0
  return [wholeRoot(a << DIGITS), wholeRoot(b << DIGITS) + 1n];
}

function wholeRoot(n) {
  if (n < 2n) return n;
  let root = 1n << BigInt((n.toString(2).length + 1) >> 1);  // above the root, from where Newton's steps only go down
  for (;;) {
    const next = (root + n / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

// e to the power of x. Of a number below 2^-8 the series has terms that shrink by more than half, so what follows a term is
// less than that term; the rest is squaring.
export function exponential([a, b]) {
  if (a < 0n) {
    const [low, high] = exponential([b < 0n ? -b : 0n, -a]);
    const lowest = ratio([ONE, ONE], [high, high])[0];
    return [lowest, b > 0n ? exponential([0n, b])[1] : ratio([ONE, ONE], [low, low])[1]];
  }
  let halvings = 0n;
  while (b >> halvings > ONE >> 8n) halvings += 1n;
  let low = seriesOfExponential(a >> halvings, true), high = seriesOfExponential(-(-b >> halvings), false);
  for (let i = 0n; i < halvings; i++) {
    low = (low * low) >> DIGITS;
    high = -(-(high * high) >> DIGITS);
  }
  return [low, high];
}

function seriesOfExponential(x, below) {
  let term = ONE, total = ONE;
  for (let n = 1n; term > 1n; n++) {
    term = below ? ((term * x) >> DIGITS) / n : ceilDivide(-(-(term * x) >> DIGITS), n);
    total += term;
    if (n > 1000n) throw new Error("internal: a series does not end");
  }
  return below ? total : total + term;
}

// 16 arctan(1/5) - 4 arctan(1/239): each series alternates, and its terms shrink.
let knownPi = null;
export function pi() {
  knownPi ??= difference(arctangent(5n, 16n), arctangent(239n, 4n));
  return knownPi;
}

function arctangent(of, times) {
  let power = (ONE * times) / of, total = 0n, terms = 0n;
  for (let n = 1n; power > 0n; n += 2n, terms += 1n) {
    total += n % 4n === 1n ? power / n : -(power / n);
    power /= of * of;
  }
  return [total - 2n * terms - 2n, total + 2n * terms + 2n];  // two roundings a term, and what was left out
}
