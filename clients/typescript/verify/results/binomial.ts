/** Probabilities of binomial laws with all digits kept, by Loader's saddle point expansion (2000). */

const HALF_LOG = Math.log(2 * Math.PI) / 2;
/** A term that is smaller than this share of a sum ends it. */
const NEGLIGIBLE = 1e-18;

/** ln n! less Stirling's approximation of it. */
function stirlingError(n: number): number {
  if (n > 15) {
    const square = n * n;
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n;
  }
  if (n === 0) return 0;
  let factorial = 1;
  for (let each = 2; each <= n; each++) factorial *= each;
  return Math.log(factorial) - (n + 0.5) * Math.log(n) + n - HALF_LOG;
}

/** x·ln(x/m) + m − x, without losing digits where x is near m. */
function deviance(x: number, m: number): number {
  if (Math.abs(x - m) >= 0.1 * (x + m)) return x * Math.log(x / m) + m - x;
  const v = (x - m) / (x + m);
  let sum = (x - m) * v;
  let term = 2 * x * v;
  for (let place = 1; ; place++) {
    term *= v * v;
    const next = sum + term / (2 * place + 1);
    if (next === sum) return sum;
    sum = next;
  }
}

/** Return P(A = x) for a binomial A of n trials; a number too small for a double is 0. */
export function binomialAt(x: number, n: number, p: number): number {
  if (x < 0 || x > n) return 0;
  if (p <= 0) return x === 0 ? 1 : 0;
  if (p >= 1) return x === n ? 1 : 0;
  if (x === 0) return Math.exp(n * Math.log1p(-p));
  if (x === n) return Math.exp(n * Math.log(p));
  const q = 1 - p;
  const exponent =
    stirlingError(n) - stirlingError(x) - stirlingError(n - x) - deviance(x, n * p) - deviance(n - x, n * q);
  return Math.exp(exponent + 0.5 * Math.log(n / (x * (n - x))) - HALF_LOG);
}

/** Return P(A ≥ x). */
export function binomialTail(x: number, n: number, p: number): number {
  if (x <= 0) return 1;
  if (x > n) return 0;
  if (p <= 0) return 0;
  if (p >= 1) return 1;
  const odds = p / (1 - p);
  if (x > n * p) {
    let term = binomialAt(x, n, p);
    let sum = term;
    for (let k = x; k < n && term > NEGLIGIBLE * sum; k++) {
      term *= ((n - k) / (k + 1)) * odds;
      sum += term;
    }
    return Math.min(sum, 1);
  }
  let term = binomialAt(x - 1, n, p);
  let sum = term;
  for (let k = x - 1; k > 0 && term > NEGLIGIBLE * sum; k--) {
    term *= k / (n - k + 1) / odds;
    sum += term;
  }
  return Math.max(0, 1 - sum);
}

/** Return P(A ≥ x) for x from `first` to `last`. */
export function binomialTails(first: number, last: number, n: number, p: number): Float64Array {
  const tails = new Float64Array(last - first + 1);
  let tail = binomialTail(last, n, p);
  for (let x = last; x >= first; x--) {
    tails[x - first] = Math.min(tail, 1);
    tail += binomialAt(x - 1, n, p);
  }
  return tails;
}
