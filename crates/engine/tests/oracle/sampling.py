"""Expected values for the sampler's tests, from the definitions in the papers, in float64, without any of the shortcuts.

    python sampling.py > ../data/sampling.json

Needs numpy. Everything is sorted whole and compared one by one; only the order of the steps and the meaning of ties (the lower
id first) are taken from the crate's documentation.
"""

import json
import sys

import numpy as np

M = 2**64 - 1


class Rng:
    """xoshiro256++ seeded by SplitMix64, after prng.di.unimi.it."""

    def __init__(self, seed):
        self.s = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & M
            z = seed
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
            self.s.append(z ^ (z >> 31))

    def next(self):
        rotl = lambda x, k: ((x << k) | (x >> (64 - k))) & M
        s = self.s
        result = (rotl((s[0] + s[3]) & M, 23) + s[0]) & M
        t = (s[1] << 17) & M
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)
        return result

    def unit(self):
        return (self.next() >> 11) / 2**53


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def by_probability(ids, logits):
    return sorted(ids, key=lambda i: (-logits[i], i))


def penalties(logits, tokens, p):
    n = p["repeat_last_n"]
    seen = tokens if n is None else tokens[max(0, len(tokens) - n) :]
    for t in sorted(set(seen)):
        if logits[t] > 0:
            logits[t] /= p["repeat_penalty"]
        else:
            logits[t] *= p["repeat_penalty"]
        logits[t] -= p["presence_penalty"] + p["frequency_penalty"] * seen.count(t)


def dry(logits, tokens, pieces, p):
    """For every token that could follow, the longest repetition that it would prolong, by comparing every pair of places."""
    if p["dry_multiplier"] == 0:
        return
    n = p["dry_penalty_last_n"]
    lo = 0 if n is None else max(0, len(tokens) - n)
    # A token is a barrier if some breaker ends in it.
    text, ends = "", []
    for t in tokens:
        text += pieces[t]
        ends.append(len(text))
    barrier = []
    for k in range(len(tokens)):
        begin = ends[k - 1] if k else 0
        barrier.append(
            any(text[:e].endswith(b) for b in p["dry_sequence_breakers"] for e in range(begin + 1, ends[k] + 1))
        )
    longest = {}
    for nxt in range(lo + 1, len(tokens)):
        length = 0
        while True:
            a, b = nxt - 1 - length, len(tokens) - 1 - length
            if a < lo or tokens[a] != tokens[b] or barrier[b]:
                break
            length += 1
        longest[tokens[nxt]] = max(longest.get(tokens[nxt], 0), length)
    for t, length in longest.items():
        if length >= p["dry_allowed_length"]:
            logits[t] -= p["dry_multiplier"] * p["dry_base"] ** (length - p["dry_allowed_length"])


def edit(logits, tokens, pieces, p):
    x = np.array(logits, dtype=np.float64)
    for t, b in dict(map(tuple, p["logit_bias"])).items():
        x[t] += b
    penalties(x, tokens, p)
    dry(x, tokens, pieces, p)
    return x


def truncate(x, p, unit=None):
    ids = by_probability([i for i in range(len(x)) if x[i] > -np.inf], x)
    share = lambda: dict(zip(ids, softmax(x[ids])))
    if p["top_n_sigma"] > 0:
        floor = x[ids].max() - p["top_n_sigma"] * x[ids].std()
        ids = [i for i in ids if x[i] >= floor]
    if p["top_k"] > 0:
        ids = ids[: p["top_k"]]
    if p["typical_p"] < 1:
        q = share()
        entropy = -sum(v * np.log(v) for v in q.values())
        order = sorted(ids, key=lambda i: abs(-np.log(q[i]) - entropy))
        total, kept = 0.0, []
        for i in order:
            kept.append(i)
            total += q[i]
            if total >= p["typical_p"]:
                break
        ids = by_probability(kept, x)
    if p["top_p"] < 1:
        q = share()
        total, kept = 0.0, []
        for i in ids:
            kept.append(i)
            total += q[i]
            if total >= p["top_p"]:
                break
        ids = kept
    if p["min_p"] > 0:
        q = share()
        best = max(q.values())
        ids = [i for i in ids if q[i] >= p["min_p"] * best]
    if unit is not None and unit < p["xtc_probability"] and p["xtc_threshold"] <= 0.5:
        q = share()
        above = [i for i in ids if q[i] >= p["xtc_threshold"]]
        if len(above) >= 2:
            ids = [i for i in ids if i not in above[:-1]]
    return ids


