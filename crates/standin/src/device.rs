//! The device behind both libraries: memory, code objects, and the emulator that runs them.

use crate::settings::{self, Counts, Settings};
use rdna::{Arg, CodeObject, Launch, Module, Options};
use std::{
    alloc::Layout,
    collections::{BTreeMap, HashMap},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

/// What calls share.
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) device: Device,
    /// Calls so far, by function.
    calls: HashMap<&'static str, u64>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    let settings = settings::own();
    let device = Device::new(&settings);
    Mutex::new(State { settings, device, calls: HashMap::new() })
});

impl State {
    /// The one state of this copy of the library.
    pub(crate) fn lock() -> MutexGuard<'static, Self> {
        STATE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a call is to answer instead of doing anything, if its turn has come.
    pub(crate) fn fault(&mut self, call: &'static str) -> Option<i32> {
        let count = self.calls.entry(call).or_default();
        *count += 1;
        let turn = |f: &&settings::Fault| f.call == call && *count > f.after && *count - f.after <= f.times;
        self.settings.faults.iter().find(turn).map(|f| f.code)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.device.tell();
    }
}

/// Memory that the host sees; the emulator has a copy of it.
struct Shared {
    bytes: usize,
    layout: Layout,
    address: u64,
}

/// A kernel of a loaded code object.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) module: usize,
    pub(crate) name: String,
}

/// What is to be run.
#[derive(Clone)]
pub(crate) enum Job {
    Kernel { function: Function, grid: [u32; 3], block: [u32; 3], args: Vec<Arg> },
    Copy { from: u64, to: u64, bytes: usize },
}

/// Memory, code, and what was counted.
pub(crate) struct Device {
    emulator: rdna::Device,
    pub(crate) total: u64,
    used: u64,
    used_shared: u64,
    sizes: HashMap<u64, u64>,
    shared: BTreeMap<usize, Shared>,
    pub(crate) modules: Vec<Module>,
    pub(crate) counts: Counts,
    counts_file: Option<std::path::PathBuf>,
    /// Why nothing works any more.
    pub(crate) lost: Option<String>,
}

/// What device memory begins at multiples of.
const ALIGN: usize = 4096;

impl Device {
    fn new(settings: &Settings) -> Self {
        // A kernel that hangs is noticed after so many instructions.
        let options = Options { threads: settings.threads, max_instructions: 1 << 40, ..Options::default() };
        Self {
            emulator: rdna::Device::new(options),
            total: settings.memory,
            used: 0,
            used_shared: 0,
            sizes: HashMap::new(),
            shared: BTreeMap::new(),
            modules: vec![],
            counts: Counts::default(),
            counts_file: settings.counts.clone(),
            lost: None,
        }
    }

    /// Writes what was counted to where the settings say.
    pub(crate) fn tell(&self) {
        if let (Some(path), Ok(text)) = (&self.counts_file, serde_json::to_vec(&self.counts)) {
            let written = std::fs::write(path, text);
            if let Err(error) = written {
                eprintln!("stand-in: {}: {error}", path.display());
            }
        }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.total - self.used - self.used_shared
    }

