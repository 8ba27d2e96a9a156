// The rows of a CSV or TSV file, all cells as text, in the one dialect that `saibot privatize` reads tables in.
//
// No dialect is guessed: one row with a quote in it could otherwise change how all the others are read. What the product
// would refuse is refused, and so are a few files that it takes; whatever is accepted here means the same there.

import { grouped, Refused } from "./refused.js";

const LONGEST_CELL = 1 << 20;
const MOST_COLUMNS = 10_000;
const CUT = 1 << 20;  // bytes of a file that are read at a time

const TAB = 9, LINE_FEED = 10, RETURN = 13, QUOTE = 34, COMMA = 44;

export function separatorOf(name) {
  const lower = name.toLowerCase();
  if (lower.endsWith(".csv")) return COMMA;
  if (lower.endsWith(".tsv")) return TAB;
  throw new Refused(
    "this page reads text files that end in .csv or .tsv.",
    "Save the table as CSV, or use `saibot privatize`.",
  );
}

// Calls `take(cells)` for every row, the line of names first. `took` hears how many bytes have been read.
export async function readRows(file, take, took = async () => {}) {
  const parser = new RowParser(separatorOf(file.name), take);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for (let at = 0; at < file.size; at += CUT) {
    const bytes = await file.slice(at, at + CUT).arrayBuffer();
    parser.read(decoded(decoder, bytes, true));
    await took(Math.min(at + CUT, file.size));
  }
  parser.read(decoded(decoder, new ArrayBuffer(0), false));
  parser.end();
}

// The names in the first line alone.
export async function readNames(file) {
  const found = [];
  class Enough extends Error {}
  try {
    await readRows(file, (cells) => {
      found.push(...cells);
      throw new Enough();
    });
  } catch (problem) {
    if (!(problem instanceof Enough)) throw problem;
  }
  return found;
}

function decoded(decoder, bytes, more) {
  try {
    return decoder.decode(bytes, { stream: more });
  } catch {
    throw new Refused("the file is not text in UTF-8.", "Save it as CSV in UTF-8.");
  }
}

// Outside quotes a cell ends at a separator or at the end of its line; in quotes it ends at a quote that is not doubled.
export class RowParser {
  constructor(separator, take) {
    Object.assign(this, { separator, take, cells: [], cell: "", quoted: false, closed: false, returned: false });
    this.columns = null;  // how many cells a row has: as many as the line of names
    this.lineEnd = null;  // with a carriage return or without: as the line of names ends
  }

  read(text) {
    let from = 0;  // of the current run of plain letters
    for (let at = 0; at < text.length; at++) {
      const letter = text.charCodeAt(at);
      if (this.quoted) {
        if (letter !== QUOTE) continue;
        this.cell += text.slice(from, at);
        this.quoted = false;
        this.closed = true;
        from = at + 1;
      } else if (letter === QUOTE) {
        if (this.closed) this.cell += '"';  // a doubled quote: the cell goes on
        else if (this.cell !== "" || from !== at || this.returned) throw quoteInside();
        this.quoted = true;
        this.closed = false;
        from = at + 1;
      } else if (letter === this.separator) {
        this.cell += text.slice(from, at);
        this.endCell();
        from = at + 1;
      } else if (letter === LINE_FEED) {
        this.cell += text.slice(from, at);
        this.endRow(this.returned);
        from = at + 1;
      } else if (letter === RETURN) {
        this.cell += text.slice(from, at);
        if (this.returned) throw oddLineEnd();
        this.returned = true;
        from = at + 1;
      } else if (this.returned) {
        throw oddLineEnd();
      } else if (this.closed) {
        throw quoteInside();
      }
    }
    this.cell += text.slice(from);
    if (this.cell.length > LONGEST_CELL)
      throw new Refused("a cell of the table has more than a million letters.", "Check that its quotes close.");
  }

  endCell() {
    if (this.returned) throw oddLineEnd();
    this.cells.push(this.cell);
    if (this.cells.length > MOST_COLUMNS)
      throw new Refused(
        `a row of the table has more than ${grouped(MOST_COLUMNS)} cells.`,
        "Check that its lines end.",
      );
    this.cell = "";
    this.closed = false;
  }

  endRow(returned) {
    this.returned = false;
    const empty = this.cells.length === 0 && this.cell === "" && !this.closed;
    this.endCell();
    const { cells } = this;
    this.cells = [];
    if (this.columns === null) {
      if (empty) return;  // lines before the names
      if (cells.some((cell) => /[\r\n]/.test(cell)))
        throw new Refused(
          "a name in the first line of the table has a line break in it.",
          "Write the names of the columns in one line.",
        );
      this.columns = cells.length;
      this.lineEnd = returned;
    } else {
      if (returned !== this.lineEnd) throw oddLineEnd();
      if (empty && this.columns > 1) return;
      if (cells.length !== this.columns) {
        throw new Refused(
          "a row of the table does not have as many cells as the first line has names.",
          "Check that the file is complete, and that cells with a comma in them stand in quotes.",
        );
      }
    }
    this.take(cells);
  }

  end() {
    if (this.quoted)
      throw new Refused(
        "a quote of the table is never closed.",
        'A cell with a quote in it is written in quotes, and its own quote twice: "5"" pipe".',
      );
    if (this.returned) throw oddLineEnd();
    if (this.cells.length > 0 || this.cell !== "" || this.closed) this.endRow(this.lineEnd ?? false);
    if (this.columns === null) throw new Refused("the file is empty.", "A table begins with the names of its columns.");
  }
}

function quoteInside() {
  return new Refused(
    "the table has a quote inside a cell that is not in quotes.",
    'A cell with a quote in it is written in quotes, and its own quote twice: "5"" pipe".',
  );
}

function oddLineEnd() {
  return new Refused(
    "lines of the table end in different ways.",
    "Save it anew: all lines end alike, with or without a carriage return.",
  );
}
