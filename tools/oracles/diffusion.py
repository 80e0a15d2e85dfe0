#!/usr/bin/env python3
"""Answers of masked diffusion by a toy model, with greedy settings, as the authors' samplers make them.

    diffusion.py OUT.json

The toy's logits are hashes of everything that it sees. `in_blocks` is `generate` of LLaDA's `generate.py`, `by_times` is `_sample` of
Dream's `generation_utils.py`, both re-expressed for one sequence. Needs PyTorch.
"""
import json
import sys

import torch

WIDTH, MASK, WORD = 48, 47, (1 << 64) - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def toy(tokens):
    """Logits `[tokens, WIDTH]`."""
    whole = 0
    for t in tokens:
        whole = mix((((whole << 5) | (whole >> 59)) & WORD) ^ (t + 1))
    rows = [mix(whole ^ ((p + 1) * 0x9E3779B97F4A7C15 & WORD)) for p in range(len(tokens))]
    return torch.tensor([[(mix(r ^ ((i + 1) << 32)) >> 40) * (8 / (1 << 24)) - 4 for i in range(WIDTH)] for r in rows])


def count(masks, steps):
    return [masks // steps + (i < masks % steps) for i in range(steps)]


def confidences(logits, remasking):
    p = logits.double().softmax(-1)
    guesses = logits.argmax(-1)
    if remasking == "low_confidence":
        return guesses, p.gather(-1, guesses[:, None])[:, 0]
    if remasking == "margin":
        best = p.topk(2).values
        return guesses, best[:, 0] - best[:, 1]
    return guesses, (p * (p + 1e-10).log()).sum(-1)


def keep(x, logits, open_, n, remasking, mask):
    guesses, confidence = confidences(logits, remasking)
    confidence[~open_] = -torch.inf
    for p in confidence.topk(n).indices.tolist():
        x[p] = int(guesses[p])
        assert x[p] != mask, "the mask was guessed"


def in_blocks(model, mask, prompt, answer, steps, block, remasking, shifted):
    x = prompt + [mask] * answer
    steps //= answer // block
    for b in range(answer // block):
        end = len(prompt) + (b + 1) * block
        start = end - block
        for n in count(sum(t == mask for t in x[start:end]), steps):
            logits = model(x)
            logits = torch.cat([logits[:1], logits[:-1]]) if shifted else logits
            keep(x, logits, torch.tensor([t == mask and i < end for i, t in enumerate(x)]), n, remasking, mask)
    return x[len(prompt):]


def by_times(model, mask, prompt, answer, steps, remasking, shifted, eps=1e-3):
    x = prompt + [mask] * answer
    times = torch.linspace(1, eps, steps + 1)
    for i in range(steps):
        open_ = torch.tensor([t == mask for t in x])
        logits = model(x)
        logits = torch.cat([logits[:1], logits[:-1]]) if shifted else logits
        t, s = times[i], times[i + 1]
        masks = open_.sum()
        n = int(masks * (1 - s / t)) if i < steps - 1 else int(masks)
        if n > 0:
            keep(x, logits, open_, n, remasking, mask)
    return x[len(prompt):]


def cases():
    draw = torch.Generator().manual_seed(5)
    for remasking in ("low_confidence", "margin", "entropy"):
        for shifted in (False, True):
            for answer, steps, block in ((8, 8, 8), (12, 6, 4), (16, 8, 8), (16, 4, 16), (10, 10, 5), (6, 12, 3), (12, 7, 0), (16, 16, 0), (9, 40, 0), (20, 5, 0)):
                while True:
                    prompt = torch.randint(2, MASK, (int(torch.randint(1, 9, (1,), generator=draw)),), generator=draw).tolist()
                    try:
                        how = (remasking, shifted)
                        made = in_blocks(toy, MASK, prompt, answer, steps, block, *how) if block else by_times(toy, MASK, prompt, answer, steps, *how)
                        break
                    except AssertionError:
                        continue
                yield dict(prompt=prompt, answer=answer, steps=steps, block=block, remasking=remasking, shifted=shifted, tokens=made)


if __name__ == "__main__":
    rows = [json.dumps(c, separators=(",", ":")) for c in cases()]
    with open(sys.argv[1], "w") as out:
        out.write("[\n" + ",\n".join(rows) + "\n]\n")
    print(len(rows), "answers")
