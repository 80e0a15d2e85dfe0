//! Which type each tensor gets.
//!
//! The names are llama.cpp's, and so is what they mean (`llama-quant.cpp`, b6000 and later): most weights take the base type;
//! the output matrix, values, and the way down of the feed-forward take more bits, in some or all layers. What a mix does is
//! said here as a list of rules, the first that fits counting.

use onebit_quants::{
    BF16, F16, F32, IQ1_M, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_NL, IQ4_XS, MXFP4, NVFP4, PQ2_0, PTQ1_0, Q1_0, Q2_0, Q2_K,
    Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, TQ1_0, TQ2_0, WeightType,
};

/// A named way to choose types.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Its name: `Q4_K_M`.
    pub name: &'static str,
    /// llama.cpp's number for it (`general.file_type`), where it has one.
    pub file_type: Option<u32>,
    /// What weights get that no rule names.
    pub base: WeightType,
    rules: &'static [Rule],
}

/// A type for some tensors of some layers.
#[derive(Clone, Copy, Debug)]
struct Rule {
    tensor: &'static str,
    when: When,
    ty: WeightType,
}

/// Layers of a model of `n`.
#[derive(Clone, Copy, Debug)]
enum When {
    All,
    /// The first `n / d`.
    First(usize),
    /// So many at the start.
    Start(usize),
    /// The first and last eighth, and every third between.
    MoreBits,
    /// Heads that share keys and values, four or more to one.
    Grouped,
    /// Without importance.
    Unweighted,
    /// The first `n / d`, without importance.
    FirstUnweighted(usize),
    /// Not in the first and last eighth.
    Middle,
}

/// What a choice depends on besides the tensor's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) layers: usize,
    /// Query heads to one head of keys and values.
    pub(crate) group: usize,
    /// Whether there is an `output.weight`; without it, the embedding is the output matrix.
    pub(crate) untied: bool,
    pub(crate) importance: bool,
}

impl When {
    fn holds(self, layer: Option<usize>, m: &Model) -> bool {
        let (n, i) = (m.layers, layer.unwrap_or(0));
        let first = |d: usize| layer.is_some() && i < n / d;
        match self {
            Self::All => true,
            Self::First(d) => first(d),
            Self::Start(count) => layer.is_some() && i < count,
            Self::MoreBits => layer.is_some() && (i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2),
            Self::Grouped => m.group >= 4,
            Self::Unweighted => !m.importance,
            Self::FirstUnweighted(d) => first(d) && !m.importance,
            Self::Middle => layer.is_some() && i >= n / 8 && i < 7 * n / 8,
        }
    }
}

const fn rule(tensor: &'static str, when: When, ty: WeightType) -> Rule {
    Rule { tensor, when, ty }
}

use When::{All, First, FirstUnweighted, Grouped, Middle, MoreBits, Start, Unweighted};

const OUTPUT: &str = "output";
const EMBEDDING: &str = "token_embd";
const V: &str = "attn_v";
const K: &str = "attn_k";
const Q: &str = "attn_q";
const QKV: &str = "attn_qkv";
const O: &str = "attn_output";
const DOWN: &str = "ffn_down";
const UP: &str = "ffn_up";
const GATE: &str = "ffn_gate";

/// The smallest mixes share what is not the base type: (way down and output of attention with more bits, or not).
macro_rules! smallest {
    ($better:expr, $out:expr) => {
        &[
            rule(OUTPUT, All, Q5_K),
            rule(EMBEDDING, All, Q2_K),
            rule(V, Grouped, Q4_K),
            rule(V, All, $better),
            rule(DOWN, First(8), $better),
            rule(O, All, $out),
        ]
    };
}

macro_rules! plain {
    ($($name:literal $file_type:expr, $ty:ident;)*) => { &[$(Recipe { name: $name, file_type: $file_type, base: $ty, rules: &[] }),*] };
}

/// One type for all weights.
static PLAIN: &[Recipe] = plain! {
    "F32" Some(0), F32; "F16" Some(1), F16; "BF16" Some(32), BF16; "Q8_0" Some(7), Q8_0; "MXFP4" None, MXFP4; "NVFP4" None, NVFP4;
    "Q1_0" None, Q1_0; "Q2_0" None, Q2_0; "PQ2_0" None, PQ2_0; "PTQ1_0" None, PTQ1_0;
};

