//! The driver of a gfx1151 in software: the very code objects that ship, executed by [`rdna`].

use super::{Buffer, Command, CommandList, DeviceInfo, Driver, DriverError, Kernel, Place, Ticket, Times};
use rdna::{Arg, Checks, CodeObject, Kind, Launch, LaunchError, LoadError, Module, Options};
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

/// How the emulator runs.
#[derive(Debug, Clone, Copy)]
pub struct SimOptions {
    /// Bytes of memory that it has.
    pub memory: usize,
    /// Threads over which the workgroups of a launch are spread.
    pub threads: usize,
    /// Whether races, reads of what nothing wrote and misaligned accesses are looked for: several times slower, on one thread.
    pub checks: bool,
    /// Instructions of waves after which a launch is taken to hang.
    pub most_instructions: u64,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self { memory: 16 << 30, threads: 1, checks: false, most_instructions: 1 << 40 }
    }
}

struct Memory {
    address: u64,
    bytes: usize,
}

/// A gfx1151 in software.
pub struct Sim {
    info: DeviceInfo,
    device: rdna::Device,
    buffers: BTreeMap<Buffer, Memory>,
    used: usize,
    modules: HashMap<String, Module>,
    kernels: Vec<(String, String, u32)>,
    by_name: HashMap<(String, String), Kernel>,
    lists: HashMap<CommandList, Vec<Command>>,
    done: BTreeMap<Ticket, Times>,
    next: u32,
    began: Instant,
    lost: Option<DriverError>,
}

/// Multiples of which allocations are.
const ALIGN: usize = 256;
/// Results of submissions that nobody has waited for.
const KEPT: usize = 64;

impl Sim {
    /// A device without allocations.
    #[must_use]
    pub fn new(options: SimOptions) -> Self {
        let SimOptions { memory, threads, checks, most_instructions } = options;
        let checks = if checks { Checks::ALL } else { Checks::NONE };
        Self {
            info: DeviceInfo { name: "gfx1151 in software".into(), architecture: "gfx1151".into(), memory, driver: String::new() },
            device: rdna::Device::new(Options { threads, checks, max_instructions: most_instructions, ..Options::default() }),
            buffers: BTreeMap::new(),
            used: 0,
            modules: HashMap::new(),
            kernels: vec![],
            by_name: HashMap::new(),
            lists: HashMap::new(),
            done: BTreeMap::new(),
            next: 0,
            began: Instant::now(),
            lost: None,
        }
    }

    fn id(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn alive(&self) -> Result<(), DriverError> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    /// The address of `bytes` bytes at a place.
    fn address(&self, place: Place, bytes: usize) -> Result<u64, DriverError> {
        let memory = self.buffers.get(&place.buffer).ok_or_else(|| DriverError::Misuse(format!("there is no {:?}", place.buffer)))?;
        if place.offset.checked_add(bytes).is_none_or(|end| end > memory.bytes) {
            let Place { offset, .. } = place;
            return Err(DriverError::Misuse(format!("{bytes} bytes at {offset} are outside of a buffer of {}", memory.bytes)));
        }
        Ok(memory.address + place.offset as u64)
    }

    fn run(&mut self, command: &Command) -> Result<(), DriverError> {
        match command {
            Command::Copy { from, to, bytes } => {
                let mut room = vec![0; *bytes];
                self.read(*from, &mut room)?;
                self.write(*to, &room)
            }
            Command::Dispatch { kernel, grid, pointers, numbers } => {
                let mut args = vec![];
                for place in pointers {
                    args.push(Arg::Pointer(self.address(*place, 0)?));
                }
                args.extend(numbers.iter().map(|n| Arg::U32(*n)));
                let (object, name, threads) = &self.kernels[kernel.0 as usize];
                let module = &self.modules[object];
                let launch = Launch { grid: *grid, block: [*threads, 1, 1], args: &args, dynamic_lds: 0 };
                self.device.launch(module, name, &launch).map(|_| ()).map_err(|error| match error {
                    LaunchError::Fault(fault) if fault.kind == Kind::Hang => DriverError::Timeout(fault.to_string()),
                    LaunchError::Fault(fault) => DriverError::Lost(fault.to_string()),
                    other => DriverError::Misuse(other.to_string()),
                })
            }
        }
    }
}

impl Driver for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn available(&self) -> usize {
        self.info.memory - self.used
    }

