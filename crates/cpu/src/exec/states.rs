//! What sequences carry from step to step.

use super::shared::Shared;
use crate::ops::{
    attention::{Brain, Cache, Cell, Shape},
    gated_delta::GatedDelta,
    selective_scan::Layout,
};
use onebit_plan::{Cached, DeviceError, KvType, Limits, Op, Plan, State};
use std::{ops::Range, sync::Arc};

/// A fixed state: the same count of numbers for each slot.
pub(crate) struct Slots {
    memory: Shared<f32>,
    each: usize,
}

impl Slots {
    fn new(slots: usize, each: usize) -> Result<Self, DeviceError> {
        Ok(Self { memory: Shared::new(slots.saturating_mul(each))?, each })
    }
    /// Part of a slot.
    ///
    /// # Safety
    /// No other reference to it, in any thread, lives while this one does.
    #[allow(clippy::mut_from_ref)] // threads have parts of their own
    pub(crate) unsafe fn part_mut(&self, slot: usize, part: Range<usize>) -> &mut [f32] {
        assert!(part.end <= self.each);
        // SAFETY: passed on.
        unsafe { self.memory.part_mut(slot * self.each + part.start..slot * self.each + part.end) }
    }
    /// Copies a slot; nobody else uses the state meanwhile.
    fn copy(&self, from: usize, to: usize) {
        if from != to {
            // SAFETY: different slots, and the executable is borrowed for writing (see `States::copy_slots`).
            unsafe { self.part_mut(to, 0..self.each).copy_from_slice(self.part_mut(from, 0..self.each)) };
        }
    }
}

/// Keys and values of one layer.
pub(crate) enum Kv {
    F16(Arc<Cache<u16>>),
    Bf16(Arc<Cache<Brain>>),
    Q8(Arc<Cache<i8>>),
    F32(Arc<Cache<f32>>),
}

/// Does the same with a cache, whatever its cells are.
macro_rules! with_cache {
    ($kv:expr, $cache:ident => $do:expr) => {
        match $kv {
            Kv::F16($cache) => $do,
            Kv::Bf16($cache) => $do,
            Kv::Q8($cache) => $do,
            Kv::F32($cache) => $do,
        }
    };
}
pub(crate) use with_cache;

enum Held {
    Kv(Kv),
    Fixed(Arc<Slots>),
}

/// All states of a plan.
pub(crate) struct States {
    held: Vec<Held>,
    slots: usize,
    pages: usize,
}

fn kv_shape(state: &State, limits: &Limits) -> Option<Shape> {
    match state {
        State::Kv { heads, key, value, .. } => {
            Some(Shape { heads: *heads, key: *key, value: *value, page: limits.page, pages: limits.pages })
        }
        State::Fixed { .. } => None,
    }
}

/// Numbers that a fixed state has in each slot; recurrent matrices are padded.
fn fixed_len(plan: &Plan, index: usize) -> usize {
    let user = plan.ops.iter().find(|o| o.state().is_some_and(|s| s.0 as usize == index));
    match (&plan.states[index], user) {
        (State::Fixed { .. }, Some(Op::GatedDelta(d))) => GatedDelta::state_len(d.v_heads, d.key, d.value),
        (State::Fixed { .. }, Some(Op::LinearAttention(l))) => GatedDelta::state_len(l.heads, l.key, l.value),
        (State::Fixed { .. }, Some(Op::SelectiveScan(s))) => Layout::new(s).state_len(),
        (State::Fixed { shape }, _) => shape.iter().product(),
        (State::Kv { .. }, _) => 0,
    }
}

