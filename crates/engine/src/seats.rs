//! Which numbered place each running sequence has, and who had it last: what people who watch a server are told of single requests.

use crate::SlotStatus;
use crate::sequence::Sequence;

/// The numbers from 0 up to the most sequences that run at once.
#[derive(Debug)]
pub(crate) struct Seats {
    status: Vec<SlotStatus>,
    /// What the last sequence of each was made of; none where that was not only tokens.
    tokens: Vec<Option<Vec<u32>>>,
}

impl Seats {
    pub(crate) fn new(n: usize) -> Self {
        Self { status: vec![SlotStatus::default(); n], tokens: vec![Some(vec![]); n] }
    }

    /// Gives the sequence the lowest free number.
    pub(crate) fn take(&mut self, sequence: &mut Sequence) {
        sequence.seat = self.status.iter().position(|status| !status.is_running);
        self.see(sequence);
    }

    /// Notes how far the sequence is.
    pub(crate) fn see(&mut self, sequence: &Sequence) {
        if let Some(status) = sequence.seat.and_then(|seat| self.status.get_mut(seat)) {
            *status = sequence.status();
        }
    }

    /// Takes its number back. What is known of it stays until another gets the number.
    pub(crate) fn leave(&mut self, sequence: &mut Sequence) {
        self.see(sequence);
        let Some(seat) = sequence.seat.take() else { return };
        self.status[seat].is_running = false;
        self.tokens[seat] = sequence.only_tokens().map(<[u32]>::to_vec);
    }

    /// Says that these tokens were the last that ran there.
    pub(crate) fn put(&mut self, seat: usize, tokens: Vec<u32>) {
        self.tokens[seat] = Some(tokens);
    }

    /// What the last sequence there was made of, which does not run any more; none where that was not only tokens.
    pub(crate) fn tokens(&self, seat: usize) -> Option<&[u32]> {
        self.tokens[seat].as_deref()
    }

    pub(crate) fn status(&self) -> &[SlotStatus] {
        &self.status
    }
}
