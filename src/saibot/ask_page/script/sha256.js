// SHA-256 and HMAC, for digests of sketches and key lists. Web Crypto has them, but not on every page opened from a disk.

const ROUND = constantsOf(3, 64);
const START = constantsOf(2, 8);

// The first 32 binary digits behind the point of square or cube roots of primes, in whole numbers.
function constantsOf(power, count) {
  const primes = [];
  for (let n = 2; primes.length < count; n++) {
    if (primes.every((prime) => n % prime)) primes.push(n);
  }
  return Uint32Array.from(primes, (prime) => {
    const wanted = BigInt(prime) << BigInt(32 * power);
    let root = BigInt(Math.floor(prime ** (1 / power) * 2 ** 32)) - 2n;  // a float is a little off; the loop is not
    while ((root + 1n) ** BigInt(power) <= wanted) root += 1n;
    return Number(root & 0xffffffffn);
  });
}

// Takes bytes as they come. `digest` ends it.
export class Sha256 {
  constructor() {
    this.state = Uint32Array.from(START);
    this.block = new Uint8Array(64);
    this.words = new Uint32Array(64);
    this.filled = 0;
    this.length = 0;
  }

  update(bytes) {
    this.length += bytes.length;
    for (let at = 0; at < bytes.length; ) {
      const taken = Math.min(64 - this.filled, bytes.length - at);
      this.block.set(bytes.subarray(at, at + taken), this.filled);
      this.filled += taken;
      at += taken;
      if (this.filled === 64) this.compress();
    }
    return this;
  }

  digest() {
    const bits = BigInt(this.length) * 8n;
    this.update(Uint8Array.of(0x80));
    this.update(new Uint8Array((120 - this.filled) % 64));
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigUint64(0, bits);
    this.update(length);
    const answer = new Uint8Array(32), view = new DataView(answer.buffer);
    this.state.forEach((word, i) => view.setUint32(4 * i, word));
    return answer;
  }

  compress() {
    const w = this.words, view = new DataView(this.block.buffer);
    for (let t = 0; t < 16; t++) w[t] = view.getUint32(4 * t);
    for (let t = 16; t < 64; t++) {
      const a = w[t - 15], b = w[t - 2];
      w[t] = w[t - 16] + w[t - 7] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = this.state;
    for (let t = 0; t < 64; t++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[t] + w[t]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + one) | 0;
      d = c; c = b; b = a; a = (one + two) | 0;
    }
    const state = this.state;
    state[0] += a; state[1] += b; state[2] += c; state[3] += d;
    state[4] += e; state[5] += f; state[6] += g; state[7] += h;
    this.filled = 0;
  }
}

function turn(word, by) {
  return (word >>> by) | (word << (32 - by));
}

export function utf8(text) {
  return new TextEncoder().encode(text);
}

export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function bytesOfHex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function sha256Hex(...texts) {
  const sha = new Sha256();
  for (const text of texts) sha.update(utf8(text));
  return hex(sha.digest());
}

export function hmacHex(key, text) {
  const padded = new Uint8Array(64);
  padded.set(key.length > 64 ? new Sha256().update(key).digest() : key);
  const inner = new Sha256().update(padded.map((byte) => byte ^ 0x36)).update(utf8(text)).digest();
  return hex(new Sha256().update(padded.map((byte) => byte ^ 0x5c)).update(inner).digest());
}
