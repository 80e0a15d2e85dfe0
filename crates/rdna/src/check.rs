//! What a kernel may do by the letter and still be wrong: races, reads of what nothing wrote, misaligned accesses.
//!
//! Races are found by vector clocks (Flanagan and Freund, "FastTrack", 2009): a wave's clock counts its releases; a barrier joins the
//! clocks of a workgroup, an atomic those of the waves that met at its address. Two accesses to a byte, one of them a write, are a
//! race if neither wave's clock covers the other's access, unless both are atomic. A flag that is passed by a plain store cannot be
//! told from data, and is reported.

use crate::{exec::Wave, fault::Kind, isa::LANES, uses::Uses};
use std::collections::HashMap;

/// Which checks are made. Accesses outside of allocations are always faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// Two waves touch a byte, one writing, with no barrier and no atomic in between.
    pub races: bool,
    /// Global or local memory is read that neither host nor kernel wrote.
    pub memory: bool,
    /// Registers are read that were not written.
    pub registers: bool,
    /// Addresses are not multiples of the element's size (at most 4; atomics are always checked).
    pub alignment: bool,
}

impl Checks {
    /// All of them.
    pub const ALL: Self = Self { races: true, memory: true, registers: true, alignment: true };
    /// None, for speed.
    pub const NONE: Self = Self { races: false, memory: false, registers: false, alignment: false };
}

/// Where an access goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Local,
    Private,
}

/// An access of some lanes.
pub(crate) struct Access<'a> {
    pub(crate) space: Space,
    pub(crate) addresses: &'a [u64; LANES],
    pub(crate) lanes: u32,
    pub(crate) bytes: u32,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) atomic: bool,
}

/// A fault that was found.
pub(crate) struct Found {
    pub(crate) kind: Kind,
    pub(crate) lanes: u32,
    pub(crate) address: u64,
    pub(crate) detail: String,
}

/// Who, and when by its own clock. Wave 0 is nobody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stamp {
    wave: u32,
    time: u32,
}

/// What is known of a byte.
#[derive(Debug, Clone, Copy, Default)]
struct Shadow {
    write: Stamp,
    read: Stamp,
    /// One more than the place of further readers in [`Checker::readers`].
    readers: u32,
    atomic: bool,
    written: bool,
}

const PAGE: u64 = 4096;

/// For each wave the latest time that is ordered before.
#[derive(Debug, Clone, Default)]
struct Clock(HashMap<u32, u32>);

impl Clock {
    fn join(&mut self, other: &Self) {
        for (&wave, &time) in &other.0 {
            let mine = self.0.entry(wave).or_default();
            *mine = (*mine).max(time);
        }
    }

    fn covers(&self, stamp: Stamp) -> bool {
        self.0.get(&stamp.wave).is_some_and(|&time| time >= stamp.time)
    }
}

/// The state of all checks; outlives a launch, so that memory written by one may be read by the next.
#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) checks: Checks,
    global: HashMap<u64, Box<[Shadow]>>,
    local: Vec<Shadow>,
    readers: Vec<Vec<Stamp>>,
    clocks: HashMap<u32, Clock>,
    meetings: HashMap<(bool, u64), Clock>,
    /// Waves below this belong to earlier launches, which are complete.
    first: u32,
    next: u32,
    /// Registers that were written: for each wave lanes of VGPRs, and SGPRs.
    registers: HashMap<u32, Box<Written>>,
    /// Private memory that was written.
    private: HashMap<u32, Vec<bool>>,
    /// Lanes in which the running instruction loaded what was not written.
    undefined_loads: u32,
}

#[derive(Debug)]
struct Written {
    lanes: [u32; 256],
    scalars: [bool; 128],
}

impl Checker {
    pub(crate) fn new(checks: Checks) -> Self {
        Self {
            checks,
            global: HashMap::new(),
            local: Vec::new(),
            readers: Vec::new(),
            clocks: HashMap::new(),
            meetings: HashMap::new(),
            first: 1,
            next: 1,
            registers: HashMap::new(),
            private: HashMap::new(),
            undefined_loads: 0,
        }
    }

    /// The host wrote memory.
    pub(crate) fn host_wrote(&mut self, address: u64, bytes: u64) {
        for at in address..address + bytes {
            *self.global_shadow(at) = Shadow { written: true, ..Shadow::default() };
        }
    }

    fn global_shadow(&mut self, at: u64) -> &mut Shadow {
        let page = self.global.entry(at / PAGE).or_insert_with(|| vec![Shadow::default(); PAGE as usize].into_boxed_slice());
        &mut page[(at % PAGE) as usize]
    }

    /// A launch begins: what was done before is ordered before it.
    pub(crate) fn begin_launch(&mut self) {
        self.first = self.next;
        self.clocks.clear();
        self.meetings.clear();
        self.readers.clear();
    }

    /// A workgroup with so much LDS begins.
    pub(crate) fn begin_group(&mut self, lds: usize) {
        self.local = vec![Shadow::default(); lds];
        self.meetings.retain(|(local, _), _| !local);
        self.registers.clear();
        self.private.clear();
    }

