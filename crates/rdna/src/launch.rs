//! A device: memory, loaded code objects, and launches of their kernels.

use crate::{
    check::{Checker, Checks},
    code_object::{CodeObject, Kernel},
    exec::{Exec, Flow, TURN, Wave},
    fault::{Fault, Kind, LoadError},
    isa::{Isa, LANES, Level},
    kernarg::{self, Arg, ArgumentError, Shape},
    memory::{Memory, MemoryError},
    program::{Program, Shared},
    stats::{Counts, Stats},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use thiserror::Error;

/// Why a launch did not run to its end.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The code object cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The arguments do not fit.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Grid or workgroup are impossible.
    #[error("kernel {kernel}: {why}")]
    Shape {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        why: String,
    },
    /// The kernel went wrong.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

/// How kernels are run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Threads over which workgroups are spread. With checks it is one, whatever this says.
    pub threads: usize,
    /// Checks to make.
    pub checks: Checks,
    /// Instructions after which a launch is taken to hang.
    pub max_instructions: u64,
    /// Level of the host's instruction set.
    pub level: Level,
    /// Prints each instruction to standard error.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: 1, checks: Checks::NONE, max_instructions: u64::MAX, level: Level::detect(), trace: false }
    }
}

/// A launch: workgroups, work-items of each, arguments.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// Workgroups along x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup along x, y, z.
    pub block: [u32; 3],
    /// The kernel's explicit arguments.
    pub args: &'a [Arg],
    /// LDS bytes beyond what the kernel declares.
    pub dynamic_lds: u32,
}

/// A code object in device memory.
#[derive(Debug)]
pub struct Module {
    object: CodeObject,
    base: u64,
    programs: HashMap<String, Shared>,
}

impl Module {
    /// The code object.
    #[must_use]
    pub fn object(&self) -> &CodeObject {
        &self.object
    }
}

/// Memory and options.
#[derive(Debug)]
pub struct Device {
    memory: Memory,
    options: Options,
    checker: Option<Checker>,
    isa: &'static Isa,
}

const QUEUE_BYTES: u64 = 64;

