// Days, weeks, months and hours in text: which key of a calendar a day or a time belongs to. As saibot/domains/times.py.

const DAY = /^[0-9]{4}-[0-9]{2}-[0-9]{2}(?![^ T])/;
const HOUR = /^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[ T])?([01][0-9]|2[0-3]):[0-5][0-9](?:$|:)/;

// The number of a day, 2000-03-01 being 0; null where there is no such day. Years begin in March, so that leap days are
// last.
export function dayNumber(text) {
  const found = /^([0-9]{4})-([0-9]{2})-([0-9]{2})$/.exec(text);
  if (found === null) return null;
  const [year, month, day] = found.slice(1).map(Number);
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > daysOf(year, month)) return null;
  const shifted = month > 2 ? year : year - 1, inYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  return 365 * (shifted - 2000) + leapDays(shifted) - leapDays(2000) + inYear;
}

export function dayText(number) {
  let year = 2000 + Math.floor(number / 365.2425);
  const firstOf = (y) => 365 * (y - 2000) + leapDays(y) - leapDays(2000);
  while (firstOf(year + 1) <= number) year += 1;
  while (firstOf(year) > number) year -= 1;
  const inYear = number - firstOf(year), shifted = Math.floor((5 * inYear + 2) / 153);
  const month = ((shifted + 2) % 12) + 1, day = inYear - Math.floor((153 * shifted + 2) / 5) + 1;
  return `${digits(month > 2 ? year : year + 1, 4)}-${digits(month, 2)}-${digits(day, 2)}`;
}

function leapDays(year) {
  return Math.floor(year / 4) - Math.floor(year / 100) + Math.floor(year / 400);
}

function daysOf(year, month) {
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return month === 2 ? (leap ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31;
}

export function digits(number, width) {
  return String(number).padStart(width, "0");
}

// Monday 1 to Sunday 7; 2000-03-01 was a Wednesday.
export function weekday(number) {
  return ((((number + 2) % 7) + 7) % 7) + 1;
}

// 2013-W01: weeks begin on Monday, and the first one of a year holds its first Thursday.
export function weekOf(number) {
  const year = dayText(number - weekday(number) + 4).slice(0, 4);
  const fourth = dayNumber(`${year}-01-04`), first = fourth - weekday(fourth) + 1;
  return `${year}-W${digits(Math.floor((number - first) / 7) + 1, 2)}`;
}

// The day that a week begins with; null where a year has no such week.
export function firstDayOfWeek(week) {
  const found = /^([0-9]{4})-W([0-9]{2})$/.exec(week);
  const fourth = found && dayNumber(`${found[1]}-01-04`);
  if (fourth === null || fourth === undefined) return null;
  const first = fourth - weekday(fourth) + 1 + 7 * (Number(found[2]) - 1);
  return weekOf(first) === week ? first : null;
}

const READINGS = {
  months: (day) => day.slice(0, 7),
  weeks: (day) => weekOf(dayNumber(day)),
  years: (day) => day.slice(0, 4),
  "month-of-year": (day) => String(Number(day.slice(5, 7))),
  weekday: (day) => String(weekday(dayNumber(day))),
};

// How keys of a domain with this id read days and times: a function of the text, or null where they read none.
export function readingOf(id) {
  const kind = kindOf(id);
  if (kind === "hour-of-day") {
    return (text) => {
      const found = HOUR.exec(text);
      return found === null ? text : String(Number(found[1]));
    };
  }
  if (!Object.hasOwn(READINGS, kind)) return null;
  return (text) => {
    const found = DAY.exec(text);
    return found === null || dayNumber(found[0]) === null ? text : READINGS[kind](found[0]);
  };
}

// Whether all times of one day have the same key in the domain with this id.
export function countsDays(id) {
  return id.startsWith("dates:") || Object.hasOwn(READINGS, kindOf(id));
}

function kindOf(id) {
  const [kind, name = ""] = id.split(":");
  return kind === "range" ? name : kind;
}