static MIXES: &[Recipe] = &[
    Recipe { name: "Q4_0", file_type: Some(2), base: Q4_0, rules: &[rule(OUTPUT, All, Q6_K)] },
    Recipe { name: "Q4_1", file_type: Some(3), base: Q4_1, rules: &[rule(OUTPUT, All, Q6_K)] },
    Recipe { name: "Q5_0", file_type: Some(8), base: Q5_0, rules: &[rule(OUTPUT, All, Q6_K)] },
    Recipe { name: "Q5_1", file_type: Some(9), base: Q5_1, rules: &[rule(OUTPUT, All, Q6_K)] },
    Recipe {
        name: "Q2_K",
        file_type: Some(10),
        base: Q2_K,
        rules: &[rule(OUTPUT, All, Q6_K), rule(V, Grouped, Q4_K), rule(V, All, Q3_K), rule(DOWN, All, Q3_K), rule(O, All, Q3_K)],
    },
    Recipe {
        name: "Q2_K_S",
        file_type: Some(21),
        base: Q2_K,
        rules: &[rule(OUTPUT, All, Q6_K), rule(V, Grouped, Q4_K), rule(DOWN, First(8), Q4_K)],
    },
    Recipe { name: "Q3_K_S", file_type: Some(11), base: Q3_K, rules: &[rule(OUTPUT, All, Q6_K)] },
    Recipe {
        name: "Q3_K_M",
        file_type: Some(12),
        base: Q3_K,
        rules: &[
            rule(OUTPUT, All, Q6_K),
            rule(V, Start(2), Q5_K),
            rule(V, All, Q4_K),
            rule(DOWN, First(16), Q5_K),
            rule(DOWN, All, Q4_K),
            rule(O, All, Q4_K),
            rule(QKV, All, Q4_K),
        ],
    },
    Recipe {
        name: "Q3_K_L",
        file_type: Some(13),
        base: Q3_K,
        rules: &[rule(OUTPUT, All, Q6_K), rule(V, All, Q5_K), rule(DOWN, All, Q5_K), rule(O, All, Q5_K), rule(QKV, All, Q4_K)],
    },
    Recipe {
        name: "Q4_K_S",
        file_type: Some(14),
        base: Q4_K,
        rules: &[rule(OUTPUT, All, Q6_K), rule(V, Start(4), Q5_K), rule(DOWN, First(8), Q5_K)],
    },
    Recipe {
        name: "Q4_K_M",
        file_type: Some(15),
        base: Q4_K,
        rules: &[rule(OUTPUT, All, Q6_K), rule(V, MoreBits, Q6_K), rule(DOWN, MoreBits, Q6_K), rule(QKV, All, Q5_K)],
    },
    Recipe { name: "Q5_K_S", file_type: Some(16), base: Q5_K, rules: &[rule(OUTPUT, All, Q6_K)] },
    Recipe {
        name: "Q5_K_M",
        file_type: Some(17),
        base: Q5_K,
        rules: &[rule(OUTPUT, All, Q6_K), rule(V, MoreBits, Q6_K), rule(DOWN, MoreBits, Q6_K), rule(QKV, All, Q6_K)],
    },
    Recipe { name: "Q6_K", file_type: Some(18), base: Q6_K, rules: &[] },
    Recipe { name: "IQ1_S", file_type: Some(24), base: IQ1_S, rules: smallest!(Q2_K, IQ2_XXS) },
    Recipe { name: "IQ1_M", file_type: Some(31), base: IQ1_M, rules: smallest!(Q2_K, IQ2_XXS) },
    Recipe { name: "IQ2_XXS", file_type: Some(19), base: IQ2_XXS, rules: smallest!(Q2_K, IQ2_XXS) },
    Recipe { name: "IQ2_XS", file_type: Some(20), base: IQ2_XS, rules: smallest!(Q2_K, IQ2_XS) },
    Recipe { name: "IQ2_S", file_type: Some(28), base: IQ2_XS, rules: smallest!(IQ3_S, IQ3_S) },
    Recipe { name: "IQ2_M", file_type: Some(29), base: IQ2_S, rules: smallest!(IQ3_S, IQ3_S) },
    Recipe {
        name: "IQ3_XXS",
        file_type: Some(23),
        base: IQ3_XXS,
        rules: &[
            rule(OUTPUT, All, Q5_K),
            rule(EMBEDDING, All, IQ3_S),
            rule(V, Grouped, Q4_K),
            rule(V, Unweighted, IQ3_S),
            rule(K, All, IQ2_S),
            rule(Q, All, IQ2_S),
            rule(DOWN, FirstUnweighted(8), Q4_K),
            rule(DOWN, Unweighted, Q3_K),
            rule(O, All, IQ3_S),
        ],
    },
    Recipe {
        name: "IQ3_XS",
        file_type: Some(22),
        base: IQ3_S,
        rules: &[
            rule(OUTPUT, All, Q6_K),
            rule(V, Grouped, Q4_K),
            rule(K, All, IQ3_XXS),
            rule(Q, All, IQ3_XXS),
            rule(GATE, Middle, IQ3_XXS),
            rule(UP, Middle, IQ3_XXS),
        ],
    },
    Recipe { name: "IQ3_S", file_type: Some(26), base: IQ3_S, rules: &[rule(OUTPUT, All, Q6_K), rule(V, Grouped, Q4_K)] },
    Recipe {
        name: "IQ3_M",
        file_type: Some(27),
        base: IQ3_S,
        rules: &[rule(OUTPUT, All, Q6_K), rule(V, All, Q4_K), rule(DOWN, First(8), Q4_K), rule(O, All, Q4_K), rule(QKV, All, Q4_K)],
    },
    Recipe {
        name: "IQ4_NL",
        file_type: Some(25),
        base: IQ4_NL,
        rules: &[rule(OUTPUT, All, Q6_K), rule(V, Grouped, Q5_K), rule(DOWN, FirstUnweighted(8), Q5_K)],
    },
    Recipe {
        name: "IQ4_XS",
        file_type: Some(30),
        base: IQ4_XS,
        rules: &[rule(OUTPUT, All, Q6_K), rule(V, Grouped, Q5_K), rule(DOWN, FirstUnweighted(8), Q5_K)],
    },
    Recipe { name: "TQ1_0", file_type: Some(36), base: TQ1_0, rules: &[rule(OUTPUT, All, Q6_K), rule(EMBEDDING, All, Q4_K)] },
    Recipe { name: "TQ2_0", file_type: Some(37), base: TQ2_0, rules: &[rule(OUTPUT, All, Q6_K), rule(EMBEDDING, All, Q4_K)] },
];

