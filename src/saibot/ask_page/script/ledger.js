// The ledger: what has been spent on the individuals of a table, in a file that its owner keeps and brings along.
//
// Charge first: a request is written into the ledger, the ledger is saved, and only a file that was read back lets noise be
// drawn. What a request is answered depends on what was asked, now and before, and never on rows. accounts.proof.md.

import { canonicalJson } from "./canonical_json.js";
import { cardDocument } from "./card.js";
import { epsilonOf, fits, MOST_TOUCHED, STEPS_PER_SIGMA } from "./calibration.js";
import { decimalOf, floatOfDecimal, plainDecimal } from "./numbers.js";
import { randomBytes } from "./randomness.js";
import { Refused } from "./refused.js";
import { bytesOfHex, hex, hmacHex, sha256Hex } from "./sha256.js";

const FORMAT = "saibot-ask-ledger";
const MOST_READ = 256 << 20;  // bytes of a ledger
const MOST_KEPT = 16 << 20;  // bytes of sketches that are kept in a ledger to be handed out again
const SURPLUS = 1e-11;  // more than floats lose in a plan and in the sum of many
const ABOUT = "Keep this file, and only its newest copy: it is the one record of what your requests have spent. "
  + "The page cannot know of requests that are not in it.";

export function newLedger() {
  return { format: FORMAT, version: 1, saved: 0, secret: hex(randomBytes(32)), accounts: {}, requests: [] };
}

// The text of its file. `seal` shows damage and slips of the hand; it is no lock.
export function ledgerText(ledger) {
  const { seal: _, ...content } = ledger;
  return `${JSON.stringify({ about: ABOUT, ...content, seal: sealOf(content) }, null, 1)}\n`;
}

function sealOf({ about: _, ...content }) {
  return sha256Hex(JSON.stringify(content));
}

export async function readLedgerFile(file) {
  if (file.size > MOST_READ) throw new Refused("the file is too large for a ledger.", "Choose the one that you saved last.");
  return readLedger(await file.text());
}

export function readLedger(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    found = null;
  }
  if (found?.format !== FORMAT)
    throw new Refused("this is not a ledger of this page.", "Choose the newest saibot-ledger file that you saved.");
  if (found.version !== 1)
    throw new Refused("the ledger was written by a newer page.", "Get the newest page: `saibot ask-page`.");
  const { about: _, seal, ...ledger } = found;
  if (seal !== sealOf(ledger) || !isSound(ledger)) {
    throw new Refused("the ledger is damaged, or was changed by hand.", "Choose the file as the page saved it.");
  }
  return ledger;
}

function isSound({ secret, saved, accounts, requests }) {
  return (
    /^[0-9a-f]{64}$/.test(secret) &&
    Number.isSafeInteger(saved) &&
    typeof accounts === "object" &&
    Array.isArray(requests) &&
    requests.every(
      ({ account, parts }) =>
        Object.hasOwn(accounts, account) &&
        parts.every(
          ({ event }) =>
            event.kind === "gaussian" &&
            event.mu >= 0 &&
            Number.isFinite(event.mu) &&
            Number.isSafeInteger(event.touched) &&
            event.touched >= 1 &&
            event.steps === STEPS_PER_SIGMA,
        ),
    )
  );
}

// The terms of an account, or null where nothing was ever charged to it.
export function accountNamed({ accounts }, name) {
  return Object.hasOwn(accounts, name) ? accounts[name] : null;
}

// A key for each purpose, the same as long as this ledger is kept. Sketches name the account by one.
export function secretFor(ledger, purpose) {
  return hmacHex(bytesOfHex(ledger.secret), `saibot ${purpose}`);
}

export function identityOf(ledger, card) {
  return hmacHex(bytesOfHex(ledger.secret), canonicalJson(cardDocument(card)));
}

// The finished request that asked for the same, or null: its files cost nothing to hand out again.
export function boughtBefore(ledger, card) {
  const release = identityOf(ledger, card);
  return ledger.requests.findLast((one) => one.release === release && one.parts.every(({ receipt }) => receipt)) ?? null;
}

// ------------------------------------------------------------------------------------------------ charging

