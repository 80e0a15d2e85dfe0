//! The key/value cache of one layer.
//!
//! A page is cut into groups of sixteen positions (the last may have fewer). For each page and head the cache holds the
//! groups' keys, transposed, and the groups' values as they come:
//!
//! ```text
//! keys    [page][head][group][key][16 positions]     sixteen scores at a time, without sums across lanes
//! values  [page][head][group][16 positions][value]   sixteen numbers of the output at a time
//! scales  [page][head][group][keys', values'][16 positions]   only where cells are whole numbers
//! ```

use super::cell::{Cell, scale_bytes};
use crate::{
    exec::shared::{Plain, Shared},
    isa::Isa,
    ops::simd::{Kernel, LANES, Simd, dispatch},
};
use onebit_plan::DeviceError;

/// Sizes of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    /// Key/value heads.
    pub(crate) heads: usize,
    /// Numbers in a key.
    pub(crate) key: usize,
    /// Numbers in a value.
    pub(crate) value: usize,
    /// Positions in a page.
    pub(crate) page: usize,
    /// Pages.
    pub(crate) pages: usize,
}

impl Shape {
    /// Groups in a page.
    pub(crate) fn groups(&self) -> usize {
        self.page.div_ceil(LANES)
    }
    /// Numbers of a value as stored.
    pub(crate) fn value_padded(&self) -> usize {
        self.value.next_multiple_of(LANES)
    }
    /// Numbers of the keys of a page.
    fn page_keys(&self) -> usize {
        self.heads * self.groups() * LANES * self.key
    }
    /// Numbers of the values of a page.
    fn page_values(&self) -> usize {
        self.heads * self.groups() * LANES * self.value_padded()
    }
    /// Scales of a page, where it has some.
    fn page_scales(&self) -> usize {
        self.heads * self.groups() * 2 * LANES
    }
    /// Bytes of the whole cache.
    pub(crate) fn bytes<C: Cell>(&self) -> usize {
        let page = (self.page_keys() + self.page_values()) * size_of::<C>() + self.page_scales() * scale_bytes::<C>();
        self.pages.saturating_mul(page)
    }
}

/// Keys and values of one layer, all pages.
pub(crate) struct Cache<C> {
    pub(crate) shape: Shape,
    keys: Shared<C>,
    values: Shared<C>,
    scales: Shared<f32>,
}

/// Which scales of a group.
#[derive(Clone, Copy)]
enum Of {
    Keys,
    Values,
}