    /// Device memory; nothing where there is not enough.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Option<u64> {
        if bytes as u64 > self.free_bytes() {
            return None;
        }
        let address = self.emulator.allocate(bytes as u64, "device memory").ok()?;
        self.used += bytes as u64;
        self.counts.most_device = self.counts.most_device.max(self.used);
        self.sizes.insert(address, bytes as u64);
        Some(address)
    }

    /// Gives it back; whether there was such.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        let Some(bytes) = self.sizes.remove(&address) else { return false };
        self.used -= bytes;
        self.emulator.free(address);
        true
    }

    /// Memory that host and device share, by the host's address.
    pub(crate) fn allocate_shared(&mut self, bytes: usize) -> Option<usize> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGN).ok()?;
        if bytes as u64 > self.free_bytes() {
            return None;
        }
        let address = self.emulator.allocate(bytes as u64, "shared memory").ok()?;
        // SAFETY: not of size 0.
        let host = unsafe { std::alloc::alloc_zeroed(layout) } as usize;
        if host == 0 {
            return None;
        }
        self.used_shared += bytes as u64;
        self.counts.most_shared = self.counts.most_shared.max(self.used_shared);
        self.shared.insert(host, Shared { bytes, layout, address });
        Some(host)
    }

    /// Gives it back; whether there was such.
    pub(crate) fn free_shared(&mut self, host: usize) -> bool {
        let Some(shared) = self.shared.remove(&host) else { return false };
        self.used_shared -= shared.bytes as u64;
        self.emulator.free(shared.address);
        // SAFETY: it was allocated with this layout, and is forgotten.
        unsafe { std::alloc::dealloc(host as *mut u8, shared.layout) };
        true
    }

    /// Where the emulator has what is at an address, which may be the host's.
    pub(crate) fn translate(&self, address: u64) -> u64 {
        match self.shared.range(..=address as usize).next_back() {
            Some((host, shared)) if (address as usize) < host + shared.bytes.max(1) => shared.address + (address - *host as u64),
            _ => address,
        }
    }

    /// Copies to the device.
    pub(crate) fn write(&mut self, to: u64, bytes: &[u8]) -> bool {
        self.counts.copied_in += bytes.len() as u64;
        let to = self.translate(to);
        self.emulator.write(to, bytes).is_ok()
    }

    /// Copies from the device.
    pub(crate) fn read(&mut self, from: u64, bytes: &mut [u8]) -> bool {
        self.counts.copied_out += bytes.len() as u64;
        let from = self.translate(from);
        self.emulator.read(from, bytes).is_ok()
    }

    /// Loads a code object.
    pub(crate) fn load(&mut self, code: &[u8]) -> Result<usize, String> {
        let object = CodeObject::read(code).map_err(|e| e.to_string())?;
        self.modules.push(self.emulator.load(object).map_err(|e| e.to_string())?);
        Ok(self.modules.len() - 1)
    }

    /// Runs jobs in order. What goes wrong in a kernel loses the device.
    pub(crate) fn run(&mut self, jobs: &[Job]) {
        self.counts.submissions += 1;
        for (host, shared) in &self.shared {
            // SAFETY: memory of this size that was allocated here; who writes to it while kernels run gets what real devices give.
            let bytes = unsafe { std::slice::from_raw_parts(*host as *const u8, shared.bytes) };
            if let Err(error) = self.emulator.write(shared.address, bytes) {
                self.lost.get_or_insert_with(|| error.to_string());
            }
        }
        for job in jobs {
            if self.lost.is_some() {
                return;
            }
            let done = match job {
                Job::Kernel { function, grid, block, args } => {
                    self.counts.dispatches += 1;
                    let launch = Launch { grid: *grid, block: *block, args, dynamic_lds: 0 };
                    self.emulator.launch(&self.modules[function.module], &function.name, &launch).map(|_| ()).map_err(|e| e.to_string())
                }
                Job::Copy { from, to, bytes } => {
                    let mut room = vec![0; *bytes];
                    let moved = self.emulator.read(*from, &mut room).and_then(|()| self.emulator.write(*to, &room));
                    moved.map_err(|e| e.to_string())
                }
            };
            if let Err(why) = done {
                self.lost = Some(why);
            }
        }
        for (host, shared) in &self.shared {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts_mut(*host as *mut u8, shared.bytes) };
            if let Err(error) = self.emulator.read(shared.address, bytes) {
                self.lost.get_or_insert_with(|| error.to_string());
            }
        }
        self.tell();
    }

    /// The arguments of a kernel, as they lie one after the other in memory that the caller gives.
    ///
    /// # Safety
    /// `params` points to as many pointers as the kernel has arguments, each to a value of its size.
    pub(crate) unsafe fn arguments(&self, function: &Function, params: *const *const u8) -> Result<Vec<Arg>, String> {
        let kernel = self.modules[function.module].object().kernel(&function.name).map_err(|e| e.to_string())?;
        let explicit = kernel.arguments.iter().filter(|a| !a.hidden()).enumerate();
        Ok(explicit
            .map(|(i, argument)| {
                // SAFETY: the caller's promise.
                let bytes = unsafe { std::slice::from_raw_parts(*params.add(i), argument.size as usize) };
                match argument.kind.as_str() {
                    "global_buffer" => Arg::Pointer(self.translate(bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))),
                    _ => Arg::Bytes(bytes.to_vec()),
                }
            })
            .collect())
    }
}
