//! Values in memory: which buffer each lies in, and when its buffer serves the next.

use super::shared::Shared;
use onebit_plan::{DeviceError, Kind, Limits, Plan, Rows, Value};
use std::sync::Arc;

/// Where the rows of a value lie.
#[derive(Clone)]
pub(crate) struct RowsOf {
    memory: Arc<Shared<f32>>,
    /// Numbers from one row to the next.
    stride: usize,
    /// Numbers in a row.
    width: usize,
}

impl RowsOf {
    /// Rows of `width` numbers in memory of their own.
    pub(crate) fn new(rows: usize, width: usize) -> Result<Self, DeviceError> {
        let stride = padded(width);
        Ok(Self { memory: Arc::new(Shared::new(total(rows, stride)?)?), stride, width })
    }
    /// Numbers in a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }
    /// The first rows, which lie without gaps; for values that [`Layout`] keeps.
    ///
    /// # Safety
    /// No thread writes to them while the reference lives.
    pub(crate) unsafe fn first(&self, rows: usize) -> &[f32] {
        assert_eq!(self.stride, self.width);
        // SAFETY: passed on.
        unsafe { self.memory.part(0..rows * self.width) }
    }
    /// The first `width` numbers of each row.
    pub(crate) fn first_numbers(&self, width: usize) -> Self {
        assert!(width <= self.width);
        Self { width, ..self.clone() }
    }
    /// Numbers from one row to the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }
    /// The first row's address.
    pub(crate) fn as_ptr(&self) -> *mut f32 {
        self.memory.as_ptr()
    }
    /// How many rows there is room for.
    pub(crate) fn rows(&self) -> usize {
        self.memory.len() / self.stride
    }
    /// Reads a row.
    ///
    /// # Safety
    /// No other thread writes to it while the reference lives.
    pub(crate) unsafe fn row(&self, row: usize) -> &[f32] {
        // SAFETY: passed on.
        unsafe { self.memory.part(row * self.stride..row * self.stride + self.width) }
    }
    /// Writes a row.
    ///
    /// # Safety
    /// No other reference to it lives while this one does.
    #[allow(clippy::mut_from_ref)] // what the type is for
    pub(crate) unsafe fn row_mut(&self, row: usize) -> &mut [f32] {
        // SAFETY: passed on.
        unsafe { self.memory.part_mut(row * self.stride..row * self.stride + self.width) }
    }
    /// Writes part of a row.
    ///
    /// # Safety
    /// No other reference to that part lives while this one does.
    #[allow(clippy::mut_from_ref)] // what the type is for
    pub(crate) unsafe fn part_mut(&self, row: usize, part: std::ops::Range<usize>) -> &mut [f32] {
        assert!(part.end <= self.width);
        // SAFETY: passed on.
        unsafe { self.memory.part_mut(row * self.stride + part.start..row * self.stride + part.end) }
    }
}

/// Rows begin on cache lines, and not all in the same set of the cache.
fn padded(width: usize) -> usize {
    let lines = width.div_ceil(16).max(1);
    // A stride of a multiple of 4 KiB would put all rows of a column into the same few cache sets.
    (lines + usize::from(lines.is_multiple_of(32))) * 16
}

fn total(rows: usize, stride: usize) -> Result<usize, DeviceError> {
    rows.checked_mul(stride).ok_or_else(|| DeviceError::Failed(format!("{rows} rows of {stride} numbers are too many")))
}

/// Numbers in a row of the value as it is stored: a route holds (expert, weight) pairs.
pub(crate) fn stored_width(plan: &Plan, v: Value) -> usize {
    let info = plan.value(v);
    match info.kind {
        Kind::Numbers | Kind::Positions => info.width,
        Kind::Route => 2 * info.width,
    }
}

/// One buffer, and the values that use it one after the other.
#[derive(Debug, PartialEq)]
struct Buffer {
    rows: Rows,
    width: usize,
    free: bool,
}

/// Which buffer each value is in.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The value that callers read as one run of numbers: memory of its own, without padding.
    keep: Value,
    buffers: Vec<Buffer>,
    /// By value; `None` for those that fusion has removed.
    of: Vec<Option<usize>>,
}

