"""Texts at which tokenizers differ, and some random ones (always the same)."""
import random, unicodedata

TEXTS = ["", " ", "a", "\n", "  ", "The other weather", " the  other   weather ", "It's THEY'RE we'll don'T ſ'ſ", "x=12345+67;  // ok\n\n\n  if (a) {\n\t\tb();\r\n}  ",
    "naïve e\u0301 A\u030a ﬁ Ω x\u0300\u0301 ½ ²", "Быстрая ΣΊΣΥΦΟΣ ǅ İ", "漢字かなカナ한국어 混ざった12漢34", "तेज़ भूरी १२३४ שָׁלוֹם", "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🤖🤖🤖", "\u00a0\u2003\u200b\u0085\u3000\ufeff",
    "HTTPServerError CamelCase 'quoted' it''s", "!!!??...,,;;--__++==//\\\\||<<>>", "<s> </s> <unk> <pad> <mask> [CLS]", "<|im_start|>user\nHi<|im_end|>", "a<mask>b <mask> c  <mask>  d", "wordtool tool tool- atool",
    "<tool_call>x</tool_call>", "É<acute> é<acute>", "<|im_start|><|im_end|><|im_start|> <|im_end|>", "a" * 100, " " * 70, "ab" * 60, "\n" * 40, "z\u0000\u0001\u007fz", "\U000e0001\U0010ffff\ue000", "<0x41><0x-1><0xGG>", "▁a▁▁b", "ĠtheĊ", "##ing the ##", "1,234,567.89 0x1F"]

def texts():
    r = random.Random(7)
    pools = [(0x20, 0x7f), (0xa0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xd80), (0x2000, 0x2070), (0x3040, 0x3100), (0x4e00, 0x9fa0), (0xac00, 0xd7a3), (0x1f300, 0x1f650)]
    out = list(TEXTS)
    def pick():  # only what is assigned in every version of Unicode at hand
        while unicodedata.category(c := chr(r.randrange(*r.choice(pools)))) == "Cn": pass
        return c
    for _ in range(16):
        out.append("".join(r.choice([pick(), r.choice("  \n\t'.<e t"), r.choice(["the ", "ing", "<s>", "<mask>", "tool", "12"])]) for _ in range(r.randint(1, 40))))
    return out