def distribution(logits, tokens, pieces, p):
    x = edit(logits, tokens, pieces, p)
    ids = truncate(x, p, unit=0.0)
    q = softmax(x[ids] / p["temperature"])
    return [[int(i), float(v)] for i, v in sorted(zip(ids, q)) if v > 0]


def mirostat_tokens(rows, p, seed):
    """The tokens and the final mu of a run over rows of logits."""
    rng, mu, out = Rng(seed), 2 * p["mirostat_tau"], []
    for row in rows:
        q = softmax(np.array(row, dtype=np.float64) / p["temperature"])
        kept = [i for i in range(len(q)) if -np.log2(q[i]) <= mu] or [int(np.argmax(q))]
        w = q[kept] / q[kept].sum()
        target, chosen = rng.unit(), len(kept) - 1
        for j, v in enumerate(w):
            if target < v:
                chosen = j
                break
            target -= v
        out.append(kept[chosen])
        mu -= p["mirostat_eta"] * (-np.log2(w[chosen]) - p["mirostat_tau"])
    return out, mu


def plain_tokens(rows, p, seed):
    """The tokens of a run without truncation, drawn in the order of ids."""
    rng, out = Rng(seed), []
    for row in rows:
        q = softmax(np.array(row, dtype=np.float64) / p["temperature"])
        out.append(int(np.searchsorted(np.cumsum(q), rng.unit(), side="right")))
    return out


DEFAULT = {
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "top_n_sigma": 0.0,
    "repeat_penalty": 1.0,
    "repeat_last_n": 64,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": None,
    "dry_sequence_breakers": ["\n", ":", '"', "*"],
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "logit_bias": [],
}

# Breakers whole, in pieces, and inside longer tokens.
PIECES = ["a", "b", "c", "d", "\n", "#", "##", "x#", "e\nf", "g"] + [f" t{i}" for i in range(30)]


