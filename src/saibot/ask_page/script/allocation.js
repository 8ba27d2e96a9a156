// How a plan divides its noise between blocks: the proportions that make the predicted error of a regression least.
//
// Privacy does not depend on them (joint.proof.md, "allocation is irrelevant for privacy"): any proportions are scaled to
// the budget afterwards. The prediction is that of saibot/privacy/mechanisms/allocation.py, for one key level.

const TYPICAL_KEYS = 100;
const TYPICAL_ROWS_PER_KEY = 30;
const WIDEST = Math.log(1000);

export function allocate(request, blocks, cost) {
  const start = blocks.map((block) =>
    Math.log((block.order % 2 ? 2 : Math.SQRT2) * request.boundSquared ** (block.order / 2)),
  );
  const near = (logs) => logs.map((log, i) => Math.min(Math.max(log, start[i] - WIDEST), start[i] + WIDEST));
  const objective = (logs) => {
    const scales = near(logs).map(Math.exp), reached = cost(scales);
    return Math.log(predictedError(request, blocks, scales.map((scale) => scale * reached)));
  };
  let best = start;
  for (let i = 0; i < 3; i++) best = smallest(objective, best);  // a simplex can collapse along the kinks of a maximum
  const found = near(best);
  return found.map((log) => Math.exp(log - found[0]));
}

export function predictedError(request, blocks, sigmas) {
  const variance = {};
  blocks.forEach((block, i) => { variance[block.scope + block.order] = sigmas[i] ** 2; });
  const m = request.features, spread = request.boundSquared / (3 * m);
  const products = m + (m * (m - 1)) / 4;  // of two features: noise of mixed ones has half the variance
  if (!request.keyed) {
    const entries = [1, m, products];
    return blocks.reduce((total, { order }) => total + (entries[order] * variance[`global${order}`]) / spread ** order, 0);
  }
  const keys = request.keys ?? TYPICAL_KEYS, rows = request.rows ?? TYPICAL_ROWS_PER_KEY * keys;
  const asked = 2 * keys * variance.key0 + (m * keys * variance.key1) / spread
    + (m * variance.global1) / spread + (products * variance.global2) / spread ** 2;
  const noise = (variance.key1 + spread * variance.key0) * (keys / rows) ** 2;
  return asked + (((5 + m) * m * noise) / spread) * (rows ** 2 / keys);
}

// Nelder and Mead's simplex, until it is as small as 1e-7 and as flat as 1e-10.
function smallest(value, start) {
  const n = start.length;
  let simplex = [start, ...start.map((_, i) => start.map((x, j) => (i !== j ? x : x === 0 ? 0.00025 : 1.05 * x)))]
    .map((at) => ({ at, value: value(at) }));
  const from = (centre, worst, by) => {
    const at = centre.map((c, i) => c + by * (c - worst.at[i]));
    return { at, value: value(at) };
  };
  for (let i = 0; i < 4000; i++) {
    simplex.sort((one, other) => one.value - other.value);
    const best = simplex[0], worst = simplex[n];
    const size = Math.max(...simplex.flatMap(({ at }) => at.map((x, j) => Math.abs(x - best.at[j]))));
    if (size <= 1e-7 && worst.value - best.value <= 1e-10) break;
    const centre = start.map((_, j) => simplex.slice(0, n).reduce((total, { at }) => total + at[j], 0) / n);
    const reflected = from(centre, worst, 1);
    if (reflected.value < best.value) {
      const further = from(centre, worst, 2);
      simplex[n] = further.value < reflected.value ? further : reflected;
    } else if (reflected.value < simplex[n - 1].value) {
      simplex[n] = reflected;
    } else {
      const closer = from(centre, worst, reflected.value < worst.value ? 0.5 : -0.5);
      if (closer.value < Math.min(reflected.value, worst.value)) {
        simplex[n] = closer;
      } else {
        simplex = simplex.map(({ at }, j) => {
          const shrunk = at.map((x, k) => best.at[k] + 0.5 * (x - best.at[k]));
          return j === 0 ? best : { at: shrunk, value: value(shrunk) };
        });
      }
    }
  }
  return simplex.reduce((one, other) => (other.value < one.value ? other : one)).at;
}