/// Every recipe.
pub fn recipes() -> impl Iterator<Item = &'static Recipe> {
    MIXES.iter().chain(PLAIN)
}

/// A type for the tensors whose names match: `blk.*.ffn_down=Q6_K`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// A name, `.weight` left out or not, in which `*` stands for anything and `?` for one character.
    pub pattern: String,
    /// What such tensors get.
    pub ty: WeightType,
}

impl Override {
    /// Reads `pattern=TYPE`; an error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((pattern, ty)) = text.split_once('=').filter(|(p, _)| !p.is_empty()) else {
            return Err(format!("`{text}` is not of the form blk.*.ffn_down=Q6_K"));
        };
        match WeightType::by_name(ty).filter(|t| writable(*t)) {
            Some(ty) => Ok(Self { pattern: pattern.to_string(), ty }),
            None => Err(format!("`{ty}` is not a type that 1bit writes")),
        }
    }
    pub(crate) fn matches(&self, name: &str) -> bool {
        glob(self.pattern.as_bytes(), name.as_bytes())
            || name.strip_suffix(".weight").is_some_and(|n| glob(self.pattern.as_bytes(), n.as_bytes()))
    }
}

/// Whether a GGUF file can hold the type, and we can make it.
pub(crate) fn writable(ty: WeightType) -> bool {
    ty.info().encode.is_some() && ty.info().ggml_id.is_some()
}

/// Whether `text` matches a pattern of `*` and `?`, in time linear in both but for the number of stars.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                // The last star takes one more.
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// Matrices that llama.cpp never quantizes, by a part of their names: small, or read as they are.
const KEPT: &[&str] = &["_norm", "ffn_gate_inp", "ssm_conv1d", "ssm_a", "position_embd", "token_types", "attn_rel_b", "shortconv"];

/// Whether a tensor is a weight matrix that recipes apply to.
pub(crate) fn is_weight(name: &str, shape: &[usize]) -> bool {
    shape.len() >= 2 && name.ends_with(".weight") && !KEPT.iter().any(|k| name.contains(k))
}

impl Recipe {
    /// The recipe of a name, ignoring case; a bare K name is its middle mix.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        let name = match name.to_ascii_uppercase().as_str() {
            "Q3_K" => "Q3_K_M".to_string(),
            "Q4_K" => "Q4_K_M".to_string(),
            "Q5_K" => "Q5_K_M".to_string(),
            other => other.to_string(),
        };
        recipes().find(|r| r.name == name)
    }

    /// The type of a tensor, before it is known whether the blocks divide its rows.
    pub(crate) fn choose(&self, name: &str, layer: Option<usize>, model: &Model) -> WeightType {
        let last = name.strip_suffix(".weight").unwrap_or(name).rsplit('.').next().unwrap_or(name);
        let last = last.trim_end_matches("_exps").trim_end_matches("_shexp");
        // A tied embedding is the output matrix too, and gets what that gets.
        let role = if last == EMBEDDING && !model.untied { OUTPUT } else { last };
        let rule = self.rules.iter().find(|r| r.tensor == role && r.when.holds(layer, model));
        let chosen = rule.map_or(self.base, |r| r.ty);
        // The output matrix is never made smaller than the rest.
        if role == OUTPUT && chosen.bits_per_value() < self.base.bits_per_value() { self.base } else { chosen }
    }
}

