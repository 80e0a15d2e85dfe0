//! What the machine can do, found at run time.

use std::fmt;

/// Families of instructions that kernels are written for, each including those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust, on any machine.
    Scalar,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, VL, DQ and VNNI.
    Avx512,
    /// Tiles of int8 (AMX), which the system lets this process use.
    Amx,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Amx];

    /// The name that `ONEBIT_ISA` knows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The instructions that kernels may use. One can only be had for a level that this machine has, which is what makes
/// calling its kernels sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Isa {
    level: Level,
}

impl Isa {
    /// The best that the machine has; the environment's `ONEBIT_ISA` (`scalar`, `avx2`, `avx512`, `amx`) can lower it, never raise it.
    pub fn detect() -> Self {
        let best = Self { level: machine() };
        let Some(wish) = std::env::var_os("ONEBIT_ISA") else { return best };
        match Level::ALL.into_iter().find(|l| wish.eq_ignore_ascii_case(l.name())) {
            Some(level) => best.at_most(level),
            None => {
                tracing::warn!("ONEBIT_ISA={} is none of scalar, avx2, avx512, amx; using {}", wish.display(), best.level);
                best
            }
        }
    }
    /// The same machine used up to `level` only.
    pub fn at_most(self, level: Level) -> Self {
        Self { level: self.level.min(level) }
    }
    /// Plain Rust only.
    pub const fn scalar() -> Self {
        Self { level: Level::Scalar }
    }
    /// The highest level that may be used.
    pub const fn level(self) -> Level {
        self.level
    }
}

/// What the machine and its operating system support.
fn machine() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! has {
            ($($feature:tt),*) => { $(std::arch::is_x86_feature_detected!($feature))&&* };
        }
        if has!("avx2", "fma", "f16c") {
            let wide = has!("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni");
            return match wide {
                // Tests multiply tiles by their definition where there is no unit for it.
                true if has_tiles() || cfg!(test) => Level::Amx,
                true => Level::Avx512,
                false => Level::Avx2,
            };
        }
    }
    Level::Scalar
}

/// Whether tiles of int8 can be multiplied: the processor has AMX, and the system lets this process use it, which is asked for
/// here (Linux, Documentation/arch/x86/xstate.rst).
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_tiles() -> bool {
    use std::{arch::x86_64::__cpuid_count, sync::LazyLock};
    /// `ARCH_REQ_XCOMP_PERM`, for the state component of tile data.
    const REQUEST: [libc::c_long; 2] = [0x1023, 18];
    static THERE: LazyLock<bool> = LazyLock::new(|| {
        // Leaf 7: bits 24 and 25 of EDX are AMX-TILE and AMX-INT8.
        let there = __cpuid_count(0, 0).eax >= 7 && __cpuid_count(7, 0).edx >> 24 & 3 == 3;
        // SAFETY: the call changes nothing but the permission.
        there && cfg!(target_os = "linux") && unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST[0], REQUEST[1]) } == 0
    });
    *THERE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_only_go_down() {
        let best = Isa { level: Level::Avx2 };
        assert_eq!(best.at_most(Level::Avx512).level(), Level::Avx2);
        assert_eq!(best.at_most(Level::Scalar).level(), Level::Scalar);
        assert!(Isa::detect().level() <= machine());
    }
}
