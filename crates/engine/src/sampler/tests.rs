//! Against values that `tests/oracle/sampling.py` computed from the definitions, and against chance itself.

use super::*;
use crate::{Dry as DryParameters, Mirostat as MirostatParameters};
use serde_json::Value;
use std::collections::BTreeMap;

struct Pieces(Vec<String>);

impl Vocabulary for Pieces {
    fn ends(&self) -> &[u32] {
        &[]
    }
    fn is_special(&self, _: u32) -> bool {
        false
    }
    fn bytes(&self, id: u32) -> &[u8] {
        self.0[id as usize].as_bytes()
    }
}

fn oracle() -> Value {
    serde_json::from_str(include_str!("../../tests/data/sampling.json")).unwrap()
}

fn pieces(oracle: &Value) -> Pieces {
    Pieces(oracle["pieces"].as_array().unwrap().iter().map(|p| p.as_str().unwrap().to_owned()).collect())
}

fn numbers(v: &Value) -> Vec<f32> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

fn ids(v: &Value) -> Vec<u32> {
    v.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect()
}

fn sampling(params: &Value) -> Sampling {
    let mut s = Sampling::default();
    for (name, v) in params.as_object().unwrap() {
        let number = v.as_f64().unwrap_or(0.0) as f32;
        let count = v.as_u64().unwrap_or(0) as usize;
        match name.as_str() {
            "temperature" => s.temperature = number,
            "top_k" => s.top_k = count,
            "top_p" => s.top_p = number,
            "min_p" => s.min_p = number,
            "typical_p" => s.typical_p = number,
            "top_n_sigma" => s.top_n_sigma = number,
            "repeat_penalty" => s.repeat_penalty = number,
            "repeat_last_n" => s.repeat_last_n = v.as_u64().map(|n| n as usize),
            "presence_penalty" => s.presence_penalty = number,
            "frequency_penalty" => s.frequency_penalty = number,
            "dry_multiplier" => s.dry.multiplier = number,
            "dry_base" => s.dry.base = number,
            "dry_allowed_length" => s.dry.allowed_length = count,
            "dry_penalty_last_n" => s.dry.penalty_last_n = v.as_u64().map(|n| n as usize),
            "dry_sequence_breakers" => {
                s.dry.sequence_breakers = v.as_array().unwrap().iter().map(|b| b.as_str().unwrap().to_owned()).collect();
            }
            "xtc_probability" => s.xtc.probability = number,
            "xtc_threshold" => s.xtc.threshold = number,
            "mirostat" => s.mirostat.mode = count as u8,
            "mirostat_tau" => s.mirostat.tau = number,
            "mirostat_eta" => s.mirostat.eta = number,
            "logit_bias" => {
                let entry = |e: &Value| (e[0].as_u64().unwrap() as u32, e[1].as_f64().map_or(f32::NEG_INFINITY, |b| b as f32));
                s.logit_bias = v.as_array().unwrap().iter().map(entry).collect();
            }
            other => panic!("{other}"),
        }
    }
    s.validate(40).unwrap();
    s
}

/// The probabilities from which [`Sampler::sample`] draws.
fn distribution(sampler: &mut Sampler, logits: &[f32], tokens: &[u32]) -> BTreeMap<u32, f32> {
    let mut edited = Vec::new();
    let mut set = Vec::new();
    let scale = 1.0 / sampler.temperature;
    let logits = sampler.edit(logits, tokens, None, &mut edited);
    let max = softmax::max(logits);
    if !sampler.truncation.apply(logits, max, &mut sampler.rng, &mut set, &mut Vec::new()) {
        collect(logits, |_| true, &mut set);
    }
    normalize(&mut set, scale);
    set.iter().filter(|c| c.p > 0.0).map(|c| (c.id, c.p)).collect()
}