impl Device {
    /// A device without allocations.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let checker = (options.checks != Checks::NONE).then(|| Checker::new(options.checks));
        Self { memory: Memory::new(), options, checker, isa: Isa::of(options.level) }
    }

    /// Gives zeroed memory; `name` is for messages. With checks it counts as not written.
    ///
    /// # Errors
    /// See [`Memory::allocate`].
    pub fn allocate(&mut self, bytes: u64, name: &str) -> Result<u64, MemoryError> {
        self.memory.allocate(bytes, name)
    }

    /// Gives memory back.
    pub fn free(&mut self, address: u64) {
        self.memory.free(address);
    }

    /// Copies to the device.
    ///
    /// # Errors
    /// If the bytes do not lie within one allocation.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.memory.write(address, bytes)?;
        if let Some(checker) = &mut self.checker {
            checker.host_wrote(address, bytes.len() as u64);
        }
        Ok(())
    }

    /// Allocates memory and copies to it.
    ///
    /// # Errors
    /// See [`Memory::allocate`].
    pub fn upload(&mut self, bytes: &[u8], name: &str) -> Result<u64, MemoryError> {
        let address = self.allocate(bytes.len() as u64, name)?;
        self.write(address, bytes)?;
        Ok(address)
    }

    /// Copies from the device.
    ///
    /// # Errors
    /// If the bytes do not lie within one allocation.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        self.memory.read(address, bytes)
    }

    /// Copies words from the device.
    ///
    /// # Errors
    /// If they do not lie within one allocation.
    pub fn read_words(&self, address: u64, count: usize) -> Result<Vec<u32>, MemoryError> {
        let mut bytes = vec![0; count * 4];
        self.read(address, &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect())
    }

    /// Puts a code object into device memory, relocates it, and decodes its kernels.
    ///
    /// # Errors
    /// If it is broken or does not fit.
    pub fn load(&mut self, object: CodeObject) -> Result<Module, LaunchError> {
        let bytes = object.segments.iter().map(|s| s.address + s.bytes.len() as u64).max().unwrap_or(0);
        if bytes > 1 << 31 {
            return Err(LoadError::Malformed(format!("segments reach to {bytes:#x}: at most 2 GiB are loaded")).into());
        }
        let base = self.allocate(bytes, "code object")?;
        for segment in &object.segments {
            self.write(base + segment.address, &segment.bytes)?;
        }
        for relocation in &object.relocations {
            self.write(base + relocation.at, &base.wrapping_add_signed(relocation.addend).to_le_bytes())?;
        }
        let mut programs = HashMap::new();
        for kernel in &object.kernels {
            programs.insert(kernel.name.clone(), Arc::new(Program::new(&object, kernel, base, self.isa)?));
        }
        Ok(Module { object, base, programs })
    }

    /// Runs a kernel to its end.
    ///
    /// # Errors
    /// If it does not exist, shape or arguments do not fit, or it faults.
    pub fn launch(&mut self, module: &Module, kernel: &str, launch: &Launch<'_>) -> Result<Stats, LaunchError> {
        let kernel = module.object.kernel(kernel)?;
        let program =
            module.programs.get(&kernel.name).ok_or_else(|| LoadError::Malformed(format!("kernel {} was not decoded", kernel.name)))?;
        let plan = Plan::new(kernel, launch)?;
        if let Some(index) = program.index_of(kernel.entry) {
            let mut kernarg = kernarg::pack(kernel, launch.args)?;
            let shape = Shape { grid: launch.grid, block: launch.block, dynamic_lds: launch.dynamic_lds };
            kernarg::fill_hidden(kernel, &shape, &mut kernarg);
            let arguments = self.upload(&kernarg, "kernel arguments")?;
            let packet = self.upload(&plan.packet(arguments, module.base + kernel.entry), "dispatch packet")?;
            let result = self.run(kernel, program, &plan, index, arguments, packet);
            self.free(arguments);
            self.free(packet);
            return result;
        }
        Err(LoadError::Malformed(format!("kernel {}: no instruction at its entry {:#x}", kernel.name, kernel.entry)).into())
    }

    fn run(
        &mut self,
        kernel: &Kernel,
        program: &Program,
        plan: &Plan,
        entry: usize,
        arguments: u64,
        packet: u64,
    ) -> Result<Stats, LaunchError> {
        let run = Run {
            kernel,
            program,
            plan,
            entry,
            arguments,
            packet,
            memory: &self.memory,
            isa: self.isa,
            options: self.options,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            budget: AtomicU64::new(self.options.max_instructions),
        };
        if let Some(checker) = &mut self.checker {
            checker.begin_launch();
            let counts = run.groups(Some(checker))?;
            return Ok(Stats::new(program, plan.groups(), plan.waves(), &counts));
        }
        let threads = self.options.threads.clamp(1, plan.groups().min(1024) as usize);
        if threads == 1 {
            let counts = run.groups(None)?;
            return Ok(Stats::new(program, plan.groups(), plan.waves(), &counts));
        }
        let total = Mutex::new(Ok(Counts::new(program.codes.len())));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let result = run.groups(None);
                    let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match (&mut *total, result) {
                        (Ok(sum), Ok(counts)) => sum.add(&counts),
                        (sum @ Ok(_), Err(fault)) => *sum = Err(fault),
                        (Err(_), _) => {}
                    }
                });
            }
        });
        let counts = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)?;
        Ok(Stats::new(program, plan.groups(), plan.waves(), &counts))
    }
}

/// The shape of a launch, checked.
struct Plan {
    grid: [u32; 3],
    block: [u32; 3],
    lds: u32,
    scratch: u32,
}

impl Plan {
    fn new(kernel: &Kernel, launch: &Launch<'_>) -> Result<Self, LaunchError> {
        let refuse = |why: String| Err(LaunchError::Shape { kernel: kernel.name.clone(), why });
        let items: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
        let most = u64::from(if kernel.max_workgroup == 0 { 1024 } else { kernel.max_workgroup }).min(1024);
        if items == 0 || items > most {
            return refuse(format!("a workgroup of {:?} has {items} work-items: 1 to {most} are possible", launch.block));
        }
        let groups = launch.grid.iter().try_fold(1u64, |product, &n| product.checked_mul(n.into()));
        if groups.is_none_or(|n| n == 0 || n > 1 << 40) {
            return refuse(format!("a grid of {:?} workgroups", launch.grid));
        }
        let lds = u64::from(kernel.lds_bytes) + u64::from(launch.dynamic_lds);
        if lds > 65536 {
            return refuse(format!("{lds} bytes of LDS: a workgroup has at most 65536"));
        }
        Ok(Self { grid: launch.grid, block: launch.block, lds: lds as u32, scratch: kernel.scratch_bytes })
    }

