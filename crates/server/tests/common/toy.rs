//! A model that needs no file: after a letter comes the next one, after `!` the end. Bytes are tokens.

use onebit_engine::{Config, Engine, Pool, Sampling};
use onebit_plan::{ActivationKind, Batch, Cached, DeviceError, Executable, KvType, Limits};
use onebit_server::{Loaded, ModelInfo, Ranks};
use onebit_text::{ChatTemplate, Tokenizer};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The first marks after the 256 bytes.
pub(crate) const IM_START: u32 = 256;
pub(crate) const IM_END: u32 = 257;
const VOCABULARY: usize = 258;
/// Those that come after them where it has more.
const MORE: [&str; 6] = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<think>", "</think>"];
/// What it says that a page has, all of them sevens.
pub(crate) const PAGE_BYTES: usize = 1000;
/// After this byte the model breaks: its step fails.
pub(crate) const FAILS: char = '\u{1}';
/// After this byte it gives NaN.
pub(crate) const NAN: char = '\u{2}';
/// After this byte it panics.
pub(crate) const PANICS: char = '\u{3}';

/// After this byte it fails, and so it does ever after.
pub(crate) const DIES: char = '\u{4}';

/// How a toy is made.
#[derive(Clone, Copy)]
pub(crate) struct Toy {
    /// Time for a step.
    pub(crate) step: Duration,
    pub(crate) context: usize,
    pub(crate) max_sequences: usize,
    pub(crate) queue: usize,
    pub(crate) template: bool,
    /// Whether it breaks where it is said to.
    pub(crate) breaks: bool,
    /// Whether it sees, with the tower of `tower`.
    pub(crate) sees: bool,
    /// Whether its template knows no images all the same.
    pub(crate) plain: bool,
    /// What it answers instead of the alphabet, to a template that takes tools.
    pub(crate) script: Option<&'static str>,
    /// How it makes vectors of three numbers, instead of writing: those of a token are its id, 1, and half of the id below zero.
    pub(crate) embeds: Option<Pool>,
    /// Whether the first number is a score of two texts; the second's tokens are given a half.
    pub(crate) ranks: bool,
    /// Whether its vocabulary has marks for filling in the middle, and for reasoning.
    pub(crate) more_marks: bool,
    /// Whether beginnings that come again are known.
    pub(crate) keeps: bool,
    /// Which model it is, to those who save.
    pub(crate) identity: u8,
}

impl Default for Toy {
    fn default() -> Self {
        Self {
            step: Duration::ZERO,
            context: 256,
            max_sequences: 4,
            queue: 16,
            template: true,
            breaks: true,
            script: None,
            embeds: None,
            ranks: false,
            more_marks: false,
            keeps: false,
            identity: 0,
            sees: false,
            plain: false,
        }
    }
}

impl Toy {
    pub(crate) fn load(self) -> Loaded {
        let limits = Limits { batch: 64, outputs: 64, page: 16, pages: 128, slots: 16, kv: KvType::F32, activations: ActivationKind::F32 };
        let executable = Box::new(Alphabet {
            limits,
            step: self.step,
            breaks: self.breaks,
            sees: self.sees,
            script: self.script,
            embeds: self.embeds.is_some(),
            vocabulary: VOCABULARY + if self.more_marks { MORE.len() } else { 0 },
            at: HashMap::new(),
            dead: false,
            logits: vec![],
        });
        let tokenizer = Arc::new(Tokenizer::from_json(&tokenizer_json(self.more_marks), None).expect("a valid tokenizer"));
        let config = Config {
            max_sequences: self.max_sequences,
            context: self.context,
            queue: self.queue,
            prefix_reuse: self.keeps,
            pooling: self.embeds.map(|pool| Arc::new(pool.into())),
            ..Config::default()
        };
        Loaded {
            engine: Engine::new(executable, tokenizer, config),
            template: self.template.then(|| {
                let source = match self {
                    Self { script: Some(_), .. } => TOOL_TEMPLATE,
                    Self { sees: true, plain: false, .. } => IMAGE_TEMPLATE,
                    _ => TEMPLATE,
                };
                ChatTemplate::new(source, "", "<|im_end|>").expect("a valid template")
            }),
            tower: self.sees.then(super::tower::tower),
            sampling: Sampling::default(),
            info: ModelInfo { architecture: "toy".into(), parameters: 7, identity: [self.identity; 32], ..ModelInfo::default() },
            ranks: self.ranks.then(|| Ranks { second: Some(Arc::new([0.5, 0.0, 0.0])), prompt: None }),
        }
    }
}

/// `<|im_start|>role content<|im_end|>` and so on. `think` shows that variables reach it.
const TEMPLATE: &str = "{% for m in messages %}{% if m.content == 'raise' %}{{ raise_exception('As you asked') }}{% endif %}\
<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant \
{% if enable_thinking %}think {% endif %}{% endif %}";

/// As [`TEMPLATE`], with tools, calls and reasoning as Qwen's have them.
const TOOL_TEMPLATE: &str = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}{% for m in messages %}\
<|im_start|>{{ m.role }} {{ m.content.split('</think>')[-1] }}{% for c in m.tool_calls %}<tool_call>\
{{ c.function.name }} {{ c.function.arguments | tojson }}</tool_call>{% endfor %}<|im_end|>{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant {% if enable_thinking %}<think>{% endif %}{% endif %}";

/// Knows images, and ends where the last message ends.
const IMAGE_TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role[0] }} {% if m.content is string %}{{ m.content }}{% else %}\
{% for c in m.content %}{% if c.type == 'image' %}<image>{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}";

/// What [`TEMPLATE`] makes of one user message.
pub(crate) fn rendered(content: &str) -> String {
    format!("<|im_start|>user {content}<|im_end|><|im_start|>assistant ")
}