#[test]
fn distributions_are_the_oracles() {
    let oracle = oracle();
    let vocabulary = pieces(&oracle);
    let cases = oracle["cases"].as_array().unwrap();
    assert!(cases.len() > 200);
    for case in cases {
        let (logits, tokens) = (numbers(&case["logits"]), ids(&case["tokens"]));
        let mut sampler = Sampler::new(&sampling(&case["params"]), &[], &tokens, &vocabulary);
        let got = distribution(&mut sampler, &logits, &tokens);
        let want: BTreeMap<u32, f64> =
            case["expected"].as_array().unwrap().iter().map(|e| (e[0].as_u64().unwrap() as u32, e[1].as_f64().unwrap())).collect();
        let context = format!("{} {}", case["name"], case["params"]);
        for id in got.keys().chain(want.keys()) {
            let (Some(p), Some(want)) = (got.get(id).map(|p| f64::from(*p)), want.get(id).copied()) else {
                // What e^-87 and less is, is 0 here and not quite there.
                assert!(want.get(id).is_some_and(|p| *p < 1e-36), "{context}: token {id} is among {got:?} or {want:?} only");
                continue;
            };
            assert!((p - want).abs() <= 2e-5 * want + 1e-30, "{context}: token {id} has {p} instead of {want}");
        }
    }
}

#[test]
fn runs_are_the_oracles() {
    let oracle = oracle();
    let vocabulary = pieces(&oracle);
    let mut rng = Rng::new(1_234_567);
    for want in oracle["random"].as_array().unwrap() {
        assert_eq!(rng.next_u64(), want.as_u64().unwrap());
    }
    for run in oracle["runs"].as_array().unwrap() {
        let sampling = Sampling { seed: run["seed"].as_u64(), ..sampling(&run["params"]) };
        let mut sampler = Sampler::new(&sampling, &[], &[], &vocabulary);
        let mut tokens = Vec::new();
        let mut scratch = Scratch::default();
        for row in run["rows"].as_array().unwrap() {
            let id = sampler.sample(&numbers(row), &tokens, None, &mut scratch).unwrap();
            tokens.push(id);
            sampler.observe(&tokens, &vocabulary);
        }
        assert_eq!(tokens, ids(&run["tokens"]), "{}", run["params"]);
        if let Some(mu) = run["mu"].as_f64() {
            let got = f64::from(sampler.mirostat.unwrap().mu());
            assert!((got - mu).abs() < 1e-3, "{got} {mu}");
        }
    }
}

/// xoshiro256++ from the state 1, 2, 3, 4: the values that its authors' C code gives, and that other implementations test for.
#[test]
fn random_numbers_are_those_of_the_reference() {
    let mut rng = Rng::from_state([1, 2, 3, 4]);
    let got: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
    assert_eq!(got, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    for _ in 0..1000 {
        assert!((0.0..1.0).contains(&rng.unit()));
    }
    assert_ne!(random_seed(), random_seed());
}

/// Pearson's statistic must not be beyond what chance gives once in a million times (Wilson and Hilferty's approximation).
fn assert_fits(sampling: &Sampling, logits: &[f32], tokens: &[u32]) {
    let vocabulary = Pieces(vec!["x".into(); logits.len()]);
    let draws = 20_000;
    let mut sampler = Sampler::new(&Sampling { seed: Some(11), ..sampling.clone() }, &[], tokens, &vocabulary);
    let expected = distribution(&mut sampler.clone(), logits, tokens);
    let mut counts = BTreeMap::<u32, usize>::new();
    let mut scratch = Scratch::default();
    for _ in 0..draws {
        *counts.entry(sampler.sample(logits, tokens, None, &mut scratch).unwrap()).or_default() += 1;
    }
    assert!(counts.keys().all(|id| expected.contains_key(id)), "{sampling:?}");
    let mut statistic = 0.0;
    let mut cells = 0.0;
    let mut rare = (0.0, 0.0);
    for (id, p) in &expected {
        let want = f64::from(*p) * draws as f64;
        let got = counts.get(id).copied().unwrap_or(0) as f64;
        if want < 10.0 {
            rare = (rare.0 + want, rare.1 + got);
        } else {
            statistic += (got - want).powi(2) / want;
            cells += 1.0;
        }
    }
    if rare.0 >= 10.0 {
        statistic += (rare.1 - rare.0).powi(2) / rare.0;
        cells += 1.0;
    }
    let freedom = cells - 1.0f64;
    if freedom < 1.0 {
        return;
    }
    let spread = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - spread + 4.75 * spread.sqrt()).powi(3);
    assert!(statistic < limit, "{sampling:?}: {statistic} with {freedom} degrees of freedom");
}

