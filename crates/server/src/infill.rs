//! Filling in the middle: a prompt of what comes before a gap and what comes after it, in the marks of the model's vocabulary.
//!
//! The marks are those that the models' cards name; all of them are written before, after, middle.

use crate::error::ApiError;
use onebit_text::{Encode, Tokenizer};

/// Marks before what comes before the gap, before what comes after it, and before what fills it.
const MARKS: &[[&str; 3]] = &[
    // Qwen 2.5 Coder, CodeGemma, Codestral Mamba, phi-4.
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    // StarCoder, Granite Code, Seed Coder.
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    // SantaCoder.
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    // GLM.
    ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"],
    // Code Llama.
    ["▁<PRE>", "▁<SUF>", "▁<MID>"],
    ["<PRE>", "<SUF>", "<MID>"],
    // DeepSeek Coder, whose marks are around the two and the hole between them.
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
];

/// What separates files of a repository, where a vocabulary has that.
const FILE_MARKS: &[&str] = &["<|file_sep|>", "<file_sep>"];

/// The marks of a vocabulary.
#[derive(Debug, PartialEq)]
pub(crate) struct Infill {
    marks: [u32; 3],
    /// Before the name of another file.
    pub(crate) file: Option<u32>,
}

impl Infill {
    /// Of a vocabulary; `param` is the field that asks for it.
    pub(crate) fn of(tokenizer: &Tokenizer, param: &str) -> Result<Self, ApiError> {
        let ids = |names: &[&str; 3]| {
            let [before, after, middle] = names.map(|name| tokenizer.id(name));
            Some([before?, after?, middle?])
        };
        let file = FILE_MARKS.iter().find_map(|name| tokenizer.id(name));
        MARKS.iter().find_map(ids).map(|marks| Self { marks, file }).ok_or_else(|| {
            let message = format!("`{param}` is not supported with this model: its vocabulary has no marks for filling in the middle");
            ApiError::unsupported(param, message)
        })
    }

    /// The tokens of a prompt. What looks like a mark in the texts is read as letters.
    pub(crate) fn prompt(&self, before: &[u32], after: &[u32], tokenizer: &Tokenizer) -> Vec<u32> {
        let [mark_before, mark_after, mark_middle] = self.marks;
        let mut ids: Vec<u32> = begins(tokenizer);
        ids.push(mark_before);
        ids.extend_from_slice(before);
        ids.push(mark_after);
        ids.extend_from_slice(after);
        ids.push(mark_middle);
        ids
    }

    /// Another file of the same project: its name and text.
    pub(crate) fn file(&self, name: &str, text: &str, tokenizer: &Tokenizer) -> Option<Vec<u32>> {
        let mut ids = vec![self.file?];
        ids.extend(plain(&format!("{name}\n{text}"), tokenizer));
        Some(ids)
    }
}

/// The token that a vocabulary puts before each text, if it does.
fn begins(tokenizer: &Tokenizer) -> Vec<u32> {
    let whole = tokenizer.encode("", Encode { add_special: true, parse_special: false });
    tokenizer.bos().filter(|bos| whole.first() == Some(bos)).into_iter().collect()
}

/// The tokens of a text, none of them special.
pub(crate) fn plain(text: &str, tokenizer: &Tokenizer) -> Vec<u32> {
    tokenizer.encode(text, Encode { add_special: false, parse_special: false })
}