def main():
    g = np.random.default_rng(20261202)
    n = len(PIECES)
    f32 = lambda a: [float(np.float32(v)) for v in np.asarray(a)]
    row = lambda scale=2.5: [round(float(v), 4) for v in g.normal(0, scale, n)]
    cases = []

    def case(name, logits=None, tokens=(), **params):
        p = {**DEFAULT, **params}
        logits = row() if logits is None else logits
        tokens = list(map(int, tokens))
        expected = distribution(f32(logits), tokens, PIECES, p)
        cases.append({"name": name, "logits": logits, "tokens": tokens, "params": params, "expected": expected})

    case("plain")
    for t in [0.1, 0.7, 1.5, 3.0]:
        case("temperature", temperature=t)
    for k in [1, 2, 7, 39, 40, 1000]:
        case("top_k", top_k=k)
    case("top_k with ties", logits=[1.0] * n, top_k=5)
    case("top_k with ties", logits=[float(i % 3) for i in range(n)], top_k=15)
    for v in [0.001, 0.3, 0.75, 0.95, 0.999]:
        case("top_p", top_p=v)
        case("typical_p", typical_p=v)
    case("top_p with ties", logits=[0.0] * n, top_p=0.5001)
    for v in [0.01, 0.05, 0.3, 1.0]:
        case("min_p", min_p=v)
    for v in [0.5, 1.0, 2.0]:
        case("top_n_sigma", top_n_sigma=v)
    case("top_n_sigma with a ban", top_n_sigma=1.5, logit_bias=[[3, float("-inf")], [4, 2.0]])
    peaks = [0.0] * n
    peaks[3], peaks[9], peaks[30] = 5.0, 4.5, 4.6
    case("xtc", logits=peaks, xtc_probability=1.0, xtc_threshold=0.1)
    case("xtc of one", logits=peaks, xtc_probability=1.0, xtc_threshold=0.4)
    case("xtc above a half", logits=peaks, xtc_probability=1.0, xtc_threshold=0.6)
    case("xtc with ties", logits=[3.0, 3.0, 3.0] + [0.0] * (n - 3), xtc_probability=1.0, xtc_threshold=0.2)
    case("bias", logit_bias=[[0, 3.0], [5, float("-inf")], [7, -1.5], [0, 1.0]])
    history = g.integers(0, n, 30)
    for last in [None, 0, 5, 64]:
        case("repetition", tokens=history, repeat_penalty=1.3, repeat_last_n=last)
        case("presence", tokens=history, presence_penalty=0.8, repeat_last_n=last)
        case("frequency", tokens=[*history, 3, 3, 3, 17], frequency_penalty=0.4, repeat_last_n=last)
    case("all penalties", tokens=history, repeat_penalty=0.8, presence_penalty=-0.5, frequency_penalty=0.25, repeat_last_n=12)
    small = {"dry_multiplier": 0.8, "dry_base": 1.75}
    case("dry", tokens=[0, 1, 2, 3, 0, 1, 2], **small)
    case("dry too short", tokens=[0, 1, 2, 3, 1, 2][:5], **small)
    case("dry overlapping", tokens=[0] * 9, **small)
    case("dry last n", tokens=[0, 1, 2, 3, 9, 9, 1, 2, 0, 1, 2], **small, dry_penalty_last_n=6)
    case("dry breaker", tokens=[0, 1, 4, 2, 3, 0, 1, 4, 2], **small, dry_allowed_length=1)
    case("dry breaker at the end", tokens=[0, 1, 4, 2, 0, 1, 4], **small, dry_allowed_length=1)
    case("dry breaker inside", tokens=[0, 8, 1, 2, 3, 0, 8, 1, 2], **small)
    split = {"dry_sequence_breakers": ["##"], "dry_allowed_length": 1}
    case("dry breaker in pieces", tokens=[0, 5, 5, 2, 3, 9, 0, 5, 5, 2], **small, **split)
    case("dry breaker in pieces", tokens=[7, 5, 2, 3, 9, 7, 5, 2], **small, **split)
    case("dry no breaker", tokens=[0, 7, 2, 3, 9, 0, 7, 2], **small, **split)
    for i in range(60):
        case(
            "random dry",
            tokens=g.integers(0, [3, 6, 9][i % 3], int(g.integers(1, 60))),
            dry_multiplier=round(float(g.uniform(0.1, 2)), 3),
            dry_base=round(float(g.uniform(1, 2)), 3),
            dry_allowed_length=int(g.integers(1, 4)),
            dry_penalty_last_n=[None, 7, 40][int(g.integers(0, 3))],
            dry_sequence_breakers=[["\n", "#"], ["##"], ["ab", "x##"], []][int(g.integers(0, 4))],
        )
    for i in range(120):
        maybe = lambda a, off: a if g.random() < 0.5 else off
        case(
            "random chain",
            tokens=g.integers(0, 10, int(g.integers(0, 40))),
            temperature=round(float(g.uniform(0.2, 2)), 3),
            top_k=maybe(int(g.integers(1, 30)), 0),
            top_p=maybe(round(float(g.uniform(0.2, 1)), 3), 1.0),
            min_p=maybe(round(float(g.uniform(0.001, 0.3)), 4), 0.0),
            typical_p=maybe(round(float(g.uniform(0.2, 1)), 3), 1.0),
            top_n_sigma=maybe(round(float(g.uniform(0.3, 3)), 3), 0.0),
            repeat_penalty=maybe(round(float(g.uniform(0.8, 1.5)), 3), 1.0),
            repeat_last_n=[None, 0, 3, 20][int(g.integers(0, 4))],
            presence_penalty=maybe(round(float(g.uniform(-1, 2)), 3), 0.0),
            frequency_penalty=maybe(round(float(g.uniform(-1, 2)), 3), 0.0),
            dry_multiplier=maybe(0.8, 0.0),
            xtc_probability=maybe(1.0, 0.0),
            xtc_threshold=round(float(g.uniform(0.02, 0.5)), 3),
            logit_bias=maybe([[int(g.integers(0, n)), 2.0], [int(g.integers(0, n)), float("-inf")]], []),
        )

    runs = []
    for seed in [0, 1, 2**64 - 1, 20261202]:
        rows = [row(1.5) for _ in range(40)]
        exact = [f32(r) for r in rows]
        for params in [{}, {"temperature": 0.6}]:
            runs.append({"seed": seed, "params": params, "rows": rows, "tokens": plain_tokens(exact, {**DEFAULT, **params}, seed)})
        for tau, eta in [(3.0, 0.1), (1.0, 0.5), (6.0, 1.0)]:
            params = {"mirostat": 2, "mirostat_tau": tau, "mirostat_eta": eta, "temperature": 0.9}
            tokens, mu = mirostat_tokens(exact, {**DEFAULT, **params}, seed)
            runs.append({"seed": seed, "params": params, "rows": rows, "tokens": tokens, "mu": mu})

    infinite = lambda o: (
        {k: infinite(v) for k, v in o.items()}
        if isinstance(o, dict)
        else [infinite(v) for v in o]
        if isinstance(o, list)
        else "-inf"
        if o == float("-inf")
        else o
    )
    rng = Rng(1234567)
    out = {"pieces": PIECES, "random": [rng.next() for _ in range(5)], "cases": cases, "runs": runs}
    json.dump(infinite(out), sys.stdout, separators=(",", ":"))


main()
