//! Where images are in a prompt: marks become the images' tokens, and tokens become rows.

use crate::{Error, Processor, Result, Seen};
use onebit_plan::AXES;
use onebit_text::{Encode, Tokenizer};
use std::borrow::Borrow;

/// A prompt with its images in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Token ids. Those of images are the family's own for them, where the vocabulary has such, and otherwise 0.
    pub ids: Vec<u32>,
    /// The runs of ids for which rows stand in, in order.
    pub runs: Vec<Run>,
    /// The position of each id in time, height and width; empty where positions simply count on.
    pub axes: Vec<[u32; AXES]>,
}

/// A run of ids for which consecutive rows of one image stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first id.
    pub start: usize,
    /// How many.
    pub len: usize,
    /// Which image.
    pub image: usize,
    /// Its first row.
    pub first: usize,
}

/// Puts `images` where their marks stand in a prompt, which comes in `pieces` over whose ends no special token reaches. `add_special`
/// is as for [`Encode`].
///
/// # Errors
/// When the prompt has more or fewer marks than there are images.
pub fn place<'t>(
    pieces: impl IntoIterator<Item = &'t str>,
    images: &[impl Borrow<Seen>],
    processor: &dyn Processor,
    tokenizer: &Tokenizer,
    add_special: bool,
) -> Result<Placed> {
    let mut left = images.iter().map(Borrow::borrow);
    let mut marks = 0;
    let mut ids = vec![];
    let mut tokens = vec![];
    for (i, piece) in pieces.into_iter().enumerate() {
        let mut text = String::with_capacity(piece.len());
        for (j, part) in piece.split(processor.mark()).enumerate() {
            if j > 0 {
                marks += 1;
                text.push_str(left.next().map_or("", |image| &image.text));
            }
            text.push_str(part);
        }
        encode(&text, processor.token(), tokenizer, add_special && i == 0, &mut ids, &mut tokens);
    }
    if marks != images.len() {
        return Err(Error::Invalid(format!("the prompt has places for {marks} images, but there are {}", images.len())));
    }
    if let Some(id) = processor.id() {
        tokens.iter().for_each(|at| ids[*at] = id);
    }
    let counts: Vec<usize> = images.iter().map(|image| image.borrow().count).collect();
    let runs = runs(&tokens, &counts);
    let rows: usize = counts.iter().sum();
    if tokens.len() != rows {
        return Err(Error::Invalid(format!("the prompt has {} tokens of images for {rows} rows of them", tokens.len())));
    }
    let turned = images.iter().any(|image| !image.borrow().offsets.is_empty());
    let axes = if turned { axes(ids.len(), &runs, images) } else { vec![] };
    Ok(Placed { ids, runs, axes })
}

/// Appends the ids of a piece, and which of them are images' tokens.
fn encode(text: &str, token: &str, tokenizer: &Tokenizer, add_special: bool, ids: &mut Vec<u32>, tokens: &mut Vec<usize>) {
    let options = Encode { add_special, parse_special: true };
    if let Some(id) = tokenizer.id(token) {
        let from = ids.len();
        ids.extend(tokenizer.encode(text, options));
        tokens.extend((from..ids.len()).filter(|i| ids[*i] == id));
        return;
    }
    for (i, part) in text.split(token).enumerate() {
        if i > 0 {
            tokens.push(ids.len());
            ids.push(0);
        }
        if !part.is_empty() || (i == 0 && add_special) {
            ids.extend(tokenizer.encode(part, Encode { add_special: add_special && i == 0, ..options }));
        }
    }
}

/// Runs of consecutive tokens, which are the rows of images with so many rows each.
fn runs(tokens: &[usize], counts: &[usize]) -> Vec<Run> {
    let rows = counts.iter().enumerate().flat_map(|(image, count)| (0..*count).map(move |row| (image, row)));
    let mut runs: Vec<Run> = vec![];
    for (&at, (image, row)) in tokens.iter().zip(rows) {
        match runs.last_mut() {
            Some(run) if run.image == image && run.start + run.len == at => run.len += 1,
            _ => runs.push(Run { start: at, len: 1, image, first: row }),
        }
    }
    runs
}

/// Positions as Qwen2-VL has them (arXiv:2409.12191, section 2.1): those of an image's tokens spread from one position on, and what
/// follows goes on behind the largest.
fn axes(count: usize, runs: &[Run], images: &[impl Borrow<Seen>]) -> Vec<[u32; AXES]> {
    let mut axes = Vec::with_capacity(count);
    let mut next = 0;
    for run in runs {
        let text = (run.start - axes.len()) as u32;
        axes.extend((next..next + text).map(|at| [at; AXES]));
        next += text;
        let image = images[run.image].borrow();
        for [t, h, w] in &image.offsets[run.first..run.first + run.len] {
            axes.push([next + t, next + h, next + w, 0]);
        }
        next += image.advance;
    }
    let rest = (count - axes.len()) as u32;
    axes.extend((next..next + rest).map(|at| [at; AXES]));
    axes
}
