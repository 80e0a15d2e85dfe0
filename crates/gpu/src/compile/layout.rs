//! Where values lie in the arena, and inputs in a slot of the ring.

use super::Input;
use onebit_plan::{Kind, Limits, Plan, Rows, Value};
use std::collections::HashMap;

/// Places begin at multiples of this, so that 128-bit loads are aligned and no line is shared.
const ALIGN: usize = 256;

/// Places of values and inputs.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Bytes from the arena's start, by value.
    pub(crate) values: HashMap<Value, usize>,
    /// Bytes of the arena.
    pub(crate) arena: usize,
    /// Bytes from a slot's start, by input.
    pub(crate) inputs: HashMap<Input, usize>,
    /// Bytes of a slot.
    pub(crate) slot_bytes: usize,
}

/// A value in the arena, from the step that makes it to the last that reads it.
struct Living {
    offset: usize,
    bytes: usize,
    last: usize,
}

impl Layout {
    /// `uses` has for each step the values that it reads and those that it writes, by groups that lie beside each other. A value's place serves others when its last reader is done, so that a
    /// step's output never lies on its inputs.
    pub(crate) fn new(plan: &Plan, limits: &Limits, uses: &[(Vec<Value>, Vec<Vec<Value>>)], inputs: &[Input]) -> Self {
        let mut last: HashMap<Value, usize> = HashMap::new();
        for (i, (reads, writes)) in uses.iter().enumerate() {
            last.extend(reads.iter().chain(writes.iter().flatten()).map(|v| (*v, i)));
        }
        last.insert(plan.output, usize::MAX);
        let (mut values, mut arena) = (HashMap::new(), 0);
        let mut living: Vec<Living> = vec![];
        for (i, (_, writes)) in uses.iter().enumerate() {
            living.retain(|l| l.last >= i);
            for group in writes {
                let each = |v: &Value| value_bytes(plan, limits, *v);
                let bytes = group.iter().map(each).sum::<usize>().next_multiple_of(ALIGN);
                living.sort_unstable_by_key(|l| l.offset);
                // The first gap that is large enough.
                let mut offset = 0;
                for l in &living {
                    if offset + bytes <= l.offset {
                        break;
                    }
                    offset = l.offset + l.bytes;
                }
                living.push(Living { offset, bytes, last: group.iter().map(|v| last[v]).max().unwrap_or(i) });
                arena = arena.max(offset + bytes);
                let mut column = 0;
                for v in group {
                    values.insert(*v, offset + 4 * column);
                    column += plan.value(*v).width;
                }
            }
        }
        let (mut places, mut slot_bytes) = (HashMap::new(), 0);
        for input in inputs {
            places.insert(*input, slot_bytes);
            slot_bytes += (4 * input.words(limits)).next_multiple_of(ALIGN);
        }
        Self { values, arena, inputs: places, slot_bytes }
    }
}

/// Bytes of a value's rows: a route holds (expert, weight) pairs.
fn value_bytes(plan: &Plan, limits: &Limits, v: Value) -> usize {
    let info = plan.value(v);
    let rows = match info.rows {
        Rows::Tokens => limits.batch,
        Rows::Outputs => limits.outputs,
    };
    let each = if info.kind == Kind::Route { 8 } else { 4 };
    rows * info.width * each
}

impl Input {
    /// Words that it takes at most.
    pub(crate) fn words(&self, limits: &Limits) -> usize {
        match self {
            Self::Position(_) | Self::Row(..) | Self::Factor(..) => limits.batch,
            Self::Seen(..) | Self::Place | Self::Block => 2 * limits.batch,
            Self::Sequence => 4 * limits.batch.min(limits.slots),
            Self::Pages => limits.batch.min(limits.slots) * limits.pages,
            Self::Output => limits.outputs,
        }
    }
}
