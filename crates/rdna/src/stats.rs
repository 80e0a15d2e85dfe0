//! What a launch executed: what a model of time needs.

use crate::{
    isa::{Encoding, Memory, Run},
    program::{Program, class},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// For each instruction of a program how often it ran, and in how many lanes.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) executed: Vec<u64>,
    pub(crate) lanes: Vec<u64>,
    pub(crate) instructions: u64,
}

impl Counts {
    pub(crate) fn new(length: usize) -> Self {
        Self { executed: vec![0; length], lanes: vec![0; length], instructions: 0 }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, n) in self.executed.iter_mut().zip(&other.executed) {
            *sum += n;
        }
        for (sum, n) in self.lanes.iter_mut().zip(&other.lanes) {
            *sum += n;
        }
        self.instructions += other.instructions;
    }
}

/// Bytes that lanes asked for, not what caches moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Read from global memory by lanes.
    pub global_read: u64,
    /// Written to global memory by lanes.
    pub global_written: u64,
    /// Read by scalar loads.
    pub scalar_read: u64,
    /// Read from LDS.
    pub local_read: u64,
    /// Written to LDS.
    pub local_written: u64,
    /// Read from scratch.
    pub scratch_read: u64,
    /// Written to scratch.
    pub scratch_written: u64,
}

/// What a launch executed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Workgroups.
    pub workgroups: u64,
    /// Waves of each.
    pub waves_per_workgroup: u32,
    /// Instructions of waves.
    pub instructions: u64,
    /// Of these by class.
    pub classes: BTreeMap<&'static str, u64>,
    /// Of these by name.
    pub operations: BTreeMap<&'static str, u64>,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Lanes' dot products (4 or 8 multiplications each; 2 for floats).
    pub dot_products: u64,
    /// Matrix instructions of waves: 4096 multiplications each.
    pub matrix_products: u64,
}

impl Stats {
    pub(crate) fn new(program: &Program, workgroups: u64, waves: u32, counts: &Counts) -> Self {
        let mut stats = Self { workgroups, waves_per_workgroup: waves, ..Self::default() };
        for (code, (&executed, &lanes)) in program.codes.iter().zip(counts.executed.iter().zip(&counts.lanes)) {
            if executed == 0 {
                continue;
            }
            let inst = &code.inst;
            let class = class(inst);
            stats.instructions += executed;
            *stats.classes.entry(class).or_default() += executed;
            *stats.operations.entry(inst.name).or_default() += executed;
            match class {
                "dot" => stats.dot_products += lanes,
                "matrix" => stats.matrix_products += executed,
                _ => {}
            }
            if let Run::Memory(memory) = inst.op.run {
                stats.bytes.add(inst.encoding, memory, executed, lanes);
            }
        }
        stats
    }
}

impl Bytes {
    fn add(&mut self, encoding: Encoding, memory: Memory, executed: u64, lanes: u64) {
        let (bytes, reads, writes) = match memory {
            Memory::Load { bytes, .. } => (bytes, true, false),
            Memory::Store { bytes, .. } => (bytes, false, true),
            Memory::Atomic { bytes, .. } => (bytes, true, true),
            Memory::Load2 { bytes, .. } => (2 * bytes, true, false),
            Memory::Store2 { bytes, .. } => (2 * bytes, false, true),
            Memory::Exchange2 { bytes, .. } => (2 * bytes, true, true),
            Memory::LoadLane => (4, true, false),
            Memory::StoreLane => (4, false, true),
        };
        let bytes = u64::from(bytes);
        let (read, written) = match encoding {
            Encoding::Smem => {
                self.scalar_read += bytes * executed;
                return;
            }
            Encoding::Ds => (&mut self.local_read, &mut self.local_written),
            Encoding::Scratch => (&mut self.scratch_read, &mut self.scratch_written),
            _ => (&mut self.global_read, &mut self.global_written),
        };
        *read += if reads { bytes * lanes } else { 0 };
        *written += if writes { bytes * lanes } else { 0 };
    }
}
