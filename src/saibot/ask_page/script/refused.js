// Why something cannot be done, and what to do instead: what people read on the page. Never holds a cell of a table.

export class Refused extends Error {
  constructor(message, hint = "") {
    super(message);
    this.hint = hint;
  }
}
