//! Which tokens end an answer.

/// Texts of tokens that end a turn or a generation in published vocabularies.
///
/// The Hub says this in `generation_config.json`; GGUF files name only some, so that engines know the others by their text
/// (as llama.cpp does). A token counts only where the vocabulary has it as an added token.
const END_TEXTS: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot|>",
    "<|eom|>",
    "<end_of_turn>",
    "<turn|>",
    "<EOT>",
    "_<EOT>",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
    "<|fim_pad|>",
];

/// All tokens that end a generation: those that the file names, then the known ones among the added tokens.
pub(crate) fn ends(named: impl IntoIterator<Item = u32>, added: impl Fn(&str) -> Option<u32>) -> Vec<u32> {
    let mut ends: Vec<u32> = Vec::new();
    let found: Vec<(&str, u32)> = END_TEXTS.iter().filter_map(|text| Some((*text, added(text)?))).collect();
    // In harmony, `<|end|>` only ends one message of an answer; `<|return|>` and `<|call|>` end the answer.
    let harmony = ["<|return|>", "<|call|>", "<|end|>"].iter().all(|text| found.iter().any(|(f, _)| f == text));
    for id in named {
        if !ends.contains(&id) {
            ends.push(id);
        }
    }
    for (text, id) in found {
        let goes_on = harmony && text == "<|end|>";
        if !goes_on && !ends.contains(&id) {
            ends.push(id);
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_first_then_known() {
        let added = |text: &str| ["<|im_end|>", "x", "<|endoftext|>"].iter().position(|t| *t == text).map(|i| i as u32);
        assert_eq!(ends([7, 7], added), [7, 0, 2]);
    }

    #[test]
    fn harmony_messages_go_on() {
        let added = |text: &str| ["<|end|>", "<|return|>", "<|call|>"].iter().position(|t| *t == text).map(|i| i as u32);
        assert_eq!(ends([], added), [1, 2]);
        assert_eq!(ends([], |text| (text == "<|end|>").then_some(3)), [3]);
    }
}
