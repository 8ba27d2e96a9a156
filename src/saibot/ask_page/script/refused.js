// Why something cannot be done, and what to do instead: what people read on the page. Never holds a cell of a table.

export class Refused extends Error {
  constructor(message, hint = "") {
    super(message);
    this.hint = hint;
  }
}

// A number as pages write it, from its plain spelling or as a float: −0.5, and 10⁻⁶ where zeros would be counted.
export function told(number) {
  const value = Number(number);
  if (value === 0 || Math.abs(value) >= 1e-4) return String(number).replace("-", "−");
  const [digits, power] = value.toExponential().split("e");
  const raised = power.replace(/[-+\d]/g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
  return `${digits === "1" ? "" : `${digits}×`}10${raised}`.replace("-", "−");
}

// A whole number as people read it: 4,000.
export function grouped(number) {
  return number.toLocaleString("en");
}
