// A request from a table to its sketches: all steps, in the order that privacy needs.
//
// Everything that can be wrong is found before anything is spent. The ledger is charged, and its file read back, before the
// first draw of noise.

import { checkBounds, releasedColumns } from "./grid.js";
import { charged, receipted, secretFor, spentOf } from "./ledger.js";
import { fractionOfDecimal } from "./numbers.js";
import { eventOf, makePlan } from "./plan.js";
import { forgetWords } from "./randomness.js";
import { chooseBits, release } from "./release.js";
import { Refused } from "./refused.js";
import { headerOf, sealedSketch } from "./sketch.js";
import { aggregate, divide, rowsIn, TEST, TRAIN, wasteful } from "./statistics.js";

const FINEST = 15;
const NAMES = ["train", "test"];

// Reads and sums the table, and plans its release: charges nothing, draws no noise. `progress(words, share)` is awaited.
export async function prepared(file, names, card, ledger, { again, now, progress }) {
  const table = tableOf(names, card, ledger), columns = releasedColumns(card.features);
  for (const column of columns) checkBounds(column, FINEST);
  const took = (words) => (bytes) => progress(words, bytes / Math.max(file.size, 1));
  const parts = await divide(file, table.id?.at ?? null, thresholdOf(card.test), took("Dividing the table at random"));
  const plans = [];
  for (const part of card.test.digits === 0n ? [TRAIN] : [TRAIN, TEST]) {
    await progress("Planning the noise", null);
    plans.push(plannedPart(part, parts, card, columns));
  }
  const after = charged(ledger, card, plans.map(({ name, plan }) => ({ part: name, event: eventOf(plan) })), { again, now });
  const sums = await aggregate(file, parts, plans, table, took("Summing the rows"));
  const account = { account: secretFor(ledger, `account ${card.name}`), spent: spentOf(after, card.name) };
  const edition = after.requests.at(-1).edition;
  const releases = plans.map((one, i) => ({
    ...one,
    sums: sums[i],
    header: headerOf({
      ...one,
      ...account,
      card,
      columns,
      edition,
      key: card.key,
      dataset: `${card.name}-${one.name}`,
      created: now.slice(0, 10),
    }),
  }));
  return { card, columns, divided: parts, releases, ledger: after, doubts: [...new Set(sums.flatMap(wasteful))] };
}

function plannedPart(part, parts, card, columns) {
  const rowCountPublic = card.maxRows === null,
    rows = rowCountPublic ? rowsIn(parts, part) : null;
  if (rows === 0)
    throw new Refused(
      "a part of the table has no rows.",
      part === TEST ? "Raise the share of the test part." : "Lower the share of the test part.",
    );
  const plan = makePlan({
    features: columns.length,
    boundSquared: card.features.length,
    epsilon: card.epsilon,
    delta: card.delta,
    neighbours: card.neighbours,
    rowCountPublic,
    rowsPerIndividual: card.rowsPerIndividual,
    rows,
    keyed: card.key !== null,
    keys: card.key ? card.key.domain.values.length + 1 : null,
  });
  const mostRows = rows ?? card.maxRows, bits = chooseBits(plan, mostRows);
  for (const column of columns) checkBounds(column, bits);
  return { part, name: NAMES[part], plan, bits, mostRows };
}

function tableOf(names, card, ledger) {
  const at = (column) => {
    const place = names.indexOf(column);
    if (place < 0) throw new Refused(`the table has no column ${column}.`, "Choose the columns again.");
    return place;
  };
  return {
    features: card.features,
    at: card.features.map(({ column }) => at(column)),
    key: card.key && { at: at(card.key.column), domain: card.key.domain, byDay: card.key.byDay },
    id:
      card.id === null
        ? null
        : { at: at(card.id), most: card.rowsPerIndividual, secret: secretFor(ledger, `rows kept in ${card.name}`) },
  };
}

// A share of the 2^64 values that 64 random digits have, rounded down.
function thresholdOf(share) {
  const [above, below] = fractionOfDecimal(share);
  return (above << 64n) / below;
}

// Draws the noise of a request whose charge has been saved and read back: the files, and the ledger with its receipts.
export async function drawn(ready, savedLedger, progress) {
  if (JSON.stringify(savedLedger) !== JSON.stringify(ready.ledger)) {
    throw new Refused("this ledger does not hold the charge of this request.", "Choose the file that was saved just now.");
  }
  forgetWords();
  const files = [];
  for (const one of ready.releases) {
    const { sums } = one;
    one.sums = null;  // drawn once, whatever happens now: the same sums never get noise twice
    const noisy = await release(one.plan, one.bits, one.mostRows, sums, (share) =>
      progress(`Drawing the noise of the ${one.name} part`, share),
    );
    files.push({ part: one.name, ...sealedSketch(one.header, noisy, ready.columns, ready.card.key) });
  }
  return { files, ledger: receipted(ready.ledger, files) };
}
