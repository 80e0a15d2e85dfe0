//! The (token, choice) pairs of a batch, sorted by expert, so that each expert's matrices are read once for all its tokens.

use super::route;
use crate::exec::{rows::RowsOf, shared::Shared};
use onebit_plan::DeviceError;
use std::ops::Range;

/// Which pairs each expert has. Pairs are numbered in the order of their experts.
pub(crate) struct Pairs {
    /// By expert: where its pairs begin; one more at the end.
    starts: Shared<u32>,
    /// By (token, choice): its pair.
    of_choice: Shared<u32>,
    /// By pair: its (token, choice).
    choices: Shared<u32>,
    experts: usize,
}

impl Pairs {
    /// Room for so many pairs of so many experts.
    pub(crate) fn new(pairs: usize, experts: usize) -> Result<Self, DeviceError> {
        Ok(Self { starts: Shared::new(experts + 1)?, of_choice: Shared::new(pairs)?, choices: Shared::new(pairs)?, experts })
    }

    /// Sorts the pairs of the first `tokens` rows of a route.
    ///
    /// # Safety
    /// One thread calls it, between two barriers; the route was written before the first.
    pub(crate) unsafe fn sort(&self, route: &RowsOf, tokens: usize) {
        let top_k = route.width() / 2;
        // SAFETY: passed on.
        let (starts, of_choice, choices) = unsafe {
            (
                self.starts.part_mut(0..self.experts + 1),
                self.of_choice.part_mut(0..tokens * top_k),
                self.choices.part_mut(0..tokens * top_k),
            )
        };
        starts.fill(0);
        // SAFETY: passed on.
        let chosen = |t: usize| route::chosen(unsafe { route.row(t) });
        (0..tokens).flat_map(chosen).for_each(|(e, _)| starts[e + 1] += 1);
        for e in 0..self.experts {
            starts[e + 1] += starts[e];
        }
        // Each expert's start moves to its end while its pairs are placed, and is moved back afterwards.
        for (choice, (e, _)) in (0..tokens).flat_map(chosen).enumerate() {
            let pair = starts[e];
            starts[e] += 1;
            of_choice[choice] = pair;
            choices[pair as usize] = choice as u32;
        }
        starts.rotate_right(1);
        starts[0] = 0;
    }

    /// The pairs of an expert.
    ///
    /// # Safety
    /// Sorted before a barrier.
    pub(crate) unsafe fn of_expert(&self, expert: usize) -> Range<usize> {
        // SAFETY: passed on.
        let starts = unsafe { self.starts.part(expert..expert + 2) };
        starts[0] as usize..starts[1] as usize
    }

    /// The number of a pair's choice among those of all tokens, token by token.
    ///
    /// # Safety
    /// Sorted before a barrier.
    pub(crate) unsafe fn choice(&self, pair: usize) -> usize {
        // SAFETY: passed on.
        unsafe { self.choices.part(pair..pair + 1)[0] as usize }
    }

    /// The pairs of some choices, by their numbers among those of all tokens.
    ///
    /// # Safety
    /// Sorted before a barrier.
    pub(crate) unsafe fn of_choices(&self, choices: Range<usize>) -> &[u32] {
        // SAFETY: passed on.
        unsafe { self.of_choice.part(choices) }
    }
}
