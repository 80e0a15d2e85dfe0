//! From the bytes of tokens to text that can be shown.
//!
//! Two things hold text back: bytes that are not a whole character yet, and text that may turn out to be the beginning of a
//! stop string. What is released is therefore never taken back.

use crate::matcher::Matcher;

/// The text of one answer as it grows.
#[derive(Debug)]
pub(crate) struct Output {
    /// The beginning of a character: at most three bytes.
    partial: Vec<u8>,
    /// Whole characters that are held back.
    held: String,
    stops: Vec<Matcher>,
}

/// What one token released.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub text: String,
    /// The stop string that was completed. Of several that end at the same byte, the longest.
    pub stop: Option<String>,
}

impl Output {
    pub(crate) fn new(stops: &[String]) -> Self {
        Self { partial: Vec::new(), held: String::new(), stops: stops.iter().map(|s| Matcher::new(s)).collect() }
    }

    /// Takes the bytes of a token. What is not UTF-8 becomes U+FFFD, as in [`String::from_utf8_lossy`].
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Release {
        let new = self.held.len();
        if self.partial.is_empty() {
            let rest = decode(bytes, &mut self.held).len();
            self.partial.extend_from_slice(&bytes[bytes.len() - rest..]);
        } else {
            self.partial.extend_from_slice(bytes);
            let rest = decode(&self.partial, &mut self.held).len();
            self.partial.drain(..self.partial.len() - rest);
        }
        self.release(new)
    }

    /// What is left at the end. A character that was never completed becomes U+FFFD.
    pub(crate) fn finish(&mut self) -> Release {
        let new = self.held.len();
        if !self.partial.is_empty() {
            self.partial.clear();
            self.held.push(char::REPLACEMENT_CHARACTER);
        }
        let mut release = self.release(new);
        if release.stop.is_none() {
            release.text.push_str(&self.held);
        }
        self.held.clear();
        release
    }

    /// Looks at what is new in `held`, from the byte `new` on.
    fn release(&mut self, new: usize) -> Release {
        for end in new..self.held.len() {
            let byte = self.held.as_bytes()[end];
            let mut found: Option<&Matcher> = None;
            for stop in &mut self.stops {
                if stop.push(byte) && found.is_none_or(|f| f.pattern().len() < stop.pattern().len()) {
                    found = Some(stop);
                }
            }
            if let Some(stop) = found {
                let start = end + 1 - stop.pattern().len();
                let stop = self.held[start..=end].to_owned();
                self.held.truncate(start);
                return Release { text: std::mem::take(&mut self.held), stop: Some(stop) };
            }
        }
        let hold = self.stops.iter().map(Matcher::matched).max().unwrap_or(0);
        // A beginning of a stop string begins where a character does, so this cuts between characters.
        let kept = self.held.split_off(self.held.len() - hold);
        Release { text: std::mem::replace(&mut self.held, kept), stop: None }
    }
}