// The ledger with a charge for this request in it. parts: [{ part, event }]; `again` asks for a new edition, which costs.
// Refuses where the account has other terms, or too little left. Changes nothing itself.
export function charged(ledger, card, parts, { again, now }) {
  const account = accountNamed(ledger, card.name) ?? termsOf(card);
  checkTerms(account, card);
  const split = parts.length > 1 ? hex(randomBytes(4)) : null;
  const earlier = ledger.requests.filter((one) => one.account === card.name);
  const edition = earlier.length === 0 ? 1 : Math.max(...earlier.map((one) => one.edition)) + (again ? 1 : 0);
  const request = {
    number: ledger.requests.length + 1,
    account: card.name,
    edition,
    split,
    release: identityOf(ledger, card),
    asked: { epsilon: plainDecimal(card.epsilon), delta: plainDecimal(card.delta) },
    created: now,
    card: cardDocument(card),
    parts: parts.map(({ part, event }) => ({ part, event, receipt: null })),
  };
  if (!within([...earlier, request], account.cap)) {
    const left = Math.max(
      floatOfDecimal(decimalOf(account.cap.epsilon)) - floatOfDecimal(spentOf(ledger, card.name).epsilon),
      0,
    );
    const about = `about ε = ${Math.floor(left * 1e4) / 1e4} of the cap of ${account.cap.epsilon} is left`;
    throw new Refused(
      `this request needs ε = ${request.asked.epsilon}, and ${about}.`,
      "Ask with a smaller epsilon. The cap was fixed by the first request about these individuals.",
    );
  }
  return {
    ...ledger,
    saved: ledger.saved + 1,
    accounts: { ...ledger.accounts, [card.name]: account },
    requests: [...ledger.requests, request],
  };
}

function termsOf(card) {
  const cap = { epsilon: plainDecimal(card.cap.epsilon), delta: plainDecimal(card.cap.delta) };
  return { neighbours: card.neighbours, unit: card.id, cap };
}

// A charge under other terms than the account's would not add up.
function checkTerms({ neighbours, unit, cap }, card) {
  if (neighbours !== card.neighbours)
    throw new Refused(
      `${card.name} is kept under ${neighbours}; a request under ${card.neighbours} would not add up.`,
      "Choose the same as before, or another name for other individuals.",
    );
  if (unit !== card.id)
    throw new Refused(
      `${card.name} protects ${unit === null ? "rows" : `individuals told apart by ${unit}`}; this request does not.`,
      "Tell individuals apart as before, or choose another name for others.",
    );
  if (cap.epsilon !== plainDecimal(card.cap.epsilon) || cap.delta !== plainDecimal(card.cap.delta)) {
    throw new Refused(
      `${card.name} has the cap ε = ${cap.epsilon}, δ = ${cap.delta}, fixed by its first request.`,
      "Type that cap.",
    );
  }
}

// Everybody is in one part of each split, so of a request the larger part counts; mu^2 and the numbers touched add up.
function totalOf(requests) {
  const largest = (numbers) => Math.max(...numbers);
  const squared = requests.reduce((total, { parts }) => total + largest(parts.map(({ event }) => event.mu * event.mu)), 0);
  return {
    mu: Math.sqrt(squared) * (1 + SURPLUS),
    touched: requests.reduce((total, { parts }) => total + largest(parts.map(({ event }) => event.touched)), 0),
  };
}

function within(requests, cap) {
  const { mu, touched } = totalOf(requests);
  if (touched > MOST_TOUCHED)
    throw new Refused("there are too many requests on this account for this page.", "Use `saibot privatize` from here on.");
  return fits(mu, decimalOf(cap.epsilon), decimalOf(cap.delta), touched);
}

// What all requests of an account come to, as a budget at the cap's delta.
export function spentOf(ledger, name) {
  const requests = ledger.requests.filter((one) => one.account === name), { cap } = accountNamed(ledger, name);
  const { mu, touched } = totalOf(requests), [epsilon, delta] = [decimalOf(cap.epsilon), decimalOf(cap.delta)];
  return { epsilon: requests.length === 0 ? { digits: 0n, exponent: 0 } : epsilonOf(mu, delta, touched, epsilon), delta };
}

// The ledger with receipts for its last request: what was bought. files: [{ part, digest, content }].
export function receipted(ledger, files) {
  const last = ledger.requests.at(-1), size = files.reduce((total, { content }) => total + content.length, 0);
  const parts = last.parts.map((one) => {
    const { digest, content } = files.find(({ part }) => part === one.part);
    return { ...one, receipt: { digest, content: size <= MOST_KEPT ? base64(content) : null } };
  });
  return { ...ledger, saved: ledger.saved + 1, requests: [...ledger.requests.slice(0, -1), { ...last, parts }] };
}

function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

export function bytesOfBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
