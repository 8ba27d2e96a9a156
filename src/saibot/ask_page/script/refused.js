// Why something cannot be done, and what to do instead: what people read on the page. Never holds a cell of a table.

export class Refused extends Error {
  constructor(message, hint = "") {
    super(message);
    this.hint = hint;
  }
}

// A whole number as people read it: 4,000.
export function grouped(number) {
  return number.toLocaleString("en");
}
