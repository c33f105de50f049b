// The published rounds: kept in order, each in its latest revision. Of many, only those that matter
// to a picture of all are here at first; the others are asked for when they are looked at.

/** @typedef {import("./api.js").Round} Round */

export class Rounds {
  constructor() {
    /** @type {Round[]} */
    this.list = [];
    /** What a summary said of the rounds that are not here: reports in all rounds before `beyond`. */
    this.before = { beyond: 0, reporters: 0 };
  }

  /** Reports in all rounds, here or not. */
  get reporters() {
    const later = this.list.slice(this.place(this.before.beyond));
    return later.reduce((total, round) => total + round.reporters, this.before.reporters);
  }

  /** Take note of a summary. @param {Round[]} rounds @param {number} reporters */
  sum(rounds, reporters) {
    this.before = { beyond: (rounds.at(-1)?.round ?? -1) + 1, reporters };
  }

  get length() {
    return this.list.length;
  }

  /** @returns {Round | undefined} */
  get last() {
    return this.list.at(-1);
  }

  /** How many are published, here or not. */
  get published() {
    return this.last ? this.last.round + 1 : 0;
  }

  /** Those from `first` to before `beyond`, as far as they are here. @param {number} first @param {number} beyond */
  within(first, beyond) {
    return this.list.slice(this.place(first), this.place(beyond));
  }

  /**
   * Take up what is new; whether anything was.
   * @param {Round[]} rounds
   */
  merge(rounds) {
    let changed = false;
    for (const round of rounds) {
      const place = this.place(round.round);
      const known = this.list[place];
      if (known?.round !== round.round) this.list.splice(place, 0, round);
      else if (known.revision < round.revision) this.list[place] = round;
      else continue;
      changed = true;
    }
    return changed;
  }

  /** Where a round is, or would be. @param {number} number */
  place(number) {
    let [low, high] = [0, this.list.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.list[middle].round < number) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The round nearest to a number, within the list from `first` on. @param {number} number */
  nearest(number, first = 0) {
    const place = this.place(number);
    const near = this.list
      .slice(Math.max(0, place - 1), place + 1)
      .filter((round) => round.round >= first)
      .sort((a, b) => Math.abs(a.round - number) - Math.abs(b.round - number));
    return near[0];
  }
}

/** Half the width of a round's interval; undefined where nobody reported. @param {Round} round */
export function halfWidth(round) {
  return round.share === null ? undefined : (round.high - round.low) / 2;
}

/** @param {number[]} values */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
