// How far one individual can move everything that is released, each block measured in its own noise: joint.proof.md.
//
// Blocks are { scope, order, ... } of one key level and of the whole table. Only orders up to 2 are released here.

export function jointCost(blocks, sigmas, request) {
  const perKey = [0, 0, 0], whole = [0, 0, 0];
  blocks.forEach((block, i) => { (block.scope === "key" ? perKey : whole)[block.order] = 1 / (sigmas[i] * sigmas[i]); });
  const squared = request.boundSquared;
  const powers = [1, squared, squared * squared];
  const added = Math.sqrt(powers.reduce((total, power, i) => total + (perKey[i] + whole[i]) * power, 0));
  const replaced = Math.sqrt(Math.max(
    distanceSquared([0, 0, 0], [0, 1, 2].map((i) => perKey[i] + whole[i]), squared, request.features),  // the key stays
    distanceSquared(perKey, whole, squared, request.features),  // the row moves to another key
  ));
  const each = request.neighbours === "add-remove" ? added : request.rowCountPublic ? replaced : Math.max(replaced, added);
  return request.rowsPerIndividual * each;
}

// max of 2 A_0 + sum_i A_i (a^i + b^i) + T_i (a^i + b^i - 2 p^i) over rows x, y with a = |x|^2, b = |y|^2, p = x.y: A the
// precisions of cells that the two rows do not share, T of those that they do.
function distanceSquared(apart, together, squared, features) {
  if (features >= 2) {  // a = b = B^2, and p = -u with u in [0, B^2] free
    const fixed = 2 * apart[0] + 2 * ((apart[1] + together[1]) * squared + (apart[2] + together[2]) * squared * squared);
    return fixed + largestOfParabola(2 * together[1], -2 * together[2], squared);
  }
  const bound = Math.sqrt(squared);  // one feature: x = B, and y in [-B, B]
  const moved = (y) => 2 * apart[0]
    + (apart[1] + together[1]) * (squared + y * y) - 2 * together[1] * bound * y
    + (apart[2] + together[2]) * (squared * squared + y * y * y * y) - 2 * together[2] * squared * y * y;
  const slope = (y) => 2 * (apart[1] + together[1]) * y - 2 * together[1] * bound
    + 4 * (apart[2] + together[2]) * y * y * y - 4 * together[2] * squared * y;
  // Where the slope itself turns: between those places it rises or falls throughout, and has one zero at most.
  const cubic = 12 * (apart[2] + together[2]), linear = 2 * (apart[1] + together[1]) - 4 * together[2] * squared;
  const turn = cubic > 0 && linear < 0 ? Math.min(Math.sqrt(-linear / cubic), bound) : 0;
  const ends = [-bound, -turn, turn, bound];
  const places = [...ends, ...ends.slice(1).map((end, i) => zeroBetween(slope, ends[i], end))];
  return Math.max(...places.map(moved));
}

function largestOfParabola(linear, square, end) {
  const top = square < 0 ? Math.min(Math.max(-linear / (2 * square), 0), end) : end;
  return Math.max(0, ...[top, end].map((u) => linear * u + square * u * u));
}

// A zero of a monotone function, or the end that is nearer to one. Any place may be tried for a maximum.
function zeroBetween(value, low, high) {
  const rising = value(high) >= value(low);
  for (let i = 0; i < 200 && low < high; i++) {
    const middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    if ((value(middle) < 0) === rising) low = middle; else high = middle;
  }
  return low;
}