    fn groups(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    /// Waves of a workgroup.
    fn waves(&self) -> u32 {
        self.block.iter().product::<u32>().div_ceil(LANES as u32)
    }

    /// The AQL packet (HSA System Architecture, 2.9.5).
    fn packet(&self, arguments: u64, object: u64) -> Vec<u8> {
        let mut packet = Vec::new();
        packet.extend(2u16.to_le_bytes());
        packet.extend(3u16.to_le_bytes());
        for n in self.block {
            packet.extend((n as u16).to_le_bytes());
        }
        packet.extend(0u16.to_le_bytes());
        for (groups, items) in self.grid.iter().zip(self.block) {
            packet.extend(groups.wrapping_mul(items).to_le_bytes());
        }
        packet.extend(self.scratch.to_le_bytes());
        packet.extend(self.lds.to_le_bytes());
        packet.extend(object.to_le_bytes());
        packet.extend(arguments.to_le_bytes());
        packet.resize(QUEUE_BYTES as usize, 0);
        packet
    }
}

/// What threads share while they run a launch.
struct Run<'a> {
    kernel: &'a Kernel,
    program: &'a Program,
    plan: &'a Plan,
    entry: usize,
    arguments: u64,
    packet: u64,
    memory: &'a Memory,
    isa: &'static Isa,
    options: Options,
    next: AtomicU64,
    stop: AtomicBool,
    budget: AtomicU64,
}

