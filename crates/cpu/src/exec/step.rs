//! What ops see of the step that runs.

use onebit_plan::{AXES, Batch, Rows};

use crate::ops::Row;

/// Where a token of the batch is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Its span.
    pub(crate) span: u32,
    /// Its position in the sequence.
    pub(crate) position: u32,
}

/// The batch, spread out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepView<'a> {
    /// The batch.
    pub(crate) batch: &'a Batch<'a>,
    /// By token.
    pub(crate) places: &'a [Place],
    /// First token of each span.
    pub(crate) firsts: &'a [u32],
    /// The token of each row of outputs.
    pub(crate) outputs: &'a [u32],
}

impl StepView<'_> {
    /// How many rows there are.
    pub(crate) fn count(&self, rows: Rows) -> usize {
        match rows {
            Rows::Tokens => self.batch.tokens.len(),
            Rows::Outputs => self.outputs.len(),
        }
    }
    /// A row.
    pub(crate) fn row(&self, rows: Rows, index: usize) -> Row {
        let token = match rows {
            Rows::Tokens => index,
            Rows::Outputs => self.outputs[index] as usize,
        };
        let place = self.places[token];
        Row { index, token, id: self.batch.tokens[token], position: place.position as usize, span: place.span as usize }
    }
}

impl StepView<'_> {
    /// A token's position on every axis.
    pub(crate) fn axes(&self, row: Row) -> [i64; AXES] {
        self.batch.inputs.axes.get(row.token).map_or([row.position as i64; AXES], |axes| axes.map(i64::from))
    }
}

/// The memory behind a [`StepView`], kept from step to step.
#[derive(Debug)]
pub(crate) struct StepBuffers {
    places: Vec<Place>,
    firsts: Vec<u32>,
    outputs: Vec<u32>,
}

impl StepBuffers {
    /// Room for `batch` tokens and `outputs` rows of outputs.
    pub(crate) fn new(batch: usize, outputs: usize) -> Self {
        Self { places: Vec::with_capacity(batch), firsts: Vec::with_capacity(batch), outputs: Vec::with_capacity(outputs) }
    }
    /// Bytes for these sizes.
    pub(crate) fn bytes(batch: usize, outputs: usize) -> usize {
        batch * (size_of::<Place>() + 4) + outputs * 4
    }
    /// Spreads a batch, which has been checked.
    pub(crate) fn view<'a>(&'a mut self, batch: &'a Batch<'a>) -> StepView<'a> {
        self.places.clear();
        self.firsts.clear();
        self.outputs.clear();
        for (i, span) in batch.spans.iter().enumerate() {
            let first = self.places.len();
            self.firsts.push(first as u32);
            self.places.extend((0..span.len).map(|t| Place { span: i as u32, position: (span.start + t) as u32 }));
            self.outputs.extend((first + span.len - span.outputs..first + span.len).map(|t| t as u32));
        }
        StepView { batch, places: &self.places, firsts: &self.firsts, outputs: &self.outputs }
    }
}
