"""What the oracles share: weights on demand, the parts of a decoder in plain PyTorch, and the fixture that they make.

An oracle is a function of (config, weights, ids) that gives the logits, `[tokens, vocabulary]`, of a whole prompt without any cache,
written after the authors' published code. It asks for each weight by the name that published checkpoints have: `w("lm_head.weight",
256, 64)`; the first time, one is drawn and rounded to bfloat16, so that the file holds just what the oracle used.
"""
import json
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

FAMILIES = {}


def family(name, answers=False, states=False, **config):
    """Enters an oracle under the fixture's name, with the model's `config.json`. `answers`: it makes them out of masks. `states`: it
    is an encoder, and gives hidden states."""

    def enter(forward):
        FAMILIES[name] = (config, forward, answers, states)
        return forward

    return enter


class Weights(dict):
    """Random weights, drawn when they are first asked for."""

    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, shape):
        return torch.randn(*shape, generator=self.generator)

    def __call__(self, name, *shape, around=0.0, std=None):
        if name not in self:
            std = std or (0.1 if len(shape) == 1 else 1.4 / math.sqrt(shape[-1]))
            self[name] = (around + std * self.draw(shape)).bfloat16()
        assert self[name].shape == shape, f"{name}: {tuple(self[name].shape)} is not {shape}"
        return self[name].float()

    def linear(self, x, name, out, bias=False):
        return F.linear(x, self(f"{name}.weight", out, x.shape[-1]), self(f"{name}.bias", out) if bias else None)

    def rms_norm(self, x, name, eps):
        return rms(x, eps) * self(f"{name}.weight", x.shape[-1], around=1.0)

    def layer_norm(self, x, name, eps, bias=True):
        weight = self(f"{name}.weight", x.shape[-1], around=1.0)
        return F.layer_norm(x, x.shape[-1:], weight, self(f"{name}.bias", x.shape[-1]) if bias else None, eps)

    def embed(self, ids, name, vocabulary, width):
        return self(f"{name}.weight", vocabulary, width, std=1.0)[ids]


def rms(x, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def frequencies(dims, base):
    return 1.0 / base ** (torch.arange(0, dims, 2).float() / dims)


def turn(x, dims, base=10000.0, pairs=False, f=None, scale=1.0):
    """Turns the first `dims` dimensions of heads `[tokens, heads, head]`: halves, or adjacent `pairs`."""
    f = frequencies(dims, base) if f is None else f
    angle = torch.arange(len(x)).float()[:, None, None] * f
    sin, cos = angle.sin() * scale, angle.cos() * scale
    part, rest = x[..., :dims], x[..., dims:]
    a, b = (part[..., ::2], part[..., 1::2]) if pairs else part.chunk(2, -1)
    a, b = a * cos - b * sin, a * sin + b * cos
    part = torch.stack([a, b], -1).flatten(-2) if pairs else torch.cat([a, b], -1)
    return torch.cat([part, rest], -1)


def causal(tokens):
    return torch.full((tokens, tokens), -math.inf).triu(1)


def attend(q, k, v, bias=None, scale=None, cap=None):
    """Softmax attention of heads `[tokens, heads, head]`; `bias` is added to the scores, the causal mask where there is none."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if cap is None else cap * torch.tanh(scores / cap)
    scores = scores + (causal(len(q)) if bias is None else bias)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1)


def heads(x, n):
    return x.unflatten(-1, (n, -1))


def gated(w, x, gate, up, down, inner, act=F.silu):
    y = act(w.linear(x, gate, inner)) * w.linear(x, up, inner)
    return w.linear(y, down, x.shape[-1])


def mixture(x, chosen, weights, expert):
    """The sum of what the chosen experts of each token make of it."""
    rows = []
    for row, ids, by in zip(x, chosen, weights):
        rows.append(sum(p * expert(int(e), row[None])[0] for e, p in zip(ids, by)))
    return torch.stack(rows)


def make(name, out, seed=1):
    """The fixture, as `docs/adding-an-architecture.md` describes it."""
    config, forward, answers, states = FAMILIES[name]
    w = Weights(seed)
    folder = pathlib.Path(out) / name
    vocabulary = config.get("vocab_size") or config["padded_vocab_size"]
    model = lambda ids: forward(config, w, ids)
    if answers or states:
        first, ids = texts(vocabulary, seed)
        logits = model(ids)
        expected = {"ids_long": ids, "hidden": logits.contiguous(), "embedding": logits.mean(0)}
        if answers:
            expected |= answered(config, lambda ids: model(torch.tensor(ids)), first.tolist())
    else:
        expected = expect(vocabulary, model, seed)
    save(folder, config, w, expected)


def texts(vocabulary, seed, short=6, long=26):
    """A short text and a long one."""
    draw = torch.Generator().manual_seed(seed + 1)
    ids = torch.randint(3, vocabulary, (long,), generator=draw)
    return torch.randint(3, vocabulary, (short,), generator=draw), ids


def expect(vocabulary, model, seed=1, steps=12):
    """What a model makes of two texts, and how it goes on."""
    first, ids = texts(vocabulary, seed)
    # The order in which weights are drawn is the order of the first run.
    logits = model(ids)
    so_far = first
    greedy, margins = [], []
    for _ in range(steps):
        best = model(so_far)[-1].topk(2)
        greedy.append(best.indices[0])
        margins.append(best.values[0] - best.values[1])
        so_far = torch.cat([so_far, best.indices[:1]])
    expected = {"ids_short": first, "ids_long": ids, "logits_short": model(first).contiguous(), "logits_long": logits.contiguous()}
    return expected | {"greedy": torch.stack(greedy), "greedy_margin": torch.stack(margins)}


def answered(config, model, prompt, answer=16):
    """Answers out of masks, in blocks and by times, and all that the model has seen on the way: `[steps, tokens]`."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
    import diffusion

    mask, shifted = config["mask_token_id"], config["model_type"] == "Dream"
    expected = {"prompt": torch.tensor(prompt)}
    for how, make, *rest in (
        ("in_blocks", diffusion.in_blocks, 8, 8, "low_confidence"),
        ("by_times", diffusion.by_times, 10, "entropy"),
        ("by_margin", diffusion.by_times, 5, "margin"),
    ):
        seen = []

        def watched(ids):
            # A step of the schedule may keep nothing.
            if seen[-1:] != [list(ids)]:
                seen.append(list(ids))
            return model(ids)

        expected[f"answer_{how}"] = torch.tensor(make(watched, mask, prompt, answer, *rest, shifted))
        expected[f"seen_{how}"] = torch.tensor(seen)
    return expected


def save(folder, config, w, expected):
    folder.mkdir(parents=True, exist_ok=True)
    save_file({n: t.contiguous() for n, t in w.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    save_file(expected, folder / "expected.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    margin = expected.get("greedy_margin", torch.zeros(1)).min()
    print(f"{folder.name}: least margin {margin:.4f}, {sum(p.stat().st_size for p in folder.iterdir())} bytes")