impl Run<'_> {
    /// Takes workgroups until there are none left.
    fn groups(&self, mut checker: Option<&mut Checker>) -> Result<Counts, Box<Fault>> {
        let mut counts = Counts::new(self.program.codes.len());
        let mut waves: Vec<Wave> = (0..self.plan.waves()).map(|_| Wave::new(self.kernel.descriptor.mode, self.plan.scratch)).collect();
        let mut lds = vec![0; self.plan.lds as usize];
        loop {
            let group = self.next.fetch_add(1, Ordering::Relaxed);
            if group >= self.plan.groups() || self.stop.load(Ordering::Relaxed) {
                return Ok(counts);
            }
            self.start(group, &mut waves, checker.as_deref_mut());
            lds.fill(0);
            if let Err(fault) = self.group(&mut waves, &mut lds, checker.as_deref_mut(), &mut counts) {
                self.stop.store(true, Ordering::Relaxed);
                return Err(fault);
            }
        }
    }

    /// Sets the registers of a workgroup's waves (AMDGPUUsage, "Initial Kernel Execution State").
    fn start(&self, group: u64, waves: &mut [Wave], mut checker: Option<&mut Checker>) {
        let [gx, gy, _] = self.plan.grid.map(u64::from);
        let place = [(group % gx) as u32, (group / gx % gy) as u32, (group / gx / gy) as u32];
        let [bx, by, _] = self.plan.block;
        let items: u32 = self.plan.block.iter().product();
        if let Some(checker) = checker.as_deref_mut() {
            checker.begin_group(self.plan.lds as usize);
        }
        let count = waves.len() as u32;
        for (number, wave) in waves.iter_mut().enumerate() {
            let first = number as u32 * LANES as u32;
            let active = (items - first).min(LANES as u32);
            let exec = if active == LANES as u32 { u32::MAX } else { (1 << active) - 1 };
            wave.s = [0; 128];
            wave.scc = false;
            wave.set_mode(self.kernel.descriptor.mode);
            (wave.at, wave.ended, wave.waits) = (self.entry, false, false);
            (wave.workgroup, wave.number) = (place, number as u32);
            wave.set_exec(exec);
            for l in 0..LANES {
                let item = first + l as u32;
                let id = [item % bx, item / bx % by, item / bx / by];
                let wanted = self.kernel.descriptor.workitem_id;
                let y = if wanted >= 1 { id[1] << 10 } else { 0 };
                let z = if wanted >= 2 { id[2] << 20 } else { 0 };
                wave.v[0][l] = id[0] | y | z;
            }
            let scalars = self.scalars(wave, place, number as u32, count);
            if let Some(checker) = checker.as_deref_mut() {
                wave.global = checker.begin_wave(scalars, 1, exec);
            }
        }
    }

    /// User SGPRs, then workgroup numbers; gives how many were set.
    fn scalars(&self, wave: &mut Wave, place: [u32; 3], number: u32, count: u32) -> usize {
        let d = &self.kernel.descriptor;
        let mut words: Vec<u32> = Vec::new();
        let pair = |words: &mut Vec<u32>, value: u64| words.extend([value as u32, (value >> 32) as u32]);
        if d.user.dispatch_pointer {
            pair(&mut words, self.packet);
        }
        if d.user.queue_pointer {
            pair(&mut words, 0);
        }
        if d.user.kernarg_pointer {
            pair(&mut words, self.arguments);
        }
        if d.user.dispatch_id {
            pair(&mut words, 0);
        }
        if d.user.private_segment_size {
            words.push(self.plan.scratch);
        }
        words.resize(d.user_sgprs as usize, 0);
        words.extend(place.iter().zip(d.workgroup_id).filter(|(_, wanted)| *wanted).map(|(p, _)| *p));
        if d.workgroup_info {
            words.push(u32::from(number == 0) << 31 | count);
        }
        wave.s[..words.len()].copy_from_slice(&words);
        words.len()
    }

    /// Runs the waves of a workgroup in turns, each to a barrier, its end, or the end of its turn.
    fn group(&self, waves: &mut [Wave], lds: &mut [u8], mut checker: Option<&mut Checker>, counts: &mut Counts) -> Result<(), Box<Fault>> {
        loop {
            let mut ran = false;
            for i in 0..waves.len() {
                if waves[i].ended || waves[i].waits {
                    continue;
                }
                ran = true;
                let wave = &mut waves[i];
                let mut exec = Exec {
                    wave,
                    lds,
                    memory: self.memory,
                    program: self.program,
                    isa: self.isa,
                    checker: checker.as_deref_mut(),
                    fault: None,
                    near: 0,
                    clock: counts.instructions,
                };
                let flow = self.turn(&mut exec, counts);
                if let Some(fault) = exec.fault.take() {
                    return Err(fault);
                }
                match flow {
                    Flow::Barrier => waves[i].waits = true,
                    Flow::End => waves[i].ended = true,
                    _ => {}
                }
            }
            if waves.iter().all(|w| w.ended) {
                return Ok(());
            }
            if waves.iter().all(|w| w.ended || w.waits) {
                // Waves that have ended no longer count at a barrier.
                let met: Vec<u32> = waves.iter().filter(|w| w.waits).map(|w| w.global).collect();
                if let Some(checker) = checker.as_deref_mut() {
                    checker.barrier(&met);
                }
                waves.iter_mut().for_each(|w| w.waits = false);
            } else if !ran {
                return Ok(());
            }
        }
    }

    /// Runs a wave for a while.
    fn turn(&self, exec: &mut Exec<'_>, counts: &mut Counts) -> Flow {
        let plain = exec.checker.is_none() && !self.options.trace;
        let (flow, executed) = if plain { (self.isa.steps.turn)(exec, counts) } else { self.careful_turn(exec, counts) };
        counts.instructions += executed;
        if flow != Flow::Fault && self.options.max_instructions != u64::MAX {
            let left = self.budget.fetch_sub(executed.min(self.budget.load(Ordering::Relaxed)), Ordering::Relaxed);
            if left <= executed {
                let inst = &self.program.codes[exec.wave.at.min(self.program.codes.len() - 1)].inst;
                return exec.fail(
                    inst,
                    Kind::Hang,
                    0,
                    None,
                    format!("more than {} instructions in one launch", self.options.max_instructions),
                );
            }
        }
        flow
    }

    /// As `flow::turn`, with registers checked and instructions shown.
    fn careful_turn(&self, exec: &mut Exec<'_>, counts: &mut Counts) -> (Flow, u64) {
        let mut executed = 0;
        loop {
            let at = exec.wave.at;
            let Some(code) = self.program.codes.get(at) else { return (Flow::End, executed) };
            let mask = exec.wave.exec();
            counts.executed[at] += 1;
            counts.lanes[at] += u64::from(mask.count_ones());
            executed += 1;
            exec.clock += 1;
            let defined = match exec.checker.as_deref_mut().map(|c| c.registers_read(exec.wave, &code.uses)) {
                Some(Err(found)) => return (exec.fail(&code.inst, found.kind, found.lanes, None, found.detail), executed),
                Some(Ok(defined)) => defined,
                None => [u32::MAX; 2],
            };
            let flow = (code.step)(exec, &code.inst);
            if let Some(checker) = exec.checker.as_deref_mut() {
                checker.registers_written(exec.wave.global, &code.uses, mask, defined);
            }
            if self.options.trace {
                crate::trace::show(exec.wave, code);
            }
            exec.wave.at = match flow {
                Flow::Jump(to) => to,
                Flow::Fault => return (flow, executed),
                _ => at + 1,
            };
            if !matches!(flow, Flow::Next | Flow::Jump(_)) {
                return (flow, executed);
            }
            if executed >= TURN {
                return (Flow::Sleep, executed);
            }
        }
    }
}
