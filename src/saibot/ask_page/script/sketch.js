// A sketch: header and noisy columns, its digest, its file. Nothing here has seen a row. docs/reference/sketch-file.md.

import { arrowFile, littleEndian } from "./arrow_file.js";
import { canonicalJson, Real } from "./canonical_json.js";
import { OTHER } from "./key_domain.js";
import { plainDecimal } from "./numbers.js";
import { planDocument } from "./plan.js";
import { Sha256, hex, utf8 } from "./sha256.js";

// What a sketch says about itself, but for its noisy numbers and its digest. facts: { dataset, edition, columns, key,
// budget, plan, bits, rows, account, spent, created }.
export function headerOf(facts) {
  const { card, columns, plan, key } = facts, { request } = plan;
  return {
    format: "saibot-sketch",
    version: 2,
    dataset: { name: facts.dataset, title: card.title, description: "", individual: card.individual },
    edition: facts.edition,
    features: columns.map(featureDocument),
    key: key && { name: key.name, parts: [keyPart(key)], levels: [] },
    budget: { epsilon: plainDecimal(request.epsilon), delta: plainDecimal(request.delta) },
    neighbours: request.neighbours,
    invariants: request.rows === null ? {} : { rows: request.rows },
    bound_squared: String(request.boundSquared),
    plan: planDocument(plan),
    grid_bits: facts.bits,
    model: "central",
    preparation: { kind: "public", steps: [] },
    assumptions: {
      rows_per_individual: request.rowsPerIndividual,
      row_count_public: request.rowCountPublic,
      key_domain_public: true,
      bounds_public: true,
      noise: "exact-integer",
    },
    simulation: false,
    created: facts.created,
    types: {
      features: Object.fromEntries(card.features.map(({ name, levels }) => [name, levels ? "category" : "numeric"])),
      keys: key ? { [key.name]: key.byDay ? "date" : "text" } : {},
    },
    open: false,
    source: null,
    account: facts.account,
    spent: { epsilon: plainDecimal(facts.spent.epsilon), delta: plainDecimal(facts.spent.delta) },
  };
}

function featureDocument({ name, kind, lower, upper, missing, feature, level }) {
  const indicator = kind === "indicator";
  return {
    name,
    kind,
    lower: new Real(lower),
    upper: new Real(upper),
    unit: feature.unit,
    missing: indicator ? null : new Real(missing),
    column: indicator ? feature.name : null,
    level: indicator ? level : null,
    weights: null,
  };
}

function keyPart({ name, domain }) {
  return {
    name,
    domain: domain.id,
    version: domain.version,
    size: domain.values.length,
    digest: domain.digest,
    keys_digest: domain.keysDigest,
  };
}

// The file of a sketch, its digest and its header's text. noisy: { perKey, whole } as `release` gives it.
export function sealedSketch(header, noisy, columns, key) {
  const blocks = Object.entries(noisy.whole).map(([order, values]) => ({
    order: Number(order),
    values: values.map((value) => new Real(value)),
  }));
  const full = { ...header, global_blocks: blocks };
  const keys = key ? [...key.domain.values, OTHER] : [],
    width = 1 + columns.length;
  const released = key
    ? Array.from({ length: width }, (_, i) => Float64Array.from(keys, (_, k) => noisy.perKey[k * width + i]))
    : [];
  const digest = digestOf(full, keys, released);
  const text = canonicalJson({ ...full, signature: null, digest });
  const names = ["c", ...columns.map(({ name }) => `s:${name}`)];
  const fields = [
    { name: "level", type: "int8", values: keys.map(() => 0) },
    ...(key ? [{ name: `key:${key.name}`, type: "text", values: keys }] : []),
    ...released.map((values, i) => ({ name: names[i], type: "float64", values })),
  ];
  return { digest, text, keys, names, released, content: arrowFile(fields, ["saibot", text], keys.length) };
}

// Of the canonical header without digest and signature, then of every column in the order of the file.
function digestOf(header, keys, released) {
  const sha = new Sha256().update(utf8(canonicalJson(header)));
  if (keys.length > 0) {
    sha.update(utf8(`\x1elevel 0 ${keys.length}\x1e`));
    const encoded = keys.map(utf8);
    sha.update(littleEndian(Int32Array.from(encoded, (bytes) => bytes.length)));
    for (const bytes of encoded) sha.update(bytes);
    for (const column of released) sha.update(littleEndian(column));
  }
  return hex(sha.digest());
}