impl States {
    /// Bytes of keys and values, and of slots.
    pub(crate) fn bytes(plan: &Plan, limits: &Limits) -> (usize, usize) {
        let bytes = |shape: Shape| match limits.kv {
            KvType::F16 => shape.bytes::<u16>(),
            KvType::Bf16 => shape.bytes::<Brain>(),
            KvType::Q8 => shape.bytes::<i8>(),
            KvType::F32 => shape.bytes::<f32>(),
        };
        let kv = plan.states.iter().filter_map(|s| kv_shape(s, limits)).map(bytes).fold(0, usize::saturating_add);
        let fixed: usize = (0..plan.states.len()).map(|i| fixed_len(plan, i)).sum();
        (kv, fixed.saturating_mul(limits.slots).saturating_mul(4))
    }
    /// Takes the memory, which the system gives when it is first written.
    pub(crate) fn new(plan: &Plan, limits: &Limits) -> Result<Self, DeviceError> {
        let held = plan.states.iter().enumerate().map(|(i, state)| match kv_shape(state, limits) {
            Some(shape) => Ok(Held::Kv(match limits.kv {
                KvType::F16 => Kv::F16(Arc::new(Cache::new(shape)?)),
                KvType::Bf16 => Kv::Bf16(Arc::new(Cache::new(shape)?)),
                KvType::Q8 => Kv::Q8(Arc::new(Cache::new(shape)?)),
                KvType::F32 => Kv::F32(Arc::new(Cache::new(shape)?)),
            })),
            None => Ok(Held::Fixed(Arc::new(Slots::new(limits.slots, fixed_len(plan, i))?))),
        });
        Ok(Self { held: held.collect::<Result<_, DeviceError>>()?, slots: limits.slots, pages: limits.pages })
    }
    /// The cache of an attention op.
    pub(crate) fn kv(&self, state: onebit_plan::StateId) -> Option<&Kv> {
        match &self.held[state.0 as usize] {
            Held::Kv(kv) => Some(kv),
            Held::Fixed(_) => None,
        }
    }
    /// The slots of a recurrent op.
    pub(crate) fn fixed(&self, state: onebit_plan::StateId) -> Option<&Arc<Slots>> {
        match &self.held[state.0 as usize] {
            Held::Fixed(slots) => Some(slots),
            Held::Kv(_) => None,
        }
    }
    /// Bytes of a page and of a slot.
    pub(crate) fn part_bytes(&self) -> [usize; 2] {
        self.held.iter().fold([0, 0], |[page, slot], held| match held {
            Held::Kv(kv) => [page + with_cache!(kv, c => c.page_bytes()), slot],
            Held::Fixed(slots) => [page, slot + slots.each * size_of::<f32>()],
        })
    }
    /// Shows the bytes of a page or a slot, piece by piece; refuses one that does not exist.
    pub(crate) fn show(&mut self, part: Cached, mut show: impl FnMut(&mut [u8])) -> Result<(), DeviceError> {
        let (index, count) = match part {
            Cached::Page(page) => (page as usize, self.pages),
            Cached::Slot(slot) => (slot as usize, self.slots),
        };
        if index >= count {
            return Err(DeviceError::Batch(format!("{part:?} does not exist: there are {count}")));
        }
        for held in &self.held {
            match (held, part) {
                // SAFETY: the executable is borrowed for writing, so that no step runs.
                (Held::Kv(kv), Cached::Page(page)) => with_cache!(kv, c => unsafe { c.show_page(page, &mut show) }),
                // SAFETY: as above.
                (Held::Fixed(s), Cached::Slot(_)) => show(unsafe { s.memory.bytes_mut(index * s.each..(index + 1) * s.each) }),
                _ => {}
            }
        }
        Ok(())
    }
    /// Copies slots (from, to), one after the other.
    pub(crate) fn copy_slots(&mut self, pairs: &[(u32, u32)]) {
        for (from, to) in pairs {
            assert!((*from.max(to) as usize) < self.slots, "slot {from} or {to} of {} does not exist", self.slots);
            for held in &self.held {
                if let Held::Fixed(slots) = held {
                    slots.copy(*from as usize, *to as usize);
                }
            }
        }
    }
    /// Copies pages (from, to), one after the other.
    pub(crate) fn copy_pages(&mut self, pairs: &[(u32, u32)]) {
        fn copy<C: Cell>(cache: &Cache<C>, from: u32, to: u32) {
            // SAFETY: the executable is borrowed for writing, so that no step runs.
            unsafe { cache.copy_page(from, to) };
        }
        for (from, to) in pairs {
            assert!((*from.max(to) as usize) < self.pages, "page {from} or {to} of {} does not exist", self.pages);
            for held in &self.held {
                if let Held::Kv(kv) = held {
                    with_cache!(kv, cache => copy(cache, *from, *to));
                }
            }
        }
    }
}