impl<C: Cell> Cache<C> {
    /// An empty cache. Its memory is only taken where it is written.
    pub(crate) fn new(shape: Shape) -> Result<Self, DeviceError> {
        let numbers = |page: usize| Shared::new(shape.pages.saturating_mul(page));
        let scales = Shared::new(if C::WHOLE.is_some() { shape.pages.saturating_mul(shape.page_scales()) } else { 0 })?;
        Ok(Self { shape, keys: numbers(shape.page_keys())?, values: numbers(shape.page_values())?, scales })
    }
    fn block(&self, page: u32, head: usize, group: usize) -> usize {
        (page as usize * self.shape.heads + head) * self.shape.groups() + group
    }
    /// The keys of a group, `[key][16]`.
    ///
    /// # Safety
    /// No thread writes to the group while the reference lives.
    pub(crate) unsafe fn keys(&self, page: u32, head: usize, group: usize) -> &[C] {
        let n = LANES * self.shape.key;
        let at = self.block(page, head, group) * n;
        // SAFETY: passed on.
        unsafe { self.keys.part(at..at + n) }
    }
    /// The values of a group, `[16][value_padded]`.
    ///
    /// # Safety
    /// No thread writes to the group while the reference lives.
    pub(crate) unsafe fn values(&self, page: u32, head: usize, group: usize) -> &[C] {
        let n = LANES * self.shape.value_padded();
        let at = self.block(page, head, group) * n;
        // SAFETY: passed on.
        unsafe { self.values.part(at..at + n) }
    }
    fn scales(&self, of: Of, block: usize) -> std::ops::Range<usize> {
        let at = (2 * block + of as usize) * LANES;
        at..at + LANES
    }
    /// What the numbers of the keys of a group are multiples of, where they are whole.
    ///
    /// # Safety
    /// As for [`Cache::keys`].
    #[inline(always)]
    pub(crate) unsafe fn key_scales(&self, page: u32, head: usize, group: usize) -> Option<&[f32; LANES]> {
        // SAFETY: passed on.
        unsafe { self.scales_of(Of::Keys, page, head, group) }
    }
    /// What the numbers of the values of a group are multiples of, where they are whole.
    ///
    /// # Safety
    /// As for [`Cache::values`].
    #[inline(always)]
    pub(crate) unsafe fn value_scales(&self, page: u32, head: usize, group: usize) -> Option<&[f32; LANES]> {
        // SAFETY: passed on.
        unsafe { self.scales_of(Of::Values, page, head, group) }
    }
    #[inline(always)]
    unsafe fn scales_of(&self, of: Of, page: u32, head: usize, group: usize) -> Option<&[f32; LANES]> {
        C::WHOLE?;
        // SAFETY: passed on.
        unsafe { self.scales.part(self.scales(of, self.block(page, head, group))) }.first_chunk()
    }
    /// Where a position is: its page, its group there, its place in that.
    fn place(&self, pages: &[u32], position: usize) -> (u32, usize, usize) {
        let offset = position % self.shape.page;
        (pages[position / self.shape.page], offset / LANES, offset % LANES)
    }
    /// Gives each number of the key at a position of a sequence to `to`, with its index.
    ///
    /// # Safety
    /// No thread writes to the position's group meanwhile.
    pub(crate) unsafe fn key(&self, pages: &[u32], head: usize, position: usize, mut to: impl FnMut(usize, f32)) {
        let (page, group, lane) = self.place(pages, position);
        // SAFETY: passed on.
        let (keys, scales) = unsafe { (self.keys(page, head, group), self.key_scales(page, head, group)) };
        let scale = scales.map_or(1.0, |scales| scales[lane]);
        keys.as_chunks::<LANES>().0.iter().enumerate().for_each(|(j, k)| to(j, k[lane].get() * scale));
    }
    /// The value at a position of a sequence, padded, and what its numbers are multiples of.
    ///
    /// # Safety
    /// No thread writes to the position's group while the reference lives.
    pub(crate) unsafe fn value(&self, pages: &[u32], head: usize, position: usize) -> (&[C], f32) {
        let (page, group, lane) = self.place(pages, position);
        let n = self.shape.value_padded();
        // SAFETY: passed on.
        let (values, scales) = unsafe { (self.values(page, head, group), self.value_scales(page, head, group)) };
        (&values[lane * n..(lane + 1) * n], scales.map_or(1.0, |scales| scales[lane]))
    }
    /// Stores the key and value of all heads for one position.
    ///
    /// # Safety
    /// No other thread reads the group, or writes this position, meanwhile.
    pub(crate) unsafe fn append(&self, isa: Isa, page: u32, offset: usize, k: &[f32], v: &[f32]) {
        dispatch(isa, Append { cache: self, page, offset, k, v });
    }
    /// Copies a page.
    ///
    /// # Safety
    /// No other thread uses the cache meanwhile.
    pub(crate) unsafe fn copy_page(&self, from: u32, to: u32) {
        // SAFETY: passed on.
        unsafe {
            copy_page(&self.keys, self.shape.page_keys(), from, to);
            copy_page(&self.values, self.shape.page_values(), from, to);
            if C::WHOLE.is_some() {
                copy_page(&self.scales, self.shape.page_scales(), from, to);
            }
        }
    }
    /// Bytes of a page: keys, values, and scales where there are any.
    pub(crate) fn page_bytes(&self) -> usize {
        let scales = if C::WHOLE.is_some() { self.shape.page_scales() * size_of::<f32>() } else { 0 };
        (self.shape.page_keys() + self.shape.page_values()) * size_of::<C>() + scales
    }
    /// Shows the bytes of a page, in the same order.
    ///
    /// # Safety
    /// No other thread uses the cache meanwhile.
    pub(crate) unsafe fn show_page(&self, page: u32, show: &mut dyn FnMut(&mut [u8])) {
        // SAFETY: passed on.
        unsafe {
            show(bytes_of_page(&self.keys, self.shape.page_keys(), page));
            show(bytes_of_page(&self.values, self.shape.page_values(), page));
            if C::WHOLE.is_some() {
                show(bytes_of_page(&self.scales, self.shape.page_scales(), page));
            }
        }
    }
}

