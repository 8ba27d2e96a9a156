// Numbers as a sketch spells them: floats as Python writes them, fifteen digits as engines read them, exact decimals.
//
// A sketch's digest covers its header as text, and the reader writes that text anew. So a float has to be spelled here
// the way Python spells it, digit for digit.

// A float as Python's repr writes it: the shortest digits that are read as the same float; 16 digits before an exponent.
export function pythonFloat(x) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x < 0 ? "-inf" : "inf";
  const sign = x < 0 || Object.is(x, -0) ? "-" : "";
  const [mantissa, power] = Math.abs(x).toExponential().split("e");
  const digits = mantissa.replace(".", ""), exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const tail = digits.length > 1 ? `.${digits.slice(1)}` : "";
    return `${sign}${digits[0]}${tail}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

// A finite float as the fraction that it is, the denominator a power of two.
export function fractionOf(x) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0), raw = Number((bits >> 52n) & 0x7ffn);
  const tail = bits & 0xfffffffffffffn;
  const mantissa = raw === 0 ? tail : tail | 0x10000000000000n;
  const shift = Math.max(raw, 1) - 1075, signed = bits >> 63n ? -mantissa : mantissa;
  return shift >= 0 ? [signed << BigInt(shift), 1n] : [signed, 1n << BigInt(-shift)];
}

// The float nearest to x rounded to fifteen digits, a tie going to the even digit as in Python; toPrecision rounds ties up.
export function fifteenDigits(x) {
  if (x === 0 || !Number.isFinite(x)) return x;
  const [signed, below] = fractionOf(x), above = signed < 0n ? -signed : signed;
  let exponent = Number(Math.abs(x).toExponential().split("e")[1]) - 14;
  for (; ; exponent++) {  // the first guess may be one too low, where the shortest digits were rounded up
    const top = exponent < 0 ? above * 10n ** BigInt(-exponent) : above;
    const bottom = exponent > 0 ? below * 10n ** BigInt(exponent) : below;
    if (top < 10n ** 14n * bottom) { exponent -= 2; continue; }
    let digits = top / bottom;
    const twice = 2n * (top % bottom);
    if (twice > bottom || (twice === bottom && digits & 1n)) digits += 1n;
    if (digits <= 10n ** 15n) return Number(`${signed < 0n ? "-" : ""}${digits}e${exponent}`);
  }
}

// ------------------------------------------------------------------------------------------------ decimals

const DECIMAL = /^([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]{1,3}))?$/;

// A number as it is written, digits times a power of ten; null where it is none or has more than 30 digits.
export function decimalOf(text) {
  const found = DECIMAL.exec(text.trim());
  if (found === null) return null;
  const [, sign, whole = "", behind = "", alone = "", power = "0"] = found;
  const fraction = behind || alone;
  let digits = BigInt(whole + fraction || "0"), exponent = Number(power) - fraction.length;
  if (digits === 0n) return { digits: 0n, exponent: 0 };
  while (digits % 10n === 0n) { digits /= 10n; exponent += 1; }
  const length = String(digits).length;
  if (length > 30 || Math.abs(exponent + length - 1) > 30) return null;
  return { digits: sign === "-" ? -digits : digits, exponent };
}

// A decimal as a fraction.
export function fractionOfDecimal({ digits, exponent }) {
  return exponent >= 0 ? [digits * 10n ** BigInt(exponent), 1n] : [digits, 10n ** BigInt(-exponent)];
}

export function compareDecimals(one, other) {
  const [a, b] = fractionOfDecimal(one), [c, d] = fractionOfDecimal(other);
  return a * d < c * b ? -1 : a * d > c * b ? 1 : 0;
}

export function floatOfDecimal({ digits, exponent }) {
  return Number(`${digits}e${exponent}`);
}

// The one usual spelling of a decimal: 1, 0.25, 1e-6.
export function plainDecimal({ digits, exponent }) {
  if (digits === 0n) return "0";
  const sign = digits < 0n ? "-" : "", text = String(digits < 0n ? -digits : digits);
  const adjusted = exponent + text.length - 1;
  if (adjusted < -5 || adjusted >= 16) {
    return `${sign}${text[0]}${text.length > 1 ? `.${text.slice(1)}` : ""}e${adjusted}`;
  }
  if (exponent >= 0) return sign + text + "0".repeat(exponent);
  if (adjusted < 0) return `${sign}0.${"0".repeat(-adjusted - 1)}${text}`;
  return `${sign}${text.slice(0, adjusted + 1)}.${text.slice(adjusted + 1)}`;
}