    /// A wave begins with these registers set; gives its number for the clocks.
    pub(crate) fn begin_wave(&mut self, scalars: usize, vectors: usize, exec: u32) -> u32 {
        let wave = self.next;
        self.next += 1;
        self.clocks.insert(wave, Clock(HashMap::from([(wave, 1)])));
        let mut written = Box::new(Written { lanes: [0; 256], scalars: [false; 128] });
        written.scalars[..scalars].fill(true);
        written.scalars[108..].fill(true);
        written.lanes[..vectors].fill(exec);
        self.registers.insert(wave, written);
        wave
    }

    /// The waves of a workgroup met at a barrier.
    pub(crate) fn barrier(&mut self, waves: &[u32]) {
        let mut all = Clock::default();
        for wave in waves {
            if let Some(clock) = self.clocks.get(wave) {
                all.join(clock);
            }
        }
        for &wave in waves {
            let mut clock = all.clone();
            *clock.0.entry(wave).or_default() += 1;
            self.clocks.insert(wave, clock);
        }
    }

    /// Looks at an access before it happens.
    pub(crate) fn access(&mut self, wave: &Wave, access: &Access<'_>) -> Result<(), Found> {
        if self.checks.alignment {
            let wanted = u64::from(if access.bytes >= 4 { 4 } else { access.bytes });
            let lanes = (0..LANES).filter(|&l| access.lanes >> l & 1 == 1 && !access.addresses[l].is_multiple_of(wanted));
            let lanes = lanes.fold(0u32, |mask, l| mask | 1 << l);
            if lanes != 0 {
                let address = access.addresses[lanes.trailing_zeros() as usize];
                return Err(Found { kind: Kind::Misaligned, lanes, address, detail: format!("wanted a multiple of {wanted}") });
            }
        }
        if !self.checks.races && !self.checks.memory {
            return Ok(());
        }
        for l in (0..LANES).filter(|l| access.lanes >> l & 1 == 1) {
            self.lane_access(wave, l, access)?;
        }
        Ok(())
    }

    fn lane_access(&mut self, wave: &Wave, lane: usize, access: &Access<'_>) -> Result<(), Found> {
        let address = access.addresses[lane];
        let found = |kind, at, detail| Err(Found { kind, lanes: 1 << lane, address: at, detail });
        if access.space == Space::Private {
            self.private_access(wave, lane, access);
            return Ok(());
        }
        let local = access.space == Space::Local;
        if local && address + u64::from(access.bytes) > self.local.len() as u64 {
            return Ok(()); // the access itself will be the fault
        }
        if access.atomic && self.checks.races {
            // Acquires what the waves before have released here.
            if let (Some(met), Some(clock)) = (self.meetings.get(&(local, address)), self.clocks.get_mut(&wave.global)) {
                clock.join(met);
            }
        }
        for at in address..address + u64::from(access.bytes) {
            let mut shadow = if local { self.local[at as usize] } else { *self.global_shadow(at) };
            if access.reads && self.checks.memory && !shadow.written {
                return found(Kind::Uninitialized, at, "nothing has written this byte".into());
            }
            if self.checks.races
                && let Some(other) = self.conflict(wave.global, &shadow, access)
            {
                let how = if access.writes { "writes" } else { "reads" };
                return found(
                    Kind::Race,
                    at,
                    format!("wave {} {how} what wave {} touched unordered", self.place(wave.global), self.place(other)),
                );
            }
            self.note(wave.global, &mut shadow, access);
            if local {
                self.local[at as usize] = shadow;
            } else {
                *self.global_shadow(at) = shadow;
            }
        }
        if access.atomic && self.checks.races {
            self.release(wave.global, (local, address));
        }
        Ok(())
    }

    /// Waves are counted from the launch's first.
    fn place(&self, wave: u32) -> u32 {
        wave.saturating_sub(self.first)
    }

    fn release(&mut self, wave: u32, key: (bool, u64)) {
        if let Some(clock) = self.clocks.get_mut(&wave) {
            self.meetings.entry(key).or_default().join(clock);
            *clock.0.entry(wave).or_default() += 1;
        }
    }

    /// A wave whose access to the byte is not ordered with this one.
    fn conflict(&self, wave: u32, shadow: &Shadow, access: &Access<'_>) -> Option<u32> {
        let clock = self.clocks.get(&wave)?;
        let unordered = |stamp: Stamp| stamp.wave >= self.first && stamp.wave != wave && !clock.covers(stamp);
        let both_atomic = access.atomic && shadow.atomic;
        if unordered(shadow.write) && !both_atomic {
            return Some(shadow.write.wave);
        }
        if !access.writes {
            return None;
        }
        if shadow.read.wave < self.first {
            return None;
        }
        if unordered(shadow.read) {
            return Some(shadow.read.wave);
        }
        let others = shadow.readers.checked_sub(1).and_then(|i| self.readers.get(i as usize))?;
        others.iter().find(|&&stamp| unordered(stamp)).map(|stamp| stamp.wave)
    }