    fn allocate(&mut self, bytes: usize, what: &str) -> Result<Buffer, DriverError> {
        self.alive()?;
        let taken = bytes.max(1).checked_next_multiple_of(ALIGN).filter(|taken| *taken <= self.available());
        let Some(taken) = taken else {
            return Err(DriverError::OutOfMemory { what: what.into(), needed: bytes, available: self.available() });
        };
        let address = self.device.allocate(bytes as u64, what).map_err(|e| DriverError::Misuse(e.to_string()))?;
        self.used += taken;
        let buffer = Buffer(self.id());
        self.buffers.insert(buffer, Memory { address, bytes });
        Ok(buffer)
    }

    fn free(&mut self, buffer: Buffer) {
        if let Some(memory) = self.buffers.remove(&buffer) {
            self.used -= memory.bytes.max(1).next_multiple_of(ALIGN);
            self.device.free(memory.address);
        }
    }

    fn write(&mut self, to: Place, bytes: &[u8]) -> Result<(), DriverError> {
        self.alive()?;
        let address = self.address(to, bytes.len())?;
        self.device.write(address, bytes).map_err(|e| DriverError::Misuse(e.to_string()))
    }

    fn read(&mut self, from: Place, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.alive()?;
        let address = self.address(from, bytes.len())?;
        self.device.read(address, bytes).map_err(|e| DriverError::Misuse(e.to_string()))
    }

    fn kernel(&mut self, object: &str, code: &[u8], kernel: &str) -> Result<Kernel, DriverError> {
        self.alive()?;
        let key = (object.to_string(), kernel.to_string());
        if let Some(known) = self.by_name.get(&key) {
            return Ok(*known);
        }
        let broken = |why: String| DriverError::Code { object: object.into(), why };
        let device = self.info.architecture.clone();
        if !self.modules.contains_key(object) {
            let read = CodeObject::read(code).map_err(|e| match e {
                LoadError::Unsupported(made_for) => DriverError::Architecture { object: object.into(), made_for, device },
                other => broken(other.to_string()),
            })?;
            let module = self.device.load(read).map_err(|e| broken(e.to_string()))?;
            self.modules.insert(object.into(), module);
        }
        let threads = self.modules[object].object().kernel(kernel).map_err(|e| broken(e.to_string()))?.max_workgroup;
        let id = Kernel(self.kernels.len() as u32);
        self.kernels.push((key.0.clone(), key.1.clone(), threads));
        self.by_name.insert(key, id);
        Ok(id)
    }

    fn record(&mut self, commands: &[Command]) -> Result<CommandList, DriverError> {
        self.alive()?;
        for command in commands {
            match command {
                Command::Dispatch { kernel, grid, pointers, .. } => {
                    if kernel.0 as usize >= self.kernels.len() || grid.contains(&0) {
                        return Err(DriverError::Misuse(format!("{kernel:?} with a grid of {grid:?} workgroups")));
                    }
                    for place in pointers {
                        self.address(*place, 0)?;
                    }
                }
                Command::Copy { from, to, bytes } => {
                    self.address(*from, *bytes)?;
                    self.address(*to, *bytes)?;
                }
            }
        }
        let list = CommandList(self.id());
        self.lists.insert(list, commands.to_vec());
        Ok(list)
    }

    fn forget(&mut self, list: CommandList) {
        self.lists.remove(&list);
    }

    /// Runs the list to its end.
    fn submit(&mut self, list: CommandList) -> Result<Ticket, DriverError> {
        self.alive()?;
        let commands = self.lists.remove(&list).ok_or_else(|| DriverError::Misuse(format!("there is no {list:?}")))?;
        let began = self.began.elapsed();
        let ran = commands.iter().try_for_each(|command| self.run(command));
        self.lists.insert(list, commands);
        match ran {
            // As with a real device: what failed is told by who waits for it, and from then on.
            Err(lost @ (DriverError::Lost(_) | DriverError::Timeout(_))) => self.lost = Some(lost),
            other => other?,
        }
        let ticket = Ticket(self.id());
        self.done.insert(ticket, Times { began, ended: self.began.elapsed() });
        while self.done.len() > KEPT {
            self.done.pop_first();
        }
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket, _most: Duration) -> Result<Times, DriverError> {
        self.alive()?;
        self.done.remove(&ticket).ok_or_else(|| DriverError::Misuse(format!("nobody has submitted {ticket:?}, or it was waited for")))
    }
}
