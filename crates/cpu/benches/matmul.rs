//! How near products come to the machine's limits: weights read per second against plain reading, for one to eight
//! columns, and multiply-adds per second for prompts.
//!
//! `cargo bench -p onebit-cpu --bench matmul -- [threads] [type ...]`; `ONEBIT_ISA` lowers the instruction set.
//!
//! With `--serve`, lines `TYPE ROWS COLUMNS` on stdin are answered each with the seconds of one product of int8 columns, so that a
//! script can measure another engine in turn (`tools/weight_table.py`).

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use onebit_cpu::{
    isa::Isa,
    matmul::{ActivationKind, Activations, Matrix, SharedRows, matmul},
    pool::Pool,
};
use onebit_quants::WeightType;
use std::{hint::black_box, time::Instant};

/// Weights of the matrix for decoding: too many for caches.
const WEIGHTS: usize = 96 << 20;
const WIDTH: usize = 1536;

/// The shortest time of some runs, in seconds.
fn best(runs: usize, mut f: impl FnMut()) -> f64 {
    let time = |f: &mut dyn FnMut()| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(|_| time(&mut f)).fold(f64::INFINITY, f64::min)
}

/// Bytes per second that the threads read from memory.
fn bandwidth(pool: &Pool) -> f64 {
    let data = vec![1u64; 32 << 20];
    let time = best(7, || {
        pool.run(&|w| {
            let part = &data[w.chunk(data.len(), 64)];
            let sums = part.as_chunks::<64>().0.iter().fold([0u64; 64], |mut sums, c| {
                sums.iter_mut().zip(c).for_each(|(s, v)| *s ^= v);
                sums
            });
            black_box(sums);
        });
    });
    (data.len() * 8) as f64 / time
}

/// Rows of any content whose scales are moderate.
fn weights(ty: WeightType, rows: usize) -> Vec<u8> {
    let mut seed = 1u64;
    let mut values = vec![0.0; ty.block_values()];
    let (header, mut blocks) = (vec![0; ty.header_bytes()], Vec::new());
    while blocks.len() < 64 * ty.block_bytes() {
        let mut row = header.clone();
        row.extend((0..ty.block_bytes()).map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 56) as u8
        }));
        ty.decode(&row, &mut values);
        if values.iter().all(|v| v.is_finite() && v.abs() < 1e10) {
            blocks.extend(&row[header.len()..]);
        }
    }
    let mut blocks = blocks.into_iter().cycle();
    let row = WIDTH / ty.block_values() * ty.block_bytes();
    (0..rows).flat_map(|_| header.iter().copied().chain(blocks.by_ref().take(row)).collect::<Vec<u8>>()).collect()
}

struct Case {
    matrix: Matrix,
    x: Activations,
    y: Vec<f32>,
}

impl Case {
    fn new(ty: WeightType, rows: usize, columns: usize, kind: ActivationKind, pool: &Pool) -> Self {
        let isa = Isa::detect();
        let matrix = Matrix::from_bytes(ty, WIDTH, &weights(ty, rows), &isa, kind, pool).unwrap();
        let mut x = Activations::new(matrix.activation(), columns, WIDTH, isa).unwrap();
        let row: Vec<f32> = (0..WIDTH).map(|i| (i as f32).sin()).collect();
        (0..columns).for_each(|c| x.set(c, &row));
        let y = vec![0.0; rows * columns];
        Self { matrix, x, y }
    }
    /// Seconds that a product with the first `columns` columns takes.
    fn time(&mut self, columns: usize, runs: usize, pool: &Pool) -> f64 {
        let rows = self.matrix.rows();
        // SAFETY: `y` is that large and borrowed; threads get disjoint rows.
        let y = unsafe { SharedRows::new(self.y.as_mut_ptr(), self.x.columns(), rows, rows) };
        let (matrix, x) = (&self.matrix, &self.x);
        best(runs, || pool.run(&|w| matmul(matrix, x, 0..columns, w.chunk(rows, matrix.row_step()), &y)))
    }
}

/// Answers lines on stdin. The last asked case stays ready, so that asking again costs nothing else.
fn serve(pool: &Pool) {
    let mut last: Option<(String, Case)> = None;
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let (rows, columns) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        let mut case = match last.take() {
            Some((asked, case)) if asked == line => case,
            _ => Case::new(WeightType::by_name(words[0]).unwrap(), rows, columns, ActivationKind::Int8, pool),
        };
        println!("{}", case.time(columns, 1, pool));
        last = Some((line, case));
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let threads = args.iter().find_map(|a| a.parse().ok()).unwrap_or_else(Pool::default_threads);
    let named: Vec<WeightType> = args.iter().filter_map(|a| WeightType::by_name(a)).collect();
    let usual = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "TQ2_0", "IQ4_NL", "F16", "BF16", "F32"];
    let types = if named.is_empty() { usual.iter().filter_map(|n| WeightType::by_name(n)).collect() } else { named };
    let pool = Pool::new(threads);
    if args.iter().any(|a| a == "--serve") {
        return serve(&pool);
    }
    let limit = bandwidth(&pool);
    println!("{} threads, {}, reading {:.1} GB/s", pool.threads(), Isa::detect().level(), limit / 1e9);
    println!("{:8} {:>10} {:>48} {:>24}", "", "bytes", "GB/s of weights (share), columns 1, 2, 4, 8", "GMAC/s, 512 columns");
    for ty in types {
        for (kind, name, runs) in [(ActivationKind::Int8, "", 5), (ActivationKind::Int16, " int16", 5), (ActivationKind::F32, " f32", 2)] {
            if kind != ActivationKind::Int8 && ty.block_values() == 1 {
                continue;
            }
            let mut case = Case::new(ty, WEIGHTS / WIDTH / 16 * 16, 8, kind, &pool);
            let bytes = case.matrix.resident_bytes();
            let rates = [1, 2, 4, 8].map(|columns| bytes as f64 / case.time(columns, runs, &pool));
            let rates = rates.map(|r| format!("{:5.1} ({:3.0}%)", r / 1e9, 100.0 * r / limit));
            let mut prompt = Case::new(ty, 576, 512, kind, &pool);
            let macs = (576 * 512 * WIDTH) as f64 / prompt.time(512, runs, &pool);
            let name = format!("{}{name}", ty.name());
            println!("{name:14} {:>6.2} bits {} {:>12.1}", bytes as f64 * 8.0 / WEIGHTS as f64, rates.join(" "), macs / 1e9);
        }
    }
}