    fn note(&mut self, wave: u32, shadow: &mut Shadow, access: &Access<'_>) {
        let time = self.clocks.get(&wave).and_then(|c| c.0.get(&wave)).copied().unwrap_or(1);
        let stamp = Stamp { wave, time };
        if access.writes {
            *shadow = Shadow { write: stamp, atomic: access.atomic, written: true, ..Shadow::default() };
            return;
        }
        if shadow.read.wave < self.first {
            // The list of further readers was that of an earlier launch.
            (shadow.read, shadow.readers) = (stamp, 0);
            return;
        }
        if shadow.read.wave == wave {
            shadow.read = stamp;
            return;
        }
        match shadow.readers.checked_sub(1).and_then(|i| self.readers.get_mut(i as usize)) {
            Some(list) => match list.iter_mut().find(|s| s.wave == wave) {
                Some(mine) => *mine = stamp,
                None => list.push(stamp),
            },
            None => {
                self.readers.push(vec![stamp]);
                shadow.readers = self.readers.len() as u32;
            }
        }
    }

    /// Spills save registers that nothing wrote, so that a load from scratch gives an undefined value rather than a fault.
    fn private_access(&mut self, wave: &Wave, lane: usize, access: &Access<'_>) {
        let size = wave.scratch_lane as usize;
        let start = access.addresses[lane] as usize;
        if start + access.bytes as usize > size {
            return;
        }
        let written = self.private.entry(wave.global).or_insert_with(|| vec![false; size * LANES]);
        for slot in &mut written[lane * size + start..][..access.bytes as usize] {
            if access.reads && !*slot {
                self.undefined_loads |= 1 << lane;
            }
            *slot |= access.writes;
        }
    }

    /// Looks at the registers that an instruction reads: gives for its low and high results the lanes in which they are defined.
    ///
    /// Compilers read registers that nothing wrote where the result does not matter, so that arithmetic on them only makes its result
    /// undefined. What decides (addresses, stored data, comparisons, values that become scalars) has to be defined, and so does what a
    /// scalar operation reads.
    pub(crate) fn registers_read(&mut self, wave: &Wave, uses: &Uses) -> Result<[u32; 2], Found> {
        self.undefined_loads = 0;
        let Some(written) = self.registers.get(&wave.global).filter(|_| self.checks.registers) else { return Ok([u32::MAX; 2]) };
        let found = |lanes, detail| Err(Found { kind: Kind::Uninitialized, lanes, address: 0, detail });
        let mut defined = [u32::MAX; 2];
        for (register, high_only) in uses.vectors_read() {
            let missing = wave.exec() & !written.lanes[register];
            if missing != 0 && uses.decides {
                return found(missing, format!("v{register} is undefined in these lanes"));
            }
            defined[1] &= !missing;
            defined[0] &= if high_only { u32::MAX } else { !missing };
        }
        match uses.scalars_read().find(|&r| !written.scalars[r]) {
            // A copy to lanes whose value does not matter, as above.
            Some(_) if uses.keeps_definedness && !uses.decides => Ok([0; 2]),
            Some(register) => found(0, format!("s{register} was not written")),
            None => Ok(defined),
        }
    }

    /// Notes the registers that an instruction has written in the lanes of `exec`, and where they are defined.
    pub(crate) fn registers_written(&mut self, wave: u32, uses: &Uses, exec: u32, defined: [u32; 2]) {
        if let Some(written) = self.registers.get_mut(&wave) {
            let lanes = if uses.all_lanes { u32::MAX } else { exec };
            for (register, high) in uses.vectors_written() {
                let defined = if uses.keeps_definedness { defined[usize::from(high)] } else { !self.undefined_loads };
                written.lanes[register] = written.lanes[register] & !lanes | lanes & defined;
            }
            for register in uses.scalars_written() {
                written.scalars[register] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two waves read a byte in one launch, two others another byte in the next: a write to the first byte is none of their business.
    #[test]
    fn readers_of_an_earlier_launch_are_forgotten() {
        let mut checker = Checker::new(Checks { races: true, ..Checks::NONE });
        let touch = |checker: &mut Checker, address: u64, writes: bool| {
            let mut wave = Wave::new(0, 0);
            wave.global = checker.begin_wave(0, 0, 1);
            let addresses = [address; LANES];
            let access = Access { space: Space::Global, addresses: &addresses, lanes: 1, bytes: 4, reads: !writes, writes, atomic: false };
            checker.access(&wave, &access)
        };
        checker.begin_launch();
        for _ in 0..3 {
            assert!(touch(&mut checker, 0x1000, false).is_ok());
        }
        checker.begin_launch();
        for _ in 0..3 {
            assert!(touch(&mut checker, 0x2000, false).is_ok());
        }
        assert!(touch(&mut checker, 0x1000, true).is_ok());
        // Within a launch each of three readers is remembered.
        assert!(touch(&mut checker, 0x2000, true).is_err());
    }
}
