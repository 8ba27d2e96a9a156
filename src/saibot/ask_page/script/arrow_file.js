// An Arrow IPC file in the one encoding that sketches have: metadata version 5, nothing packed, no dictionaries.

import { FlatWriter } from "./flatbuffer.js";

const MAGIC = new TextEncoder().encode("ARROW1");
const VERSION_5 = 4, LITTLE_ENDIAN = 0;
const SCHEMA = 1, RECORD_BATCH = 3;  // as Message.fbs numbers its headers
const CONTINUED = 0xffffffff;
const TYPES = {
  int8: [2, [["i32", 8], ["u8", 1]]],
  float64: [3, [["i16", 2]]],
  text: [5, []],
};

// columns: [{ name, type, values }] with values of one length; `metadata` is one pair of texts. Without rows there is no
// batch.
export function arrowFile(columns, [name, text], rows) {
  const schema = (writer) =>
    writer.table([
      ["i16", LITTLE_ENDIAN],
      ["offset", (w) => w.vector(columns.map((column) => (inner) => field(inner, column)))],
      [
        "offset",
        (w) =>
          w.vector([
            (inner) =>
              inner.table([
                ["offset", (x) => x.text(name)],
                ["offset", (x) => x.text(text)],
              ]),
          ]),
      ],
    ]);
  const parts = [padded(MAGIC), message(SCHEMA, schema, 0)];
  const blocks = [];
  if (rows > 0) {
    const { buffers, body } = bodyOf(columns);
    const batch = (writer) => writer.table([
      ["i64", rows],
      ["offset", (w) => w.structs(columns.map(() => [rows, 0]))],
      ["offset", (w) => w.structs(buffers)],
    ]);
    const head = message(RECORD_BATCH, batch, body.length);
    blocks.push([lengthOf(parts), head.length, body.length]);  // a length of 32 digits and four bytes between: one of 64
    parts.push(head, body);
  }
  const footer = FlatWriter.of([
    ["i16", VERSION_5],
    ["offset", schema],
    ["offset", (w) => w.structs([])],
    ["offset", (w) => w.structs(blocks)],
  ]);
  return joined([...parts, words(CONTINUED, 0), footer, words(footer.length), MAGIC]);
}

function field(writer, { name, type }) {
  const [number, facts] = TYPES[type];
  return writer.table([
    ["offset", (w) => w.text(name)],
    ["u8", 1],
    ["u8", number],
    ["offset", (w) => w.table(facts)],
    null,
    ["offset", (w) => w.vector([])],
  ]);
}

function message(kind, header, bodyLength) {
  const metadata = FlatWriter.of([["i16", VERSION_5], ["u8", kind], ["offset", header], ["i64", bodyLength]]);
  return joined([words(CONTINUED, metadata.length), metadata]);
}

// Every column has a buffer of validity, empty as nothing is missing; texts have one of places besides.
function bodyOf(columns) {
  const buffers = [], parts = [];
  let at = 0;
  const add = (bytes) => {
    buffers.push([at, bytes.length]);
    const piece = padded(bytes);
    parts.push(piece);
    at += piece.length;
  };
  for (const { type, values } of columns) {
    add(new Uint8Array(0));
    if (type === "text") {
      const encoded = values.map((value) => new TextEncoder().encode(value)), ends = new Int32Array(values.length + 1);
      encoded.forEach((bytes, i) => { ends[i + 1] = ends[i] + bytes.length; });
      add(littleEndian(ends));
      add(joined(encoded));
    } else {
      add(littleEndian(type === "int8" ? Int8Array.from(values) : Float64Array.from(values)));
    }
  }
  return { buffers, body: joined(parts) };
}

export function littleEndian(numbers) {
  const width = numbers.BYTES_PER_ELEMENT, bytes = new Uint8Array(numbers.length * width), view = new DataView(bytes.buffer);
  const put = { 1: "setInt8", 4: "setInt32", 8: "setFloat64" }[width];
  numbers.forEach((number, i) => view[put](i * width, number, true));
  return bytes;
}

function words(...numbers) {
  const view = new DataView(new ArrayBuffer(4 * numbers.length));
  numbers.forEach((number, i) => view.setUint32(4 * i, number, true));
  return new Uint8Array(view.buffer);
}

function padded(bytes) {
  const longer = new Uint8Array(Math.ceil(bytes.length / 8) * 8);
  longer.set(bytes);
  return longer;
}

function lengthOf(parts) {
  return parts.reduce((total, part) => total + part.length, 0);
}

export function joined(parts) {
  const whole = new Uint8Array(lengthOf(parts));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
