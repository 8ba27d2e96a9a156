// A plan: what will be released and with how much noise, from public facts alone, before anything is spent.
//
// The mechanism is `joint`, with the layout `lookup` where there is a key and `union` where there is none.

import { Real } from "./canonical_json.js";
import { analyticMu, MOST_TOUCHED, STEPS_PER_SIGMA } from "./calibration.js";
import { allocate } from "./allocation.js";
import { jointCost } from "./sensitivity.js";
import { grouped, Refused } from "./refused.js";
import { plainDecimal } from "./numbers.js";

// request: { features, boundSquared, epsilon, delta, neighbours, rowCountPublic, rowsPerIndividual, rows, keyed, keys }.
// `rows` is the public row count or null, `keys` the number of keys with the catch-all, or null.
export function makePlan(request) {
  const places = request.keyed
    ? [["key", 0], ["key", 1], ["global", 1], ["global", 2]]
    : [...(request.rowCountPublic ? [] : [["global", 0]]), ["global", 1], ["global", 2]];
  const shape = places.map(([scope, order]) => ({ scope, order }));
  const touched =
    shape.reduce((total, block) => total + entriesOf(block, request.features) * (block.scope === "key" ? 2 : 1), 0) *
    request.rowsPerIndividual;
  if (touched > MOST_TOUCHED) {
    throw new Refused(
      `one individual would move ${grouped(touched)} numbers; this page plans for at most ${grouped(MOST_TOUCHED)}.`,
      "Choose fewer features or fewer rows per individual, or use `saibot privatize`.",
    );
  }
  const cost = (sigmas) => jointCost(shape, sigmas, request);
  const proportions = allocate(request, shape, cost), reached = cost(proportions);
  const mu = analyticMu(request.epsilon, request.delta, touched);
  if (mu === null)
    throw new Refused("epsilon is too small for a release of so many numbers.", "Raise it, or choose fewer features.");
  const blocks = shape.map((block, i) => ({
    ...block, sensitivity: jointCost([block], [1], request), sigma: (proportions[i] * reached) / mu,
  }));
  return { request, touched, mu, blocks };
}

export function entriesOf({ order }, features) {
  return [1, features, (features * (features + 1)) / 2][order];
}

// Standard deviation of the noise of a monomial: that of a product of two different features is smaller, which is free.
export function noiseOf(block, multiplicity) {
  return block.sigma / Math.sqrt(multiplicity);
}

// As it stands in the header of a sketch.
export function planDocument({ request, touched, mu, blocks }) {
  return {
    mu: new Real(mu),
    noise: "gaussian",
    calibration: "analytic",
    touched,
    blocks: blocks.map((block) => ({
      scope: block.scope,
      level: 0,
      order: block.order,
      sensitivity: new Real(block.sensitivity),
      sigma: new Real(block.sigma),
      ...(block.order === 2 ? { sigma_offdiagonal: new Real(noiseOf(block, 2)) } : {}),
      weighted: true,
    })),
    request: planRequestDocument(request),
  };
}

export function planRequestDocument(request) {
  return {
    mechanism: "joint",
    layout: request.keyed ? "lookup" : "union",
    features: request.features,
    bound_squared: String(request.boundSquared),
    order: 2,
    budget: { epsilon: plainDecimal(request.epsilon), delta: plainDecimal(request.delta) },
    neighbours: request.neighbours,
    row_count_public: request.rowCountPublic,
    calibration: null,
    allocation: null,
    levels: 1,
    rows_per_individual: request.rowsPerIndividual,
    rows: request.rows,
    keys: request.keyed ? [request.keys] : [],
    share: "1",
    extra_touched: 0,
  };
}

// What the ledger keeps of it.
export function eventOf({ mu, touched }) {
  return { kind: "gaussian", mu, touched, steps: STEPS_PER_SIGMA };
}
