//! A vision tower that is loaded.

use crate::{
    Error, Limits as PictureLimits, Picture, Prepared, Processor, Result,
    prepared::{From, Piece},
};
use onebit_plan::{AXES, Batch, DeviceError, Executable, Inputs, KvType, Limits, Span};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tokens in a page of the encoder's cache.
const PAGE: usize = 64;

/// Numbers of rows that are remembered: 256 MiB of them.
const REMEMBERED: usize = 64 << 20;

/// Turns pictures into rows that a text model takes instead of tokens. It can be shared by threads, which then take turns.
pub struct Tower {
    processor: Box<dyn Processor>,
    newline: Option<Vec<f32>>,
    whole: bool,
    /// Encoder and projector.
    parts: Mutex<[Box<dyn Executable>; 2]>,
    /// What was seen lately, the latest last, with digests of the files: a chat shows its images again with each message.
    lately: Mutex<Vec<([u64; 2], Arc<Seen>)>>,
    /// Of the digests, so that nobody can make two files that are the same to them.
    secrets: [RandomState; 2],
}

/// What a tower made of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// A row for each of the image's tokens, one after the other.
    pub rows: Arc<[f32]>,
    /// How many.
    pub count: usize,
    /// What takes the place of the image's mark in the prompt ([`Prepared::text`]).
    pub text: String,
    /// See [`Prepared::offsets`].
    pub offsets: Vec<[u32; 3]>,
    /// See [`Prepared::advance`].
    pub advance: u32,
}

impl std::fmt::Debug for Tower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tower").field("processor", &self.processor).finish_non_exhaustive()
    }
}

impl Tower {
    /// What the executables of encoder and projector are to be made for.
    pub fn limits(processor: &dyn Processor, kind: onebit_plan::ActivationKind) -> [Limits; 2] {
        let limits = |rows: usize, pages: usize| {
            // Keys and values of one layer at a time, exact.
            Limits { batch: rows, outputs: rows, page: PAGE, pages, slots: 1, kv: KvType::F32, activations: kind }
        };
        let patches = processor.most_patches().max(1);
        [limits(patches, patches.div_ceil(PAGE)), limits(processor.most_rows().clamp(1, patches), patches.div_ceil(PAGE))]
    }

    /// Of executables of encoder and projector that were made for [`Tower::limits`]. `newline` is the row at the ends of lines, where the
    /// family has such; `whole` whether an image's tokens see each other in the text model, whatever their order.
    pub fn new(processor: Box<dyn Processor>, newline: Option<Vec<f32>>, parts: [Box<dyn Executable>; 2], whole: bool) -> Self {
        Self { processor, newline, whole, parts: Mutex::new(parts), lately: Mutex::default(), secrets: Default::default() }
    }

    /// Whether an image's tokens see each other in the text model, whatever their order.
    pub fn whole(&self) -> bool {
        self.whole
    }

    /// What cuts pictures.
    pub fn processor(&self) -> &dyn Processor {
        self.processor.as_ref()
    }

    /// An executable is whole again when a step ends, also when it panics.
    fn parts(&self) -> MutexGuard<'_, [Box<dyn Executable>; 2]> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Tower::see`] of the picture in a file, or what it gave before.
    ///
    /// # Errors
    /// As [`Picture::decode`] and [`Tower::see`].
    pub fn look(&self, file: &[u8], limits: PictureLimits) -> Result<Arc<Seen>> {
        let digest = self.secrets.each_ref().map(|secret| secret.hash_one(file));
        let lately = || self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        let before = {
            let mut lately = lately();
            let at = lately.iter().position(|(of, _)| *of == digest);
            at.map(|at| lately.remove(at).1)
        };
        let seen = match before {
            Some(seen) => seen,
            None => Arc::new(self.see(&Picture::decode(file, limits)?)?),
        };
        let mut lately = lately();
        lately.retain(|(of, _)| *of != digest);
        lately.push((digest, seen.clone()));
        let mut numbers: usize = lately.iter().map(|(_, seen)| seen.rows.len()).sum();
        while numbers > REMEMBERED {
            numbers -= lately.remove(0).1.rows.len();
        }
        Ok(seen)
    }

    /// The rows of a picture.
    ///
    /// # Errors
    /// When the family cannot take a picture of this shape, or the device fails.
    pub fn see(&self, picture: &Picture) -> Result<Seen> {
        let prepared = self.processor.prepare(picture)?;
        let rows = self.rows(&prepared)?;
        let Prepared { order, text, offsets, advance, .. } = prepared;
        Ok(Seen { rows, count: order.len(), text, offsets, advance })
    }

    /// The rows of what was prepared, in the order of the image's tokens.
    pub fn rows(&self, prepared: &Prepared) -> Result<Arc<[f32]>> {
        let mut parts = self.parts();
        let [encoder, projector] = &mut *parts;
        let mut encoded = vec![];
        for piece in &prepared.pieces {
            encode(encoder.as_mut(), piece, &mut encoded)?;
        }
        let projected = project(projector.as_mut(), prepared, &encoded, encoder.vocabulary())?;
        let width = projector.vocabulary();
        let row = |from: &From| match *from {
            From::Projector(i) => Some(&projected[i as usize * width..(i as usize + 1) * width]),
            From::Newline => self.newline.as_deref(),
        };
        let rows: Option<Vec<&[f32]>> = prepared.order.iter().map(row).collect();
        let rows = rows.ok_or_else(|| Error::Invalid("the checkpoint has no row for the ends of lines (image_newline)".into()))?;
        Ok(rows.concat().into())
    }
}

/// Appends the encoder's row for each patch of a piece.
fn encode(encoder: &mut dyn Executable, piece: &Piece, out: &mut Vec<f32>) -> Result<()> {
    let count = piece.places.len();
    let axes: Vec<[u32; AXES]> = piece.places.iter().map(|[row, column]| [0, *row, *column, 0]).collect();
    step(encoder, count, Inputs { rows: &piece.rows, axes: &axes, groups: &piece.windows, ..Inputs::default() }, out)
}

/// The projector's rows. Each is made of rows of the encoder, which are `width` wide.
fn project(projector: &mut dyn Executable, prepared: &Prepared, encoded: &[f32], width: usize) -> Result<Vec<f32>> {
    let (each, most) = (prepared.of_each.max(1), projector.limits().batch);
    let mut out = vec![];
    // Its rows know nothing of each other, and may go in several steps.
    for some in prepared.merged.chunks(each * most) {
        let rows = some.iter().map(|i| &encoded[*i as usize * width..(*i as usize + 1) * width]).collect::<Vec<_>>().concat();
        step(projector, some.len() / each, Inputs { rows: &rows, ..Inputs::default() }, &mut out)?;
    }
    Ok(out)
}

/// One step over `count` rows, which are given in order, of one sequence.
fn step(part: &mut dyn Executable, count: usize, inputs: Inputs<'_>, out: &mut Vec<f32>) -> Result<()> {
    let limits = part.limits();
    if count > limits.batch {
        return Err(DeviceError::Batch(format!("an image of {count} patches; at most {} are allowed", limits.batch)).into());
    }
    let pages: Vec<u32> = (0..limits.pages as u32).collect();
    let (tokens, given) = (vec![0; count], (0..count as u32).collect::<Vec<u32>>());
    let span = Span { len: count, start: 0, pages: &pages, slot: 0, outputs: count };
    out.extend_from_slice(part.step(&Batch { tokens: &tokens, spans: &[span], inputs: Inputs { given: &given, ..inputs } })?);
    Ok(())
}
