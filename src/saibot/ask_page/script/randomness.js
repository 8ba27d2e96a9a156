// Random whole numbers, all equally likely, from the browser's cryptographic generator and from nothing else.

const BLOCK = 8192;  // words of 64 digits: 65,536 bytes, the most that one call gives
const words = new BigUint64Array(BLOCK);
let used = BLOCK;

export function randomBytes(count) {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  return bytes;
}

// 64 binary digits that nobody has used before. Those that were used are overwritten, so that no memory keeps noise.
export function randomWord() {
  if (used === BLOCK) {
    crypto.getRandomValues(words);
    used = 0;
  }
  const word = words[used];
  words[used] = 0n;
  used += 1;
  return word;
}

// Throws away what was fetched and not used: noise is made of digits that did not exist before its charge was found.
export function forgetWords() {
  words.fill(0n);
  used = BLOCK;
}

// A whole number from 0 to n - 1, n >= 1: as many digits as n - 1 has, drawn anew where they come to n or more. A remainder
// would make small numbers more likely than large ones.
export function randomBelow(n) {
  const digits = n === 1n ? 0 : (n - 1n).toString(2).length;
  for (;;) {
    const drawn = randomDigits(digits);
    if (drawn < n) return drawn;
  }
}

function randomDigits(count) {
  let drawn = 0n, left = count;
  for (; left > 64; left -= 64) drawn = (drawn << 64n) | randomWord();
  return left === 0 ? drawn : (drawn << BigInt(left)) | (randomWord() >> BigInt(64 - left));
}