/// One page of `n` numbers.
///
/// # Safety
/// No other reference to it, in any thread, lives while this one does.
#[allow(clippy::mut_from_ref)] // as `Shared::part_mut`
unsafe fn bytes_of_page<T: Plain>(numbers: &Shared<T>, n: usize, page: u32) -> &mut [u8] {
    // SAFETY: passed on; the range is checked there.
    unsafe { numbers.bytes_mut(page as usize * n..(page as usize + 1) * n) }
}

/// Copies one page of `n` numbers.
///
/// # Safety
/// No other thread uses the memory meanwhile.
unsafe fn copy_page<T: Plain>(numbers: &Shared<T>, n: usize, from: u32, to: u32) {
    let (from, to) = (from as usize * n, to as usize * n);
    assert!(from + n <= numbers.len() && to + n <= numbers.len(), "a page does not exist");
    if from != to {
        // SAFETY: both parts are inside and do not overlap, and the caller keeps all others away.
        unsafe { std::ptr::copy_nonoverlapping(numbers.as_ptr().add(from), numbers.as_ptr().add(to), n) };
    }
}

struct Append<'a, C> {
    cache: &'a Cache<C>,
    page: u32,
    offset: usize,
    k: &'a [f32],
    v: &'a [f32],
}

impl<C: Cell> Kernel for Append<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let shape = self.cache.shape;
        let (group, lane) = (self.offset / LANES, self.offset % LANES);
        for head in 0..shape.heads {
            // Either may have no numbers at all.
            let (k, v) = (&self.k[head * shape.key..][..shape.key], &self.v[head * shape.value..][..shape.value]);
            let block = self.cache.block(self.page, head, group);
            let (nk, nv) = (LANES * shape.key, shape.value_padded());
            assert!((block + 1) * nk <= self.cache.keys.len());
            let [for_keys, for_values] = [(Of::Keys, k), (Of::Values, v)].map(|(of, numbers)| match C::WHOLE {
                Some(whole) => {
                    let (factor, scale) = factor_and_scale(s, numbers, whole);
                    let scales = self.cache.scales(of, block);
                    assert!(scales.end <= self.cache.scales.len());
                    // SAFETY: inside; the lane is this thread's alone, as below.
                    unsafe { *self.cache.scales.as_ptr().add(scales.start + lane) = scale };
                    factor
                }
                None => 1.0,
            });
            for (i, k) in k.chunks(LANES).enumerate() {
                let mut cells = [C::ZERO; LANES];
                C::store(s, scaled::<S, C>(s, s.load_some(k, 0.0), for_keys), &mut cells);
                for (j, cell) in cells[..k.len()].iter().enumerate() {
                    // SAFETY: lane `lane` of row `i * LANES + j` of the block, which was found to be inside. Other threads may
                    // write other lanes meanwhile, so that no reference to the row is made.
                    unsafe { *self.cache.keys.as_ptr().add(block * nk + (i * LANES + j) * LANES + lane) = *cell };
                }
            }
            let at = (block * LANES + lane) * nv;
            // SAFETY: the values of this position alone, which is this thread's (see `append`).
            let row = unsafe { self.cache.values.part_mut(at..at + nv) };
            for (v, out) in v.chunks(LANES).zip(row.as_chunks_mut::<LANES>().0) {
                C::store(s, scaled::<S, C>(s, s.load_some(v, 0.0), for_values), out);
            }
        }
    }
}

/// `v * factor`, where cells are whole numbers.
#[inline(always)]
fn scaled<S: Simd, C: Cell>(s: S, v: S::V, factor: f32) -> S::V {
    if C::WHOLE.is_some() { s.mul(v, s.splat(factor)) } else { v }
}

/// What numbers are multiplied with to become whole ones up to `whole`, and what these are multiples of then.
#[inline(always)]
fn factor_and_scale<S: Simd>(s: S, numbers: &[f32], whole: f32) -> (f32, f32) {
    let zero = s.splat(0.0);
    let largest = numbers.chunks(LANES).fold(zero, |largest, x| {
        let x = s.load_some(x, 0.0);
        s.max(s.max(x, s.sub(zero, x)), largest)
    });
    let largest = s.largest(largest);
    if largest > 0.0 { (whole / largest, largest / whole) } else { (0.0, 0.0) }
}