impl Layout {
    /// Assigns buffers to the values of a list of steps, each given by what it reads and what it writes. A buffer is free
    /// again after the last step that reads its value, so that a step's output never lies on its inputs. `keep` has one of its own.
    ///
    /// All values of a buffer have its stride. So whoever owns a row of one value owns the same memory of the next, and
    /// steps that work row by row need no barrier between them.
    pub(crate) fn new(plan: &Plan, steps: &[(Vec<Value>, Vec<Value>)], keep: Value) -> Self {
        let mut last = vec![0; plan.values.len()];
        for (i, (reads, writes)) in steps.iter().enumerate() {
            reads.iter().chain(writes).for_each(|v| last[v.0 as usize] = i);
        }
        let mut layout = Self { keep, buffers: vec![], of: vec![None; plan.values.len()] };
        for (i, (reads, writes)) in steps.iter().enumerate() {
            for v in writes.iter().filter(|v| **v != keep) {
                let buffer = layout.take(plan.value(*v).rows, stored_width(plan, *v));
                layout.of[v.0 as usize] = Some(buffer);
            }
            for v in reads.iter().chain(writes).filter(|v| last[v.0 as usize] == i) {
                if let Some(b) = layout.of[v.0 as usize] {
                    layout.buffers[b].free = true;
                }
            }
        }
        layout
    }
    /// The free buffer that fits best: the narrowest that is wide enough, else the widest, made wider, else a new one.
    fn take(&mut self, rows: Rows, width: usize) -> usize {
        let free = || self.buffers.iter().enumerate().filter(|(_, b)| b.free && b.rows == rows);
        let enough = free().filter(|(_, b)| b.width >= width && b.width <= 4 * width).min_by_key(|(_, b)| b.width);
        let found = enough.or_else(|| free().filter(|(_, b)| b.width < width && width <= 4 * b.width).max_by_key(|(_, b)| b.width));
        match found.map(|(i, _)| i) {
            Some(i) => {
                self.buffers[i].free = false;
                self.buffers[i].width = self.buffers[i].width.max(width);
                i
            }
            None => {
                self.buffers.push(Buffer { rows, width, free: false });
                self.buffers.len() - 1
            }
        }
    }
    fn rows(rows: Rows, limits: &Limits) -> usize {
        match rows {
            Rows::Tokens => limits.batch,
            Rows::Outputs => limits.outputs,
        }
    }
    /// Bytes of all buffers.
    pub(crate) fn bytes(&self, plan: &Plan, limits: &Limits) -> usize {
        let keep = plan.value(self.keep);
        let kept = Self::rows(keep.rows, limits).saturating_mul(keep.width);
        let bytes = |b: &Buffer| Self::rows(b.rows, limits).saturating_mul(padded(b.width));
        self.buffers.iter().map(bytes).fold(kept, usize::saturating_add).saturating_mul(4)
    }
    /// Takes the memory, and gives each value its place; `None` for values that no step writes.
    pub(crate) fn allocate(&self, plan: &Plan, limits: &Limits) -> Result<Vec<Option<RowsOf>>, DeviceError> {
        let buffers: Vec<RowsOf> =
            self.buffers.iter().map(|b| RowsOf::new(Self::rows(b.rows, limits), b.width)).collect::<Result<_, _>>()?;
        let place =
            |(v, b): (usize, &Option<usize>)| b.map(|b| RowsOf { width: stored_width(plan, Value(v as u32)), ..buffers[b].clone() });
        let mut places: Vec<_> = self.of.iter().enumerate().map(place).collect();
        let keep = plan.value(self.keep);
        let memory = Arc::new(Shared::new(total(Self::rows(keep.rows, limits), keep.width)?)?);
        places[self.keep.0 as usize] = Some(RowsOf { memory, stride: keep.width, width: keep.width });
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onebit_plan::ValueInfo;

    #[test]
    fn buffers_are_used_again_but_never_for_two_living_values() {
        let value = |width, rows| ValueInfo { width, rows, kind: Kind::Numbers };
        let t = Rows::Tokens;
        let plan = Plan {
            name: "test".into(),
            layers: 0,
            values: vec![value(64, t), value(64, t), value(64, t), value(128, t), value(64, t), value(64, Rows::Outputs)],
            ops: vec![],
            op_layers: vec![],
            weights: vec![],
            states: vec![],
            output: Value(5),
            hidden: None,
            vocabulary: 64,
            context: 1,
            denoising: None,
            answering: None,
        };
        let v = |i: &[u32]| i.iter().map(|i| Value(*i)).collect::<Vec<_>>();
        // 0 -> 1 -> 2 (from 0 and 1) -> 3 -> 4 (from 2 and 3) -> 5
        let steps =
            [(v(&[]), v(&[0])), (v(&[0]), v(&[1])), (v(&[0, 1]), v(&[2])), (v(&[2]), v(&[3])), (v(&[2, 3]), v(&[4])), (v(&[4]), v(&[5]))];
        let layout = Layout::new(&plan, &steps, Value(5));
        let of = |i: usize| layout.of[i].unwrap();
        assert!(of(0) != of(1) && of(2) != of(0) && of(2) != of(1), "inputs and outputs are apart");
        assert!(of(3) == of(0) || of(3) == of(1), "what is dead is used again");
        assert!(of(4) != of(2) && of(4) != of(3) && layout.of[5].is_none());
        let limits = Limits {
            batch: 3,
            outputs: 2,
            page: 16,
            pages: 1,
            slots: 1,
            kv: Default::default(),
            activations: onebit_plan::ActivationKind::F32,
        };
        let places = layout.allocate(&plan, &limits).unwrap();
        let widths: Vec<usize> = places.iter().flatten().map(RowsOf::width).collect();
        assert_eq!(widths, [64, 64, 64, 128, 64, 64]);
        assert_eq!(layout.bytes(&plan, &limits), places_bytes(&layout, &limits) + 2 * 64 * 4);
    }

    fn places_bytes(layout: &Layout, limits: &Limits) -> usize {
        layout.buffers.iter().map(|b| RowsOf::new(Layout::rows(b.rows, limits), b.width).unwrap().memory.len() * 4).sum()
    }
}
