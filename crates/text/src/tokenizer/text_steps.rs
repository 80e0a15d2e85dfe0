//! What decoders do to the text that tokens have become, as it comes.

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum TextStep {
    /// Takes up to so many of a character off both ends of the text.
    Strip { content: char, start: usize, stop: usize },
    /// Puts something in the place of a text.
    Replace { pattern: String, content: String },
}

/// How far a step has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextState {
    /// How many characters can still be taken off the start.
    start: usize,
    /// Text that may yet be taken off or replaced.
    held: String,
}

impl TextStep {
    pub(crate) fn start(&self) -> TextState {
        match self {
            Self::Strip { start, .. } => TextState { start: *start, held: String::new() },
            Self::Replace { .. } => TextState::default(),
        }
    }

    /// Changes `text`, the next part, to what is ready of it and of what was held.
    pub(crate) fn apply(&self, state: &mut TextState, text: &mut String, end: bool) {
        match self {
            Self::Strip { content, stop, .. } => {
                let taken = text.chars().take(state.start).take_while(|c| c == content).count();
                text.drain(..taken * content.len_utf8());
                state.start = if text.is_empty() { state.start - taken } else { 0 };
                if *stop > 0 {
                    text.insert_str(0, &state.held);
                    let trailing = text.chars().rev().take(*stop).take_while(|c| c == content).count();
                    state.held = text.split_off(text.len() - trailing * content.len_utf8());
                }
            }
            Self::Replace { pattern, content } => {
                text.insert_str(0, &state.held);
                // After the last match, text may end with the start of another.
                let rest = text
                    .rfind(pattern.as_str())
                    .map_or(0, |_| text.match_indices(pattern.as_str()).last().map_or(0, |(at, found)| at + found.len()));
                let open = |at: &usize| pattern.len() > text.len() - at && pattern.starts_with(&text[*at..]);
                let held = (rest..text.len()).filter(|&at| text.is_char_boundary(at) && text.len() - at < pattern.len()).find(open);
                state.held = held.filter(|_| !end).map(|at| text.split_off(at)).unwrap_or_default();
                *text = text.replace(pattern.as_str(), content);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(step: &TextStep, parts: &[&str]) -> String {
        let mut state = step.start();
        let mut all = String::new();
        for (n, part) in parts.iter().enumerate() {
            let mut text = (*part).to_owned();
            step.apply(&mut state, &mut text, n + 1 == parts.len());
            all.push_str(&text);
        }
        all
    }

    /// However the text comes, what is done is what the standard library does to the whole.
    #[test]
    fn in_parts_as_the_whole() {
        let text = "  ab abab aba  ";
        for pattern in ["ab", "aba", "b a", "  ", "abab abab"] {
            let step = TextStep::Replace { pattern: pattern.into(), content: "<>".into() };
            for cut in 0..=text.len() {
                for second in cut..=text.len() {
                    let parts = [&text[..cut], &text[cut..second], &text[second..], ""];
                    assert_eq!(run(&step, &parts), text.replace(pattern, "<>"), "{pattern:?} {cut} {second}");
                }
            }
        }
        for cut in 0..=text.len() {
            let parts = [&text[..cut], &text[cut..], ""];
            assert_eq!(run(&TextStep::Strip { content: ' ', start: 1, stop: 0 }, &parts), &text[1..]);
            assert_eq!(run(&TextStep::Strip { content: ' ', start: 3, stop: 1 }, &parts), &text[2..text.len() - 1]);
            assert_eq!(run(&TextStep::Strip { content: ' ', start: 0, stop: 9 }, &parts), text.trim_end());
        }
    }
}