/// Appends the characters in `bytes`, and gives the bytes at its end that may become one.
fn decode<'a>(bytes: &'a [u8], text: &mut String) -> &'a [u8] {
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let broken = chunk.invalid();
        if broken.is_empty() {
            continue;
        }
        let unfinished = chunks.peek().is_none() && str::from_utf8(broken).is_err_and(|e| e.error_len().is_none());
        if unfinished {
            return broken;
        }
        text.push(char::REPLACEMENT_CHARACTER);
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everything at once: the text of all bytes, cut where the first stop string is complete.
    fn oracle(bytes: &[u8], stops: &[String]) -> (String, Option<String>) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        for end in 0..=text.len() {
            let ends = stops.iter().filter(|s| text.as_bytes()[..end].ends_with(s.as_bytes()));
            if let Some(stop) = ends.max_by_key(|s| s.len()) {
                return (text[..end - stop.len()].to_owned(), Some(stop.clone()));
            }
        }
        (text, None)
    }

    /// Feeds pieces and checks what must hold after each; gives all text and the stop string.
    fn run(pieces: &[Vec<u8>], stops: &[String]) -> Result<(String, Option<String>), TestCaseError> {
        let mut output = Output::new(stops);
        let mut all = String::new();
        let mut bytes = Vec::new();
        for piece in pieces {
            bytes.extend_from_slice(piece);
            let release = output.push(piece);
            all.push_str(&release.text);
            if release.stop.is_some() {
                return Ok((all, release.stop));
            }
            // Nothing is held back without need: what is missing is unfinished, or a beginning of a stop string.
            let so_far = String::from_utf8_lossy(&bytes).into_owned();
            prop_assert!(so_far.starts_with(&all));
            let tail = &so_far[all.len()..];
            let tail = tail.strip_suffix('\u{fffd}').filter(|_| !output.partial.is_empty()).unwrap_or(tail);
            prop_assert!(tail.is_empty() || stops.iter().any(|s| s.starts_with(tail)), "{:?} is held back", tail);
        }
        let release = output.finish();
        all.push_str(&release.text);
        Ok((all, release.stop))
    }

    fn strings(s: &[&str]) -> Vec<String> {
        s.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn stops_across_tokens() {
        let pieces: Vec<Vec<u8>> = ["Hello", " wor", "ld\n", "\nUs", "er: x"].iter().map(|s| s.as_bytes().to_vec()).collect();
        let stops = strings(&["\n\nUser:"]);
        assert_eq!(run(&pieces, &stops).unwrap(), ("Hello world".into(), Some("\n\nUser:".into())));
        let mut output = Output::new(&stops);
        let released: Vec<String> = pieces.iter().map(|p| output.push(p).text).collect();
        assert_eq!(released, ["Hello", " wor", "ld", "", ""]);
    }

    #[test]
    fn a_false_beginning_is_released_later() {
        let mut output = Output::new(&strings(&["aab"]));
        assert_eq!(output.push(b"xaa").text, "x");
        assert_eq!(output.push(b"a").text, "a");
        assert_eq!(output.push(b"c").text, "aac");
        assert_eq!(output.push(b"aa").text, "");
        assert_eq!(output.finish(), Release { text: "aa".into(), stop: None });
    }

    #[test]
    fn the_longest_of_those_that_end_together() {
        let mut output = Output::new(&strings(&["c", "bc", "abcd"]));
        assert_eq!(output.push(b"xabcd"), Release { text: "xa".into(), stop: Some("bc".into()) });
    }

    #[test]
    fn halves_of_characters_wait() {
        let mut output = Output::new(&[]);
        let crab = "🦀".as_bytes();
        assert_eq!(output.push(&crab[..1]).text, "");
        assert_eq!(output.push(&crab[1..3]).text, "");
        assert_eq!(output.push(&crab[3..]).text, "🦀");
        assert_eq!(output.push(&crab[..3]).text, "");
        assert_eq!(output.push(b"a").text, "\u{fffd}a");
        assert_eq!(output.push(&[0xff, 0xc3]).text, "\u{fffd}");
        assert_eq!(output.finish().text, "\u{fffd}");
        assert_eq!(output.finish().text, "");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn agrees_with_everything_at_once(
            // Few letters, so that stop strings are often there, and pieces that cut characters.
            text in prop::collection::vec(prop::sample::select(vec!["a", "b", "ä", "🦀", "\u{fffd}"]), 0..24),
            broken in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            stops in prop::collection::vec("[abä🦀]{1,4}", 0..4),
        ) {
            let mut bytes = text.concat().into_bytes();
            for (at, byte) in broken {
                if !bytes.is_empty() {
                    let i = at.index(bytes.len());
                    bytes[i] = byte;
                }
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<Vec<u8>> = cuts.windows(2).map(|w| bytes[w[0]..w[1]].to_vec()).collect();
            prop_assert_eq!(run(&pieces, &stops)?, oracle(&bytes, &stops));
        }
    }
}
