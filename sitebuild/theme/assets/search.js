// Full text search over the sections of the guide, in the browser: BM25 with headings counted several times, endings of words
// left off, and the last word taken as a beginning. `guideSections` is [[url, part, title, heading, text], ...].

// Words that every section has are not looked for, and what most readers want comes before what few do.
const SEARCH_EMPTY = new Set("a an and are as at be by can do does for from how i if in is it my of on or that the this to what when which who with you your".split(" "));
const SEARCH_PARTS = [["Reference › Python", 0.55], ["Explanation › Proofs", 0.6], ["Reference", 0.85], ["Explanation", 0.95]];
const SEARCH_SPOKEN = { "ε": "epsilon", "δ": "delta", "μ": "mu", "σ": "sigma" }; // pages write the letter, readers type the name
const SEARCH_WORD = /[\p{L}\p{N}]+(?:[-_.'’][\p{L}\p{N}]+)*/gu;

function wordStem(word) {
  const plain = SEARCH_SPOKEN[word.toLowerCase()] ?? word.toLowerCase().replace(/['’]s$/, "");
  if (plain.length < 5) return plain.replace(/(?<=..[^s])s$/, "");
  return plain.replace(/(?:is|iz)(?:e|es|ed|ing|ation|ations)$/, "is").replace(/(?:ies|ied)$/, "y").replace(/(?:ings?|ed|es|s|e)$/, "");
}

function splitAtTerms(text, terms) {
  // Pieces of the text; those at odd places are words that were looked for.
  const pieces = [""];
  let end = 0;
  for (const match of text.matchAll(SEARCH_WORD)) {
    const stem = wordStem(match[0]);
    if (!terms.some((term, i) => stem === term || (i === terms.length - 1 && stem.startsWith(term)))) continue;
    pieces[pieces.length - 1] += text.slice(end, match.index);
    pieces.push(match[0], "");
    end = match.index + match[0].length;
  }
  pieces[pieces.length - 1] += text.slice(end);
  return pieces;
}

class GuideIndex {
  constructor(sections) {
    this.sections = sections;
    this.postings = new Map();
    this.lengths = sections.map(([, part, title, heading, text], place) => {
      let length = 0;
      const counts = new Map();
      for (const [words, weight] of [[text, 1], [heading, 6], [title, 3], [part, 1]]) {
        for (const [word] of words.matchAll(SEARCH_WORD)) {
          for (const piece of new Set([word, ...word.split(/[-_.]/)])) {
            const stem = wordStem(piece);
            counts.set(stem, (counts.get(stem) ?? 0) + weight);
          }
          if (weight === 1) length += 1;
        }
      }
      for (const [stem, count] of counts) {
        if (!this.postings.has(stem)) this.postings.set(stem, new Map());
        this.postings.get(stem).set(place, count);
      }
      return length;
    });
    this.mean = this.lengths.reduce((sum, length) => sum + length, 0) / this.lengths.length;
    this.words = [...this.postings.keys()].sort();
  }

  matches(term, begins) {
    // Section -> count, for a word, and for all words that begin so where it may not be finished yet.
    const exact = this.postings.get(term);
    if (!begins) return exact ?? new Map();
    const all = new Map(exact ?? []);
    for (const word of this.words) {
      if (word === term || !word.startsWith(term)) continue;
      for (const [place, count] of this.postings.get(word)) all.set(place, (all.get(place) ?? 0) + count / 2);
    }
    return all;
  }

  search(words, most) {
    const asked = [...words.matchAll(SEARCH_WORD)].map(([word]) => word.toLowerCase());
    const full = asked.filter((word) => !SEARCH_EMPTY.has(word));
    const terms = (full.length ? full : asked).map(wordStem);
    const scores = new Map(), seen = new Map();
    terms.forEach((term, i) => {
      const found = this.matches(term, i === terms.length - 1);
      const rarity = Math.log(1 + (this.sections.length - found.size + 0.5) / (found.size + 0.5));
      for (const [place, count] of found) {
        const length = 0.4 + 0.6 * this.lengths[place] / this.mean;
        scores.set(place, (scores.get(place) ?? 0) + rarity * count * 2.2 / (count + 1.2 * length));
        seen.set(place, (seen.get(place) ?? 0) + 1);
      }
    });
    const found = [...scores].map(([place, score]) => [place, score * (seen.get(place) / terms.length) ** 2 * this.weight(place, terms)])
      .sort((a, b) => b[1] - a[1]).slice(0, most)
      .map(([place]) => {
        const [url, part, title, heading, text] = this.sections[place];
        return { url, part, title, heading, excerpt: this.excerpt(text, terms) };
      });
    return { terms, found };
  }

  weight(place, terms) {
    const [url, part, title, heading] = this.sections[place];
    const [, usual] = SEARCH_PARTS.find(([start]) => part.startsWith(start)) ?? ["", 1];
    const telling = [...heading.matchAll(SEARCH_WORD)].filter(([word]) => !SEARCH_EMPTY.has(word.toLowerCase()));
    const headed = new Set(telling.map(([word]) => wordStem(word)));
    const said = terms.filter((term) => headed.has(term)).length / terms.length; // how much of the question the heading says
    const told = headed.size ? terms.filter((term) => headed.has(term)).length / headed.size : 0; // and of the heading the question
    return (url.includes("changelog") ? 0.4 : usual) * (1 + 0.8 * said * told);
  }

  excerpt(text, terms) {
    const pieces = splitAtTerms(text, terms);
    const first = pieces.length > 1 ? pieces[0].length : 0;
    const start = first > 60 ? text.lastIndexOf(" ", first - 40) + 1 : 0;
    return (start ? "… " : "") + text.slice(start, start + 160) + (text.length > start + 160 ? " …" : "");
  }
}