struct Alphabet {
    limits: Limits,
    step: Duration,
    breaks: bool,
    sees: bool,
    script: Option<&'static str>,
    embeds: bool,
    vocabulary: usize,
    /// Of each slot: the position that comes next, and how much of the script has been told.
    at: HashMap<u32, (usize, usize)>,
    dead: bool,
    logits: Vec<f32>,
}

/// What comes after `token`. The end of a chat's prompt, a space, is followed by `a`.
pub(crate) fn next(token: u32) -> u32 {
    match u8::try_from(token) {
        Ok(b'z') | Ok(b' ') => u32::from(b'a'),
        Ok(b'!') => IM_END,
        Ok(c) if c.is_ascii_lowercase() => token + 1,
        _ => u32::from(b'a'),
    }
}

/// The logit of `token` after `last`: 12 for the right one, others up to 2 (so that they come at high temperatures).
pub(crate) fn logit(last: u32, token: u32) -> f32 {
    if token == next(last) { 12.0 } else { ((last * 31 + token * 17) % 21) as f32 / 10.0 }
}

impl Executable for Alphabet {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }
    fn width(&self) -> usize {
        if self.embeds { 3 } else { self.vocabulary }
    }
    fn given(&self) -> usize {
        if self.embeds || self.sees { super::tower::GIVEN } else { 0 }
    }
    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], DeviceError> {
        batch.check(&self.limits, &onebit_plan::BatchForm { given: self.given(), ..onebit_plan::BatchForm::text(self.vocabulary) })?;
        std::thread::sleep(self.step);
        if self.dead {
            return Err(DeviceError::Failed("the toy is dead".into()));
        }
        self.logits.clear();
        let mut begin = 0;
        for span in batch.spans {
            let tokens = &batch.tokens[begin..begin + span.len];
            begin += span.len;
            if let Some(script) = self.script {
                let told = match self.at.get(&span.slot) {
                    Some((next, told)) if *next == span.start && span.len == 1 => told + 1,
                    _ => 0,
                };
                self.at.insert(span.slot, (span.start + span.len, told));
                let right = script.as_bytes().get(told).map_or(IM_END, |b| u32::from(*b));
                for _ in 0..span.outputs {
                    self.logits.extend((0..self.vocabulary as u32).map(|token| if token == right { 12.0 } else { 0.0 }));
                }
                continue;
            }
            for (index, last) in (begin - span.outputs..begin).zip(&tokens[span.len - span.outputs..]) {
                if let Some(row) = batch.inputs.row(index, self.given()).filter(|_| self.sees) {
                    let right = row[0] as usize;
                    self.logits.extend((0..self.vocabulary).map(|token| if token == right { 12.0 } else { 0.0 }));
                    continue;
                }
                match char::from_u32(*last).filter(|_| self.breaks) {
                    Some(FAILS) => return Err(DeviceError::Failed("the toy broke".into())),
                    Some(DIES) => {
                        self.dead = true;
                        return Err(DeviceError::Failed("the toy died".into()));
                    }
                    Some(PANICS) => panic!("the toy panicked"),
                    Some(NAN) => self.logits.extend(std::iter::repeat_n(f32::NAN, self.vocabulary)),
                    _ if self.embeds => {
                        let given = batch.inputs.row(index, 3).map_or(0.0, |row| row[0]);
                        self.logits.extend([*last as f32 + given, 1.0, *last as f32 / -2.0]);
                    }
                    _ => self.logits.extend((0..self.vocabulary as u32).map(|token| logit(*last, token))),
                }
            }
        }
        Ok(&self.logits)
    }
    fn copy_slots(&mut self, _: &[(u32, u32)]) {}
    fn copy_pages(&mut self, _: &[(u32, u32)]) {}
    fn part_bytes(&self) -> Option<[usize; 2]> {
        Some([PAGE_BYTES, 0])
    }
    fn read_cached(&mut self, _: Cached, out: &mut Vec<u8>) -> Result<(), DeviceError> {
        out.extend([7; PAGE_BYTES]);
        Ok(())
    }
    fn write_cached(&mut self, _: Cached, bytes: &[u8]) -> Result<(), DeviceError> {
        assert_eq!(bytes, [7; PAGE_BYTES]);
        Ok(())
    }
}

/// Byte-level BPE without merges: GPT-2 writes each byte as one printable character.
fn tokenizer_json(more_marks: bool) -> String {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut vocabulary = Map::new();
    let mut stand_in = 256;
    for byte in 0..=255u8 {
        let code = if printable(byte) {
            u32::from(byte)
        } else {
            stand_in += 1;
            stand_in - 1
        };
        let character = char::from_u32(code).expect("a character");
        vocabulary.insert(character.to_string(), byte.into());
    }
    let mark = |id: u32, content: &str| json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true });
    let byte_level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    let mut added = vec![mark(IM_START, "<|im_start|>"), mark(IM_END, "<|im_end|>")];
    added.extend(MORE.iter().zip(VOCABULARY as u32..).filter(|_| more_marks).map(|(name, id)| mark(id, name)));
    let whole: Value = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added,
        "normalizer": null, "pre_tokenizer": byte_level, "post_processor": { "type": "TemplateProcessing", "single": [{ "Sequence": { "id": "A", "type_id": 0 } }], "special_tokens": {
            "<|im_start|>": { "id": "<|im_start|>", "ids": [IM_START], "tokens": ["<|im_start|>"] },
        }, "pair": [
            { "Sequence": { "id": "A", "type_id": 0 } }, { "SpecialToken": { "id": "<|im_start|>", "type_id": 0 } },
            { "Sequence": { "id": "B", "type_id": 1 } },
        ] }, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": [],
        },
    });
    whole.to_string()
}
