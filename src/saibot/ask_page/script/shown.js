// What the page shows: the ledger, the plan of a request, the content of its files. All of it is public or paid for.

import { canonicalJson } from "./canonical_json.js";
import { capital, details, element, saveButton, tableOfRows } from "./dom.js";
import { accountNamed, bytesOfBase64, spentOf } from "./ledger.js";
import { plainDecimal } from "./numbers.js";
import { noiseOf } from "./plan.js";
import { grouped, told } from "./refused.js";

const SKETCH = "application/octet-stream";
const ROWS_SHOWN = 1000;
const PARTS = { train: "training", test: "test" };
const STATISTICS = {
  key0: "rows of each key",
  key1: "sums of each key",
  global0: "rows of the table",
  global1: "sums of the table",
  global2: "products of the table",
};

export function shownLedger(ledger) {
  const names = Object.keys(ledger.accounts);
  if (names.length === 0) {
    return [
      element(
        "div",
        { class: "note" },
        element("strong", {}, "A new ledger."),
        "Nothing has been charged to it. What was spent elsewhere it cannot know.",
      ),
    ];
  }
  const rows = names.map((name) => {
    const { cap, unit } = accountNamed(ledger, name), spent = plainDecimal(spentOf(ledger, name).epsilon);
    const count = ledger.requests.filter(({ account }) => account === name).length;
    return [name, unit === null ? "rows" : `by ${unit}`, count, `ε = ${spent}`, `ε = ${cap.epsilon}, δ = ${told(cap.delta)}`];
  });
  return [tableOfRows("What your requests have spent", ["Table", "Protects", "Requests", "Spent", "Cap"], rows)];
}

export function shownPlan({ card, releases }) {
  const digits = (number) => Number(number.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
  const rows = releases[0].plan.blocks.map((block, i) => [
    capital(STATISTICS[block.scope + block.order]), ...releases.map(({ plan }) => digits(noiseOf(plan.blocks[i], 1))),
  ]);
  const counts = releases.flatMap(({ plan }) =>
    plan.request.rows === null ? [] : [grouped(plan.request.rows)],
  );
  const budget = `ε = ${plainDecimal(card.epsilon)}, δ = ${told(plainDecimal(card.delta))}`;
  const many = counts.length > 0 ? ` of ${counts.join(" and ")} rows` : "";
  const held = releases.length > 1 ? `Two sketches, of a training and a test part${many}.` : `One sketch${many}.`;
  return [
    element(
      "p",
      {},
      `${held} Each protects ${card.individual} with ${budget}${releases.length > 1 ? "; nobody is in both" : ""}.`,
    ),
    element(
      "p",
      { class: "small muted" },
      "Standard deviation of the noise, where a feature goes from −1 to 1 between its bounds:",
    ),
    tableOfRows(
      "Noise of every statistic",
      ["Statistic", ...releases.map(({ name }) => `${capital(PARTS[name])} part`)],
      rows,
    ),
    ...releases.map(({ name, header }) =>
      details(
        `All that the ${PARTS[name]} sketch will say about itself`,
        element("pre", { class: "json", tabindex: "0" }, element("code", {}, indented(header))),
      ),
    ),
    element(
      "p",
      { class: "small muted" },
      "Beside this a sketch holds its key list and the noisy numbers, which do not exist yet.",
    ),
  ];
}

function indented(header) {
  return JSON.stringify(JSON.parse(canonicalJson(header)), null, 1);
}

// Files of a request that was just paid for. `saved` hears the name of each that was asked for.
export function shownFiles({ files, card, ledgerFile, cardFile }, saved) {
  const button = (words, name, content, type, look) => saveButton(words, name, content, type, () => saved(name), look);
  const sketches = files.map(({ part, content }) =>
    button(`Save the ${PARTS[part]} sketch`, `${card.name}-${part}.saibot`, content, SKETCH),
  );
  return [
    element(
      "p",
      {},
      "These files may be sent to anybody. On the platform's page Ask, choose the training sketch, the held-out (test) " +
        "sketch and the target.",
    ),
    element(
      "div",
      { class: "files" },
      ...sketches,
      button("Save the ledger with its receipt", ledgerFile.name, ledgerFile.content, "application/json", "button quiet"),
      button("Save the card for the command line", cardFile.name, cardFile.content, "text/plain", "button quiet"),
    ),
    element(
      "p",
      { class: "small muted" },
      "The ledger with its receipt hands the same sketches out again, free of charge. Keep it instead of the one before; " +
        "it stays with you.",
    ),
    ...files.map((file) =>
      details(
        `All that is in the ${PARTS[file.part]} sketch`,
        element(
          "p",
          { class: "small" },
          `${grouped(file.content.length)} bytes, digest `,
          element("code", {}, file.digest),
        ),
        element(
          "pre",
          { class: "json", tabindex: "0" },
          element("code", {}, JSON.stringify(JSON.parse(file.text), null, 1)),
        ),
        ...shownKeys(file),
      ),
    ),
  ];
}

function shownKeys({ part, keys, names, released }) {
  if (keys.length === 0) return [];
  const number = (value) => value.toFixed(3).replace("-", "−");
  const rows = keys.slice(0, ROWS_SHOWN).map((key, k) => [key, ...released.map((column) => number(column[k]))]);
  const more =
    keys.length > ROWS_SHOWN
      ? [element("p", { class: "small muted" }, `And ${grouped(keys.length - ROWS_SHOWN)} keys more.`)]
      : [];
  const heads = names.map((name) => (name === "c" ? "Rows" : `Sum of ${name.slice("s:".length)}`));
  return [
    element("p", { class: "small muted" }, "Every feature goes from −1 to 1 between its bounds, as it does in the sums:"),
    tableOfRows(`Noisy numbers of the ${PARTS[part]} sketch`, ["Key", ...heads], rows), ...more,
  ];
}

// A request that was bought before, with its files where the ledger has them.
export function shownBought(request, saved) {
  const name = (part) => `${request.account}-${part}.saibot`;
  const kept = request.parts.filter(({ receipt }) => receipt.content !== null);
  return [
    element(
      "div",
      { class: "note good" },
      element("strong", {}, `This very request was bought on ${request.created.slice(0, 10)}.`),
      "Its sketches cost nothing to hand out again, whatever has become of the table since. For new ones, tick " +
        "“A new edition” above: that is charged.",
    ),
    element(
      "div",
      { class: "files" },
      ...kept.map(({ part, receipt }) =>
        saveButton(`Save the ${PARTS[part]} sketch`, name(part), bytesOfBase64(receipt.content), SKETCH, () =>
          saved(name(part)),
        ),
      ),
    ),
    ...(kept.length === request.parts.length
      ? []
      : [
          element(
            "p",
            {},
            "They are too large for the ledger; look for the files ",
            ...request.parts.flatMap(({ part, receipt }) => [
              element("code", {}, `${name(part)} (${receipt.digest.slice(0, 12)}…)`),
              " ",
            ]),
          ),
        ]),
  ];
}