/// What takes the place of a type whose blocks do not divide the rows.
pub(crate) fn fallback(ty: WeightType) -> WeightType {
    let bits = ty.bits_per_value();
    if ty == TQ1_0 || ty == TQ2_0 {
        Q4_0
    } else if bits < 4.4 {
        IQ4_NL
    } else if bits < 5.4 {
        Q5_0
    } else if bits < 6.4 {
        Q5_1
    } else {
        Q8_0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Model = Model { layers: 32, group: 1, untied: true, importance: false };

    fn types(recipe: &str, tensor: &str, model: &Model) -> Vec<&'static str> {
        let recipe = Recipe::by_name(recipe).unwrap();
        (0..model.layers).map(|i| recipe.choose(&format!("blk.{i}.{tensor}.weight"), Some(i), model).name()).collect()
    }

    /// llama.cpp's own log of a 32-layer Llama in Q4_K_M: Q6_K for `ffn_down` in layers 0-3, then every third, and 28-31.
    #[test]
    fn more_bits_go_where_llama_cpp_puts_them() {
        let six: Vec<usize> = types("Q4_K_M", "ffn_down", &MODEL).iter().enumerate().filter(|t| *t.1 == "Q6_K").map(|t| t.0).collect();
        assert_eq!(six, [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]);
        assert_eq!(types("Q4_K_M", "attn_v", &MODEL), types("Q4_K_M", "ffn_down", &MODEL));
        assert!(types("Q4_K_M", "ffn_up", &MODEL).iter().all(|t| *t == "Q4_K"));
        assert_eq!(types("Q3_K_M", "attn_v", &MODEL)[..3], ["Q5_K", "Q5_K", "Q4_K"]);
        assert_eq!(types("Q4_K_S", "ffn_down", &MODEL)[3..5], ["Q5_K", "Q4_K"]);
    }

    #[test]
    fn groups_ties_and_importance_count() {
        let grouped = Model { group: 4, ..MODEL };
        assert_eq!((types("Q2_K", "attn_v", &MODEL)[0], types("Q2_K", "attn_v", &grouped)[0]), ("Q3_K", "Q4_K"));
        let weighted = Model { importance: true, ..MODEL };
        assert_eq!((types("IQ4_XS", "ffn_down", &MODEL)[0], types("IQ4_XS", "ffn_down", &weighted)[0]), ("Q5_K", "IQ4_XS"));
        let tied = Model { untied: false, ..MODEL };
        let q4 = Recipe::by_name("q4_k").unwrap();
        assert_eq!(q4.choose("token_embd.weight", None, &MODEL).name(), "Q4_K");
        assert_eq!(q4.choose("token_embd.weight", None, &tied).name(), "Q6_K");
        assert_eq!(Recipe::by_name("Q8_0").unwrap().choose("output.weight", None, &MODEL).name(), "Q8_0");
        assert_eq!(types("IQ2_XXS", "ffn_down_exps", &MODEL)[3..5], ["Q2_K", "IQ2_XXS"]);
    }

    #[test]
    fn patterns() {
        let o = |p: &str| Override::parse(&format!("{p}=q6_k")).unwrap();
        assert!(
            o("blk.*.ffn_down").matches("blk.12.ffn_down.weight")
                && o("*").matches("x")
                && o("blk.?.attn_v.weight").matches("blk.1.attn_v.weight")
        );
        assert!(!o("blk.?.attn_v").matches("blk.11.attn_v.weight") && !o("ffn_down").matches("blk.1.ffn_down.weight"));
        assert!(glob(b"a*b*c", b"aXbYbZc") && !glob(b"a*b*c", b"aXbYbZ") && glob(b"", b"") && !glob(b"", b"x"));
        for bad in ["x", "=Q4_0", "a=Q9_9", "a=I8"] {
            assert!(Override::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_unique_and_bases_writable() {
        let mut names: Vec<_> = recipes().map(|r| r.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(recipes().all(|r| writable(r.base) && r.rules.iter().all(|rule| writable(rule.ty))));
    }

    #[test]
    fn blocks_that_do_not_divide_give_way_to_smaller_ones() {
        for (ty, other) in
            [(Q4_K, "Q5_0"), (Q5_K, "Q5_1"), (Q6_K, "Q8_0"), (Q3_K, "IQ4_NL"), (IQ4_XS, "IQ4_NL"), (TQ2_0, "Q4_0"), (IQ1_S, "IQ4_NL")]
        {
            assert_eq!(fallback(ty).name(), other, "{ty}");
        }
    }
}