#[test]
fn draws_follow_the_distributions() {
    // More than one block of the draw over a whole vocabulary, and tokens of every size.
    let logits: Vec<f32> = (0..300u32).map(|i| (i.wrapping_mul(2_654_435_761) % 1000) as f32 * 0.006).collect();
    let tokens: Vec<u32> = (0..30).map(|i| i * i % 50).collect();
    let base = Sampling::default();
    let xtc = |threshold| Xtc { probability: 1.0, threshold };
    for sampling in [
        base.clone(),
        Sampling { temperature: 0.5, ..base.clone() },
        Sampling { temperature: 2.0, top_k: 20, ..base.clone() },
        Sampling { top_p: 0.6, ..base.clone() },
        Sampling { min_p: 0.5, temperature: 1.3, ..base.clone() },
        Sampling { typical_p: 0.5, ..base.clone() },
        Sampling { top_k: 8, xtc: xtc(0.1), ..base.clone() },
        Sampling { top_n_sigma: 0.7, repeat_penalty: 1.5, ..base.clone() },
        Sampling { logit_bias: vec![(299, 5.0), (3, f32::NEG_INFINITY)], ..base.clone() },
    ] {
        assert_fits(&sampling, &logits, &tokens);
    }
}

#[test]
fn xtc_is_done_as_often_as_asked() {
    let logits = [3.0, 2.5, 0.0, 0.0];
    let sampling = Sampling { xtc: Xtc { probability: 0.3, threshold: 0.2 }, seed: Some(5), ..Sampling::default() };
    let mut sampler = Sampler::new(&sampling, &[], &[], &Pieces(vec![]));
    let mut scratch = Scratch::default();
    let draws = 50_000;
    let best = (0..draws).filter(|_| sampler.sample(&logits, &[], None, &mut scratch).unwrap() == 0).count();
    // The best is only there when nothing is excluded.
    let p = 0.7 * 3.0f64.exp() / logits.iter().map(|l| f64::from(*l).exp()).sum::<f64>();
    let deviation = (draws as f64 * p * (1.0 - p)).sqrt();
    assert!((best as f64 - draws as f64 * p).abs() < 5.0 * deviation, "{best} of {draws}, expected {}", p * draws as f64);
}

fn once(sampling: &Sampling, logits: &[f32], tokens: &[u32]) -> Result<u32, EngineError> {
    let vocabulary = Pieces(vec!["x".into(); logits.len()]);
    Sampler::new(sampling, &[], tokens, &vocabulary).sample(logits, tokens, None, &mut Scratch::default())
}

#[test]
fn greedy_takes_the_best_and_the_lower_of_equals() {
    let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
    let mut logits = vec![0.0; 100];
    assert_eq!(once(&greedy, &logits, &[]), Ok(0));
    (logits[70], logits[33], logits[99]) = (2.0, 2.0, 2.0);
    assert_eq!(once(&greedy, &logits, &[]), Ok(33));
    // What comes after step 3 has no part in it.
    let all = Sampling {
        top_k: 3,
        typical_p: 0.1,
        xtc: Xtc { probability: 1.0, threshold: 0.01 },
        mirostat: MirostatParameters { mode: 2, tau: 0.1, eta: 1.0 },
        ..greedy.clone()
    };
    assert_eq!(once(&all, &logits, &[]), Ok(33));
    // What comes before has.
    assert_eq!(once(&Sampling { logit_bias: vec![(70, 0.5)], ..greedy.clone() }, &logits, &[]), Ok(70));
    assert_eq!(once(&Sampling { presence_penalty: 0.5, ..greedy.clone() }, &logits, &[33, 99]), Ok(70));
    let dry = DryParameters { multiplier: 1.0, ..DryParameters::default() };
    assert_eq!(once(&Sampling { dry, ..greedy }, &logits, &[1, 2, 33, 5, 1, 2]), Ok(70));
}

