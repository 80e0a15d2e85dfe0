//! Runs a plan on a CPU: thread pool, kernels by instruction set.

pub mod isa;
pub mod matmul;
pub mod pool;
