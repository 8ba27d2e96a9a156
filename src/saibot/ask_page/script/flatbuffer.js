// FlatBuffers, as far as Arrow's metadata needs them: tables, vectors, strings. Children are written behind their parents.
//
// Everything lies at a multiple of its own size, counted from the start, and offsets point forwards, as readers demand.

export class FlatWriter {
  constructor() {
    this.bytes = new Uint8Array(1024);
    this.view = new DataView(this.bytes.buffer);
    this.length = 0;
  }

  // The whole buffer with this table as its root.
  static of(fields) {
    const writer = new FlatWriter();
    const place = writer.room(4, 4);
    writer.point(place, writer.table(fields));
    writer.align(8);
    return writer.bytes.slice(0, writer.length);
  }

  // fields: slot by slot, null where there is nothing: ["i16", 4], ["offset", (writer) => place].
  table(fields) {
    const sizes = { u8: 1, i16: 2, i32: 4, i64: 8, offset: 4 };
    const slots = [];
    let size = 4;
    for (const field of fields) {
      if (field === null) { slots.push(0); continue; }
      const width = sizes[field[0]];
      size = Math.ceil(size / width) * width;
      slots.push(size);
      size += width;
    }
    const vtable = this.room(4 + 2 * slots.length, 2);
    [4 + 2 * slots.length, size, ...slots].forEach((value, i) => this.view.setUint16(vtable + 2 * i, value, true));
    const place = this.room(size, 8);
    this.view.setInt32(place, place - vtable, true);
    fields.forEach((field, i) => {
      if (field === null) return;
      const [kind, value] = field, at = place + slots[i];
      if (kind === "u8") this.view.setUint8(at, value);
      else if (kind === "i16") this.view.setInt16(at, value, true);
      else if (kind === "i32") this.view.setInt32(at, value, true);
      else if (kind === "i64") this.view.setBigInt64(at, BigInt(value), true);
      else this.point(at, value(this));
    });
    return place;
  }

  text(value) {
    const encoded = new TextEncoder().encode(value), place = this.room(4 + encoded.length + 1, 4);
    this.view.setUint32(place, encoded.length, true);
    this.bytes.set(encoded, place + 4);
    return place;
  }

  vector(children) {
    const place = this.room(4 + 4 * children.length, 4);
    this.view.setUint32(place, children.length, true);
    children.forEach((child, i) => this.point(place + 4 + 4 * i, child(this)));
    return place;
  }

  // A vector of structs, each of so many 64-bit numbers.
  structs(rows) {
    this.align(8);
    this.room(4, 4);  // so that the numbers, behind their count, lie at a multiple of 8
    const place = this.room(4, 4);
    this.view.setUint32(place, rows.length, true);
    for (const row of rows) {
      for (const value of row) this.view.setBigInt64(this.room(8, 8), BigInt(value), true);
    }
    return place;
  }

  point(at, target) {
    this.view.setUint32(at, target - at, true);
  }

  align(to) {
    this.length = Math.ceil(this.length / to) * to;
    this.grow(this.length);
  }

  room(size, alignment) {
    this.align(alignment);
    const place = this.length;
    this.length += size;
    this.grow(this.length);
    return place;
  }

  grow(size) {
    if (size <= this.bytes.length) return;
    const larger = new Uint8Array(2 * size);
    larger.set(this.bytes);
    this.bytes = larger;
    this.view = new DataView(larger.buffer);
  }
}