#[test]
fn forbidden_tokens_never_come() {
    let logits = [5.0, 1.0, 0.0];
    let vocabulary = Pieces(vec!["x".into(); 3]);
    for temperature in [0.0, 1.0, 100.0] {
        // A request's own bias cannot bring an end token back.
        let sampling = Sampling { temperature, logit_bias: vec![(0, 50.0), (2, f32::NEG_INFINITY)], ..Sampling::default() };
        let mut sampler = Sampler::new(&sampling, &[0], &[], &vocabulary);
        for _ in 0..200 {
            assert_eq!(sampler.sample(&logits, &[], None, &mut Scratch::default()), Ok(1));
        }
        let mut none = Sampler::new(&sampling, &[0, 1], &[], &vocabulary);
        assert_eq!(none.sample(&logits, &[], None, &mut Scratch::default()), Err(EngineError::NothingLeft));
    }
}

#[test]
fn extremes_neither_panic_nor_leave_the_range() {
    let rows: [&[f32]; 4] = [&[0.0], &[f32::MAX, f32::MIN, 0.0], &[1e-40, -1e-40, 0.0, -0.0], &[-1e30; 5]];
    let s = Sampling::default();
    let settings = [
        Sampling { temperature: f32::MIN_POSITIVE / 4.0, ..s.clone() },
        Sampling { temperature: 100.0, top_k: usize::MAX, ..s.clone() },
        Sampling { top_p: f32::MIN_POSITIVE, ..s.clone() },
        Sampling { min_p: 1.0, ..s.clone() },
        Sampling { typical_p: 1e-9, ..s.clone() },
        Sampling { top_n_sigma: 1e-9, ..s.clone() },
        Sampling { xtc: Xtc { probability: 1.0, threshold: 0.0 }, ..s.clone() },
        Sampling { repeat_penalty: 0.01, presence_penalty: -100.0, frequency_penalty: 100.0, ..s.clone() },
        Sampling { mirostat: MirostatParameters { mode: 2, tau: 1e-6, eta: 1.0 }, ..s.clone() },
        Sampling { mirostat: MirostatParameters { mode: 2, tau: 100.0, eta: 1.0 }, ..s.clone() },
        Sampling { dry: DryParameters { multiplier: 100.0, base: 100.0, allowed_length: 1, ..DryParameters::default() }, ..s },
    ];
    for row in rows {
        for sampling in &settings {
            sampling.validate(row.len()).unwrap();
            let vocabulary = Pieces(vec!["x".into(); row.len()]);
            let mut tokens = vec![0; 300];
            let mut sampler = Sampler::new(sampling, &[], &tokens, &vocabulary);
            let mut scratch = Scratch::default();
            for _ in 0..50 {
                let id = sampler.sample(row, &tokens, None, &mut scratch).unwrap();
                assert!((id as usize) < row.len());
                tokens.push(id);
                sampler.observe(&tokens, &vocabulary);
            }
        }
    }
}

#[test]
fn a_row_with_anything_but_numbers_is_named() {
    assert_eq!(check(&[1.0, 3.0, 2.0], 4), Ok(3.0));
    for (bad, name) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let mut row = vec![0.0; 40];
        row[17] = bad;
        row[20] = bad;
        assert_eq!(check(&row, 4), Err(EngineError::Logits { token: 17, position: 4, value: name.into() }));
    }
}

#[test]
fn logprobs_are_those_of_the_models_own_logits() {
    let logits: Vec<f32> = (0..500).map(|i| ((i * 131) % 500) as f32 * 0.02 - 7.0).collect();
    let total = logits.iter().map(|l| f64::from(*l).exp()).sum::<f64>().ln();
    let mut scratch = Scratch::default();
    let got = report(&logits, softmax::max(&logits), 17, 5, &mut scratch);
    let close = |got: f32, logit: f32| assert!((f64::from(got) - (f64::from(logit) - total)).abs() < 1e-5);
    close(got.logprob, logits[17]);
    assert_eq!(got.top.len(), 5);
    let mut order: Vec<usize> = (0..500).collect();
    order.sort_by(|a, b| logits[*b].partial_cmp(&logits[*a]).unwrap());
    for (top, id) in got.top.iter().zip(order) {
        assert_eq!(top.id as usize, id);
        close(top.logprob, logits[id]);
    }
    assert_eq!(report(&logits, 3.0, 17, 0, &mut scratch).top, []);
    assert_eq!(report(&[1.0, 1.0], 1.0, 0, 20, &mut scratch).top.len(), 2);
}
